"""SSH servers in this process, a home with nothing but .ssh/config, and a probe that says what a test wants."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import asyncssh
import msgspec

from gputop.model.columns import GPU
from gputop.model.facts import Fact, Heard, LinkChanged
from gputop.model.hosts import Link, LinkState
from gputop.model.sample import Hello, Message, Sample
from gputop.sources.ssh.fleet import Fleet
from gputop.sources.ssh.settings import SshSettings

Handler = Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


class LoopClock:
    """The event loop's own time."""

    def now(self) -> float:
        return 1_000_000.0 + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HandClock:
    """Time that a test moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self._moved = asyncio.Event()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        until = self.time + seconds
        while self.time < until:
            await self._moved.wait()

    def move(self, seconds: float) -> None:
        self.time += seconds
        self._moved.set()
        self._moved = asyncio.Event()


class Server(asyncssh.SSHServer):
    """Counts who comes in; may deny after the key was right, as an account module does."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._node.connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        self._node.users.append(username)
        if self._node.banner:
            self._node.connections[-1].send_auth_banner(self._node.banner)
        if self._node.hangs_up:
            self._node.connections[-1].abort()
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True


class Node:
    """One host: a key, a port, and what happens to whoever runs a command there."""

    def __init__(self, handler: Handler | None) -> None:
        self.handler = handler
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.users: list[str] = []
        self.commands: list[str] = []
        self.banner = ""
        self.hangs_up = False
        self.port = 0
        self.server: asyncssh.SSHAcceptor | None = None

    async def listen(self, authorized: str, key: asyncssh.SSHKey | None = None) -> None:
        self.server = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_host_keys=[key or self.key],
            authorized_client_keys=asyncssh.import_authorized_keys(authorized) if authorized else None,
            server_factory=lambda: Server(self),
            process_factory=self._run,
            encoding=None,
            login_timeout=20,
        )
        self.port = self.server.get_port()

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        self.commands.append(process.command or "")
        try:
            if self.handler is not None:
                await self.handler(process)
        except (asyncssh.Error, OSError, asyncio.CancelledError):
            pass
        process.close()

    def drop_everyone(self) -> None:
        for connection in self.connections:
            connection.abort()

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
            await self.server.wait_closed()
        self.drop_everyone()


class World:
    """Nodes, a home, and facts as they come."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.key.write_private_key(str(home / "key"))
        (home / "key").chmod(0o600)
        self.nodes: dict[str, Node] = {}
        self.facts: list[Fact] = []
        self.links: dict[str, Link] = {}
        self.seen: dict[str, list[LinkState]] = {}
        self.fleet: Fleet | None = None
        self._moved = asyncio.Event()

    async def node(self, name: str, handler: Handler | None = None) -> Node:
        """A host that listens and lets our key in."""
        node = Node(handler or probe())
        await node.listen(self.authorized)
        self.nodes[name] = node
        self.configure()
        return node

    @property
    def authorized(self) -> str:
        return self.key.export_public_key().decode()

    def configure(self, more: str = "", *, known: bool = True, key: str | None = None, first: str = "") -> None:
        """The home's ssh_config; more goes to every host, first before everything."""
        hosts = "".join(f"Host {name}\n  HostName 127.0.0.1\n  Port {n.port}\n" for name, n in self.nodes.items())
        self.write_config(
            f"{first}{hosts}Host *\n  IdentityFile {key or self.home / 'key'}\n"
            f"  UserKnownHostsFile {self.home}/known_hosts\n  GlobalKnownHostsFile /dev/null\n{more}"
        )
        lines = (f"[127.0.0.1]:{n.port} {n.key.export_public_key().decode()}" for n in self.nodes.values())
        (self.home / "known_hosts").write_text("".join(lines) if known else "")

    def write_config(self, text: str) -> None:
        (self.home / ".ssh/config").write_text(text)

    def settings(self, **more: object) -> SshSettings:
        values: dict[str, object] = {
            "cluster": "test",
            "period": 0.5,
            "config": (str(self.home / ".ssh/config"),),
            "connect_timeout": 5.0,
            **more,
        }
        return SshSettings(**values)  # type: ignore[arg-type]

    def deliver(self, fact: Fact) -> None:
        self.facts.append(fact)
        if isinstance(fact, LinkChanged):
            self.links[fact.node] = fact.link
            self.seen.setdefault(fact.node, []).append(fact.link.state)
        self._moved.set()

    def follow(self, *names: str, **more: object) -> Fleet:
        """A fleet on these nodes, or on all."""
        if self.fleet is None:
            self.fleet = Fleet(self.settings(**more), LoopClock(), self.deliver)
        self.fleet.follow({name: name for name in names or self.nodes})
        return self.fleet

    async def until(self, what: str, check: Callable[[], bool], seconds: float = 15.0) -> None:
        async def wait() -> None:
            while not check():
                self._moved.clear()
                await self._moved.wait()

        try:
            await asyncio.wait_for(wait(), seconds)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; links: {self.links}") from None

    async def until_state(self, name: str, state: LinkState) -> Link:
        """Until a link has that state; what it was in between is in seen."""
        await self.until(f"{name} {state}", lambda: name in self.links and self.links[name].state is state)
        return self.links[name]

    def heard(self, name: str) -> list[Heard]:
        return [fact for fact in self.facts if isinstance(fact, Heard) and fact.node == name]

    def samples(self, name: str) -> list[Heard]:
        return [fact for fact in self.heard(name) if isinstance(fact.message, Sample)]

    async def close(self) -> None:
        if self.fleet is not None:
            await asyncio.wait_for(self.fleet.close(), 10)
        for node in self.nodes.values():
            await node.close()


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[World]:
    world = World(home)
    try:
        yield world
    finally:
        await world.close()


