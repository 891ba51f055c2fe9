"""The simulator's process: a world behind SSH on loopback, until its standard input ends."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import asyncssh

from gputop.demo.live import end_engine
from gputop.demo.scenario import load_scenario
from gputop.demo.ssh_server import SimulatedServers
from gputop.demo.world import World
from gputop.engine.clock import SystemClock
from gputop.model.errors import GputopError
from gputop.sources.ssh.fleet import raise_file_limit


def main() -> int:
    """Says "ready" and when the scenario began, once every port is open and the folder holds what a client needs."""
    arguments = argparse.ArgumentParser(prog="gputop-demo-server", add_help=False)
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--scenario", required=True)
    arguments.add_argument("--nodes", type=int, required=True)
    arguments.add_argument("--seed", type=int, required=True)
    options = arguments.parse_args()
    os.umask(0o077)
    try:
        import uvloop

        uvloop.run(serve(options.folder, options.scenario, options.nodes, options.seed))
    except GputopError as error:
        print(f"gputop demo: {error}", file=sys.stderr)  # noqa: T201 - its caller reads this
        return 1
    return 0


async def serve(folder: Path, scenario: str, nodes: int, seed: int) -> None:
    """Until standard input ends or a signal comes."""
    raise_file_limit()
    clock = SystemClock()
    world = World(load_scenario(scenario), nodes=nodes, seed=seed, now=clock.now())
    key = asyncssh.generate_private_key("ssh-ed25519")
    servers = SimulatedServers(world, clock, asyncssh.import_authorized_keys(key.export_public_key().decode()))
    await servers.listen()
    write_client_files(folder, key, servers, world)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(0, lambda: None if os.read(0, 4096) else stop.set())
    os.write(1, f"ready {world.began}\n".encode())
    running = loop.create_task(servers.run())
    waiting = loop.create_task(stop.wait())
    try:
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        running.cancel()
        waiting.cancel()
        await servers.close()
        # A demo that was killed could not: its engine would wait a quarter of an hour for it.
        await asyncio.to_thread(end_engine, folder)
        shutil.rmtree(folder, ignore_errors=True)


def write_client_files(folder: Path, key: asyncssh.SSHKey, servers: SimulatedServers, world: World) -> None:
    """ssh_config, known_hosts and the one key that opens these servers."""
    key.write_private_key(str(folder / "key"))
    (folder / "key").chmod(0o600)
    hosts = [("login", servers.login), *zip(world.names, servers.nodes, strict=True)]
    config = "".join(f"Host {name}\n  HostName 127.0.0.1\n  Port {host.port}\n" for name, host in hosts)
    common = (
        f"Host *\n  User root\n  IdentityFile {folder / 'key'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n  GlobalKnownHostsFile /dev/null\n"
    )
    (folder / "ssh_config").write_text(config + common)
    lines = (f"[127.0.0.1]:{host.port} {host.key.export_public_key().decode().strip()}\n" for _, host in hosts)
    (folder / "known_hosts").write_text("".join(lines))


if __name__ == "__main__":
    sys.exit(main())
