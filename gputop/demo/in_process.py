"""The simulated cluster inside this process: what SSH and a login node would bring, without either."""

from collections.abc import Callable, Mapping

import msgspec

from gputop.demo import messages
from gputop.demo.machines import Reach
from gputop.demo.world import World
from gputop.model.clock import Clock
from gputop.model.errors import SourceDown, SourceError
from gputop.model.facts import Fact, Heard, LinkChanged
from gputop.model.hosts import Link, LinkState
from gputop.model.sample import Message
from gputop.sources.commands import Completed
from gputop.sources.ssh.host import retry_delay

SILENT_PERIODS = 2
CONNECT_SECONDS = 15.0
_LINKS = {
    Reach.REFUSED: (LinkState.REFUSED, "nobody listens there"),
    Reach.SILENT: (LinkState.TIMEOUT, "no answer in time"),
    Reach.DENIED: (LinkState.DENIED, "Access denied by pam_slurm_adopt: you have no active jobs on this node"),
}


class WorldCommands:
    """A CommandRunner: Slurm's commands go to the world."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock

    @property
    def where(self) -> str:
        return "login"

    async def run(self, argv: tuple[str, ...], *, timeout: float) -> Completed:  # noqa: ASYNC109 - the Protocol's
        self._world.advance(self._clock.now())
        reply = self._world.run(argv)
        await self._clock.sleep(min(reply.seconds, timeout))
        if reply.seconds > timeout:
            raise SourceDown(argv[0], f"no answer within {timeout:.0f} s on login")
        if reply.status == 127:
            raise SourceError(argv[0], f"cannot be started on login: {reply.stderr.strip()}")
        return Completed(status=reply.status, stdout=reply.stdout.encode(), stderr=reply.stderr.encode())


class Host:
    """One host as the SSH source would see it: a state, and how much of it was heard."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.link = Link(state=LinkState.WAITING, since=0.0)
        self.seq = 0
        self.lines_sent: int | None = None
        self.driver = ""
        self.not_before = 0.0
        self.silent_for = 0
        self.tries = 0


class WorldFleet:
    """In the place of the SSH fleet: every period it delivers what all hosts say."""

    def __init__(self, world: World, clock: Clock, deliver: Callable[[Fact], None], period: float) -> None:
        self._world = world
        self._clock = clock
        self._deliver = deliver
        self._period = period
        self._hosts: dict[str, Host] = {}

    def follow(self, hosts: Mapping[str, str]) -> None:
        """Follows exactly these nodes."""
        self._hosts = {node: self._hosts.get(node) or Host(node) for node in hosts}

    async def run(self) -> None:
        """For ever."""
        while True:
            now = self._clock.now()
            self._world.advance(now)
            for host in list(self._hosts.values()):
                self._hear(host, now)
            await self._clock.sleep(self._period)

    def _hear(self, host: Host, now: float) -> None:
        node = self._world.names.index(host.name) if host.name in self._world.names else -1
        if node < 0 or now < host.not_before:
            return
        reach = self._world.machines[node].reach
        if reach is not Reach.UP:
            self._failed(host, reach, now)
            return
        if host.link.state is not LinkState.UP:
            host.seq, host.lines_sent, host.driver, host.tries, host.silent_for = 0, None, "", 0, 0
            self._say(host, LinkState.UP, "", now)
            self._heard(host, messages.hello(self._world, node), now, node)
        host.seq += 1
        machine = self._world.machines[node]
        if machine.driver != host.driver and not machine.hung_since:
            host.driver = machine.driver
            self._heard(host, messages.driver(self._world, node), now, node)
        self._heard(host, messages.sample(self._world, node, host.seq, self._period), now, node)
        lines = messages.kernel(self._world, node, host.lines_sent)
        if lines is not None:
            host.lines_sent = machine.logged
            self._heard(host, lines, now, node)

    def _failed(self, host: Host, reach: Reach, now: float) -> None:
        """A session that stood goes silent for two periods first; a new one fails as it would over SSH."""
        if host.link.state is LinkState.UP and reach is Reach.SILENT and host.silent_for < SILENT_PERIODS:
            host.silent_for += 1
            return
        host.tries += 1
        state, words = _LINKS[reach]
        self._say(host, state, words, now)
        host.not_before = now + retry_delay(host.tries, state, 0.5)

    def _say(self, host: Host, state: LinkState, words: str, now: float) -> None:
        host.link = Link(state=state, since=now, detail=words, tries=host.tries, mode="probe" if not words else "")
        self._deliver(LinkChanged(node=host.name, link=host.link))

    def _heard(self, host: Host, message: messages.Message, now: float, node: int) -> None:
        typed: Message = msgspec.convert(message, Message)
        offset = self._world.machines[node].boot_time
        self._deliver(Heard(node=host.name, message=typed, at=now, offset=offset))