def hello(**more: object) -> Hello:
    values: dict[str, object] = {
        "version": 1,
        "hostname": "n",
        "user": "u",
        "gpu_columns": tuple(spec.name for spec in GPU),
        "port_columns": (),
        "host_columns": (),
        **more,
    }
    return Hello(**values)  # type: ignore[arg-type]


def sample(seq: int = 1, mono: float = 100.0) -> Sample:
    return Sample(seq=seq, mono=mono, wall=0.0)


def framed(nonce: str, message: Message) -> bytes:
    payload = msgspec.json.encode(message)
    return b"\x01" + nonce.encode() + b" " + str(len(payload)).encode() + b"\n" + payload + b"\n"


def stand_in(options: dict[str, object]) -> tuple[str, bytes]:
    """In the place of the packed probe: the command names the nonce, so that a test's server can speak for it."""
    return f"probe {options['nonce']}", b"go"


def probe(
    *, noise: bytes = b"", every: float = 0.1, silent_after: int | None = None, ends_after: int | None = None
) -> Handler:
    """Says hello and samples; falls silent, or ends, after so many."""

    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        nonce = (process.command or "").split()[-1]
        process.stdout.write(noise + framed(nonce, hello()))
        seq = 0
        while ends_after is None or seq < ends_after:
            if silent_after is None or seq < silent_after:
                seq += 1
                process.stdout.write(framed(nonce, sample(seq, 100.0 + seq)))
            await asyncio.sleep(every)
        process.exit(0)

    return handler


def answers(**by_word: tuple[int, str]) -> Handler:
    """A shell without python: (status, output) by a word of the command line."""

    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        line = process.command or ""
        for word, (status, output) in by_word.items():
            if word in line:
                process.stdout.write(output.encode())
                process.exit(status)
                return
        process.stderr.write(b"sh: 1: exec: python3: not found\n")
        process.exit(127)

    return handler


def shell(path: str) -> Handler:
    """A real sh with only that folder on its path."""

    async def handler(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or "",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": path, "SQUEUE_FORMAT": "%i"},
            start_new_session=True,
        )
        stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        feeding = asyncio.ensure_future(_pump(process.stdin, stdin.write, stdin.close))
        try:
            await asyncio.gather(_pump(stdout, process.stdout.write), _pump(stderr, process.stderr.write))
            process.exit(await child.wait())
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
            child._transport.close()  # type: ignore[attr-defined]

    return handler


class Reads(Protocol):
    """A stream of bytes."""

    async def read(self, n: int = -1) -> bytes: ...


async def _pump(source: Reads, write: Callable[[bytes], object], end: Callable[[], None] = lambda: None) -> None:
    try:
        while data := await source.read(65536):
            write(data)
    except (asyncssh.Error, OSError):
        pass
    end()
