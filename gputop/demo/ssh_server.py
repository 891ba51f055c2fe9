"""The simulated cluster behind real SSH: one server for each node and one for the login node, each on its own port.

A client that starts the bootstrap gets what a probe or runner would say; nothing that it sends is executed.
"""

import asyncio
import base64
import contextlib
import heapq
import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncssh

from gputop.demo import messages
from gputop.demo.machines import Reach
from gputop.demo.nvidia_smi import answer
from gputop.demo.payload import PayloadError, Unpacker, size_of
from gputop.demo.world import World
from gputop.model.clock import Clock
from gputop.model.errors import SourceError
from gputop.probe import wire
from gputop.sources.ssh.framing import FrameReader

DENIAL = "Access denied by pam_slurm_adopt: you have no active jobs on this node\n"
Channel = asyncssh.SSHServerChannel[bytes]


class Session(asyncssh.SSHServerSession[bytes]):
    """One channel: it reads the payload, then hands over to what the payload asks for."""

    def __init__(
        self,
        started: "Callable[[Session, str, dict[str, Any]], None]",
        unpacker: Unpacker,
        answer: Callable[[str], tuple[int, str] | None] = lambda _command: None,
    ) -> None:
        """started takes what the payload asks for; answer gives the status and output of a command of another kind."""
        self._started = started
        self._unpacker = unpacker
        self._answer = answer
        self._done: tuple[int, str] | None = None
        self._size = 0
        self._payload = bytearray()
        self._begun = False
        self.channel: Channel | None = None
        self.more: Callable[[bytes], None] = lambda _data: None
        """Takes what comes after the payload."""
        self.closed = False

    def connection_made(self, chan: Channel) -> None:
        self.channel = chan

    def exec_requested(self, command: str) -> bool:
        try:
            self._size = size_of(command)
        except PayloadError:
            self._done = self._answer(command)
            return self._done is not None
        return True

    def session_started(self) -> None:
        if self._done is not None and self.channel is not None:
            status, output = self._done
            self.channel.write(output.encode())
            self.channel.exit(status)

    def shell_requested(self) -> bool:
        return False

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._begun:
            self.more(data)
            return
        self._payload += data
        if len(self._payload) < self._size:
            return
        rest = bytes(self._payload[self._size :])
        try:
            program, options = self._unpacker.options(bytes(self._payload[: self._size]))
        except PayloadError as error:
            self.end(3, str(error))
            return
        self._begun = True
        self._payload.clear()
        self._started(self, program, options)
        if rest:
            self.more(rest)

    def eof_received(self) -> bool:
        self.end(0)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def send(self, message: dict[str, Any], nonce: str) -> None:
        """One message, by the probe's own encoder."""
        if self.channel is not None and not self.closed:
            with contextlib.suppress(OSError):
                self.channel.write(wire.encode(message, nonce))

    def end(self, status: int, words: str = "") -> None:
        if self.channel is not None and not self.closed:
            with contextlib.suppress(OSError):
                if words:
                    self.channel.write_stderr(words.encode())
                self.channel.exit(status)


class Door(asyncssh.SSHServer):
    """Lets in whoever has the demo's key; a denied node says why and hangs up."""

    def __init__(self, host: "HostServer") -> None:
        self._host = host
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._host.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._host.connections.discard(self._connection)

    async def begin_auth(self, username: str) -> bool:
        if self._host.denied and self._connection is not None:
            self._connection.send_auth_banner(DENIAL)
            await asyncio.sleep(0.05)
            self._connection.abort()
        return True

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        return self._host.session()


class HostServer:
    """One listener on loopback."""

    def __init__(self, key: asyncssh.SSHKey, session: Callable[[], Session]) -> None:
        self.key = key
        self.port = 0
        self.denied = False
        self.session = session
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._hole: asyncio.Server | None = None

    async def listen(self, options: asyncssh.SSHServerConnectionOptions) -> None:
        """Takes a free port the first time, and the same one later."""
        await self._fill()
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            options=options,
            server_host_keys=[self.key],
            server_factory=partial(Door, self),
            encoding=None,
            backlog=20,
        )
        self.port = self._acceptor.get_port()

    async def refuse(self) -> None:
        """Nobody listens any more, and who is in is thrown out."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        for connection in list(self.connections):
            connection.abort()

    async def swallow(self) -> None:
        """The port takes connections and never says a word, as a host that hangs; open sessions go silent."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        if self._hole is None:
            self._hole = await asyncio.start_server(_never_answer, "127.0.0.1", self.port)

    async def _fill(self) -> None:
        if self._hole is not None:
            self._hole.close()
            self._hole = None

    async def close(self) -> None:
        await self.refuse()
        await self._fill()


async def _never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await reader.read()
    writer.close()


