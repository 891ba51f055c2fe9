"""The engine's process: lock, ledger, socket, recorder, and an end that leaves nothing half done."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from gputop.config import Chosen, choose_cluster, find_config, load_config
from gputop.detect.registry import Chosen as Rules
from gputop.detect.registry import choose
from gputop.engine.clock import SystemClock
from gputop.engine.engine import Engine
from gputop.engine.lock import Lock, private_folder, refuse_network_disk
from gputop.engine.parts import Parts
from gputop.engine.periods import periods_of
from gputop.model.errors import GputopError
from gputop.model.snapshot import About, Snapshot
from gputop.recover.ledger import Ledger
from gputop.sources.ssh.fleet import raise_file_limit
from gputop.stream.session_log import FlightRecorder
from gputop.stream.socket import Publisher


def main() -> int:
    """Runs until its lifetime is over or a signal comes; says ready, or why not, through --ready-fd."""
    arguments = argparse.ArgumentParser(prog="gputop-engine", add_help=False)
    arguments.add_argument("--cluster")
    arguments.add_argument("--config")
    arguments.add_argument("--read-only", action="store_true")
    arguments.add_argument("--ready-fd", type=int, default=-1)
    options = arguments.parse_args()
    os.umask(0o077)
    # What lives long here is many small objects, and hardly any cycle: looking through all of them often costs a tenth.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        path = find_config(options.config)
        chosen = choose_cluster(load_config(path), options.cluster)
        rules = choose(chosen.rules, path)
        import uvloop

        uvloop.run(
            run(chosen, rules, read_only=options.read_only or chosen.cluster.read_only, ready_fd=options.ready_fd)
        )
    except GputopError as error:
        tell(options.ready_fd, str(error))
        print(f"gputop engine: {error}", file=sys.stderr)  # noqa: T201 - its standard error is the engine's log
        return 1
    return 0


def tell(fd: int, word: str) -> None:
    """The launcher waits for this."""
    if fd >= 0:
        try:
            os.write(fd, word.encode()[:4000])
            os.close(fd)
        except OSError:
            return


async def run(chosen: Chosen, rules: Sequence[Rules], *, read_only: bool, ready_fd: int) -> None:
    """One engine from its lock to its last frame."""
    folder = private_folder(chosen.state_dir)
    refuse_network_disk(folder)
    lock = Lock(folder / "lock")
    lock.take()
    raise_file_limit()
    clock = SystemClock()
    ledger = Ledger(folder / "ledger.sqlite")
    parts = Parts(chosen.name, chosen.cluster, clock)
    recorder = None
    if chosen.recorder.enabled:
        recorder = FlightRecorder(
            folder / "log",
            cluster=chosen.name,
            version=version("gputop-cluster"),
            file_bytes=chosen.recorder.file_bytes,
            keep_bytes=chosen.recorder.keep_bytes,
        )
    try:
        await _serve(chosen, rules, clock, ledger, parts, recorder, read_only=read_only, ready_fd=ready_fd)
    finally:
        await parts.close()
        if recorder is not None:
            recorder.close()
        ledger.close()
        lock.release()


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _serve(
    chosen: Chosen,
    rules: Sequence[Rules],
    clock: SystemClock,
    ledger: Ledger,
    parts: Parts,
    recorder: FlightRecorder | None,
    *,
    read_only: bool,
    ready_fd: int,
) -> None:
    def publish(snap: Snapshot) -> str:
        frame, payload = publisher.publish(snap)
        if recorder is None:
            return ""
        if recorder.wants_key(snap.time) and not frame.key:
            recorder.append(publisher.whole(), snap.time, key=True)
        else:
            recorder.append(payload, snap.time, key=frame.key)
        engine.recording(recorder.path)
        return recorder.trouble

    engine = Engine(
        about=About(
            cluster=chosen.name,
            version=version("gputop-cluster"),
            read_only=read_only,
            adapter=parts.adapter,
            started=clock.now(),
            pid=os.getpid(),
        ),
        periods=periods_of(chosen.cluster),
        host_pattern=chosen.cluster.host,
        clock=clock,
        scheduler=parts.scheduler,
        follow=lambda hosts: parts.fleet(engine.deliver).follow(hosts),
        publish=publish,
        ledger=ledger,
        rules=rules,
    )
    publisher = Publisher(
        on_command=lambda peer, command: engine.channel.take(f"{peer.user} (uid {peer.uid})", command),
        on_join=lambda peer: engine.reader_joined(peer.id, peer.user),
        on_leave=lambda peer, clean: engine.reader_left(peer.id, clean=clean),
    )
    private_folder(chosen.socket_path.parent)
    path, group = chosen.socket_path, chosen.cluster.socket_group
    await publisher.serve(path, group)
    engine.step()
    tell(ready_fd, "ready")
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    observing = asyncio.ensure_future(engine.observe())
    ends = {
        observing,
        asyncio.ensure_future(_until_deserted(engine, publisher, path, group)),
        asyncio.ensure_future(stop.wait()),
    }
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if observing.done():
            observing.result()
    finally:
        publisher.stop_listening()
        remove(path)
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        await publisher.close()


async def _until_deserted(engine: Engine, publisher: Publisher, path: Path, group: str) -> None:
    """Returns when the engine's life is over and nobody came in at the last moment."""
    while True:
        await engine.until_over()
        publisher.stop_listening()
        remove(path)
        await asyncio.sleep(0.2)
        if not engine.lifetime.readers:
            return
        await publisher.serve(path, group)