class ProbeTalk:
    """One probe's session: it says hello, then a sample a period until it is closed."""

    def __init__(self, world: World, node: int, session: Session, options: dict[str, Any]) -> None:
        self.node = node
        self.session = session
        self.period = float(options["period"])
        self._world = world
        self._nonce = str(options["nonce"])
        self._seq = 0
        self._driver = ""
        self._lines: int | None = None
        session.send(messages.hello(world, node), self._nonce)

    def say(self) -> None:
        """One period's messages; none while the host hangs."""
        world, machine = self._world, self._world.machines[self.node]
        if machine.reach is Reach.SILENT:
            return
        self._seq += 1
        if machine.driver != self._driver and not machine.hung_since:
            self._driver = machine.driver
            self.session.send(messages.driver(world, self.node), self._nonce)
        self.session.send(messages.sample(world, self.node, self._seq, self.period), self._nonce)
        lines = messages.kernel(world, self.node, self._lines)
        if lines is not None:
            self._lines = machine.logged
            self.session.send(lines, self._nonce)


class SimulatedServers:
    """All servers of a world, and the one loop that lets them speak."""

    def __init__(self, world: World, clock: Clock, authorized: asyncssh.SSHAuthorizedKeys) -> None:
        self._world = world
        self._clock = clock
        self._unpacker = Unpacker()
        self._options = asyncssh.SSHServerConnectionOptions(
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            authorized_client_keys=authorized,
            allow_scp=False,
            agent_forwarding=False,
            compression_algs=None,
            keepalive_interval=0,
            login_timeout=30,
        )
        self.nodes = [HostServer(_new_key(), partial(self._node_session, node)) for node in range(len(world.names))]
        self.login = HostServer(_new_key(), lambda: Session(self._runner, self._unpacker))
        self._reach = [Reach.UP] * len(world.names)
        self._due: list[tuple[float, int, ProbeTalk]] = []
        self._order = itertools.count()
        self._work: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Opens every port."""
        for host in (*self.nodes, self.login):
            await host.listen(self._options)

    def _node_session(self, node: int) -> Session:
        return Session(partial(self._probe, node), self._unpacker, partial(answer, self._world, node))

    def _probe(self, node: int, session: Session, program: str, options: dict[str, Any]) -> None:
        if program != "main":
            session.end(2, f"a node runs the probe, not {program}")
            return
        talk = ProbeTalk(self._world, node, session, options)
        talk.say()
        heapq.heappush(self._due, (self._clock.now() + talk.period, next(self._order), talk))

    def _runner(self, session: Session, program: str, options: dict[str, Any]) -> None:
        if program != "runner":
            session.end(2, f"the login node runs the runner, not {program}")
            return
        nonce = str(options["nonce"])
        frames = FrameReader(nonce)

        def more(data: bytes) -> None:
            try:
                payloads = frames.feed(data)
            except SourceError as error:
                session.end(2, str(error))
                return
            for payload in payloads:
                task = asyncio.get_running_loop().create_task(self._answer(session, nonce, json.loads(payload)))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

        session.more = more
        session.send({"id": 0, "status": 0, "stdout": "", "stderr": "", "timed_out": False}, nonce)

    async def _answer(self, session: Session, nonce: str, request: dict[str, Any]) -> None:
        self._world.advance(self._clock.now())
        reply = self._world.run(tuple(str(word) for word in request["argv"]))
        limit = float(request["timeout"])
        await self._clock.sleep(min(reply.seconds, limit))
        late = reply.seconds > limit
        session.send(
            {
                "id": request["id"],
                "status": -9 if late else reply.status,
                "stdout": "" if late else base64.b64encode(reply.stdout.encode()).decode(),
                "stderr": "" if late else base64.b64encode(reply.stderr.encode()).decode(),
                "timed_out": late,
            },
            nonce,
        )

    async def run(self) -> None:
        """Lets time pass and the probes speak, until cancelled."""
        while True:
            now = self._clock.now()
            self._world.advance(now)
            await self._open_and_close()
            while self._due and self._due[0][0] <= now:
                due, _, talk = heapq.heappop(self._due)
                if not talk.session.closed:
                    talk.say()
                    heapq.heappush(self._due, (due + talk.period, next(self._order), talk))
            await self._clock.sleep(0.1)

    async def _open_and_close(self) -> None:
        """Hosts become reachable or not."""
        for node, machine in enumerate(self._world.machines):
            if machine.reach is self._reach[node]:
                continue
            self._reach[node] = machine.reach
            host = self.nodes[node]
            host.denied = machine.reach is Reach.DENIED
            match machine.reach:
                case Reach.REFUSED:
                    await host.refuse()
                case Reach.SILENT:
                    await host.swallow()
                case _:
                    await host.refuse()
                    await host.listen(self._options)

    async def close(self) -> None:
        for task in list(self._work):
            task.cancel()
        for host in (*self.nodes, self.login):
            await host.close()


def _new_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")
