"""One host for ever: connect, run the probe, hear it, say how it ended, back off, and begin again."""

import contextlib
import random
from collections.abc import Callable

import asyncssh

from gputop.model.clock import Clock
from gputop.model.facts import Fact, Heard, LinkChanged
from gputop.model.hosts import Link, LinkState
from gputop.model.sample import Hello, Message, Sample
from gputop.probe.bootstrap import package_probe
from gputop.sources.ssh.connect import Connector, Refused
from gputop.sources.ssh.failures import classify, lacks_python, no_probe
from gputop.sources.ssh.fallback import Fallback
from gputop.sources.ssh.session import ProbeSession, new_nonce
from gputop.sources.ssh.settings import SshSettings
from gputop.sources.ssh.slots import Slots

SILENT_PERIODS = 1.8
"""Without a message for so many periods a session counts as frozen; a healthy gap is at most 1.4."""
FIRST_SECONDS = 20.0
"""A probe's first message may take so long: an interpreter on a cold, busy node."""
DRIFT = 1e-4
"""How much faster or slower than ours a node's clock may run, so that sessions of weeks do not look stale."""
SLOW_RETRY = 60.0
"""What only a person or a policy can change is tried again this rarely."""
_SILENT = (LinkState.TIMEOUT, "went silent: no packet within two periods")
_NEEDS_A_PERSON = frozenset({LinkState.AUTH_FAILED, LinkState.HOST_KEY, LinkState.DENIED})


class HostTask:
    """Supervises one host; every trouble becomes its link's state and words."""

    def __init__(
        self,
        node: str,
        host: str,
        *,
        settings: SshSettings,
        connector: Connector,
        slots: Slots,
        clock: Clock,
        deliver: Callable[[Fact], None],
    ) -> None:
        self.node = node
        self.host = host
        self._settings = settings
        self._connector = connector
        self._slots = slots
        self._clock = clock
        self._deliver = deliver
        self._connection: asyncssh.SSHClientConnection | None = None
        self._state = LinkState.WAITING
        self._words = ""
        """Why the last try failed; it stays to be seen while the next one is under way."""
        self._heard_at = 0.0
        self._offset = float("inf")
        self._sampled_at = 0.0
        self._tries = 0
        self._silent = False

    async def run(self) -> None:
        """For ever."""
        while True:
            began = self._clock.now()
            try:
                state, words = await self._session()
            except Refused as refused:
                state, words = classify(
                    refused.cause,
                    refused.banner,
                    has_keys=refused.has_keys,
                    other_key=refused.other_key,
                    jump=refused.jump,
                )
            except Exception as error:  # noqa: BLE001 - one host's trouble becomes its link's state
                state, words = _SILENT if self._silent else classify(error)
            finally:
                self._abort()
            if self._clock.now() - began > 60:
                self._tries = 0
            self._tries += 1
            self._say(state, words)
            await self._clock.sleep(retry_delay(self._tries, state, random.random()))  # noqa: S311 - jitter

    async def _session(self) -> tuple[LinkState, str]:
        """From connecting to the end of the channel; answers with how it ended."""
        self._offset, self._silent = float("inf"), False
        async with self._slots.one():
            self._say(LinkState.CONNECTING, self._words)
            self._connection = await self._connector.connect(self.host)
            self._heard_at = self._clock.now() + FIRST_SECONDS
            session = await self._start_probe(self._connection)
        await session.ended.wait()
        if self._silent:
            return _SILENT
        if self._state is LinkState.UP:
            return LinkState.WAITING, session.how_it_ended()
        if lacks_python(session.status, session.stderr):
            self._heard_at = float("inf")
            fallback = Fallback(self._connection, self._settings.period, self._clock, self._heard_smi)
            return await fallback.run()
        return no_probe(session.status, session.stderr or session.trouble, session.noise)

    async def _start_probe(self, connection: asyncssh.SSHClientConnection) -> ProbeSession:
        """A function of its own, so that nobody holds on to 50 KB of program while the session lasts."""
        nonce = new_nonce()
        command, payload = package_probe(
            {
                "nonce": nonce,
                "period": self._settings.period,
                "cluster": self._settings.cluster,
                "node": self.node,
                "kernel_prefix": self._settings.kernel_prefix,
            }
        )
        session = ProbeSession(nonce, self._heard)
        channel, _ = await connection.create_session(lambda: session, command, encoding=None)
        with contextlib.suppress(OSError):  # closed already: how it ended says why
            channel.write(payload)
        return session

    def _heard(self, message: Message) -> None:
        self._take(message, "probe")

    def _heard_smi(self, message: Message) -> None:
        self._take(message, "nvidia-smi")

    def _take(self, message: Message, mode: str) -> None:
        now = self._clock.now()
        if mode == "probe":
            self._heard_at = now
        if isinstance(message, Hello):
            self._say(LinkState.UP, "" if mode == "probe" else "no python3 there: asking nvidia-smi", mode)
        if isinstance(message, Sample):
            self._offset = min(self._offset + DRIFT * (now - self._sampled_at), now - message.mono)
            self._sampled_at = now
        offset = self._offset if self._offset != float("inf") else 0.0
        self._deliver(Heard(node=self.node, message=message, at=now, offset=offset))

    def watch(self, now: float) -> None:
        """Called about twice a second: a session that has gone silent is ended, without waiting for TCP."""
        if self._connection is None or self._silent or self._state not in (LinkState.UP, LinkState.CONNECTING):
            return
        if now - self._heard_at > SILENT_PERIODS * self._settings.period and self._heard_at > 0:
            self._silent = True
            self._say(LinkState.TIMEOUT, f"silent for {now - self._heard_at:.0f} s")
            self._abort()

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
            self._heard_at = 0.0

    def _say(self, state: LinkState, words: str, mode: str = "") -> None:
        self._state = state
        self._words = words if state is not LinkState.UP else ""
        tries = 0 if state is LinkState.UP else self._tries
        link = Link(state=state, since=self._clock.now(), detail=words, tries=tries, mode=mode)
        self._deliver(LinkChanged(node=self.node, link=link))


def retry_delay(tries: int, state: LinkState, jitter: float) -> float:
    """Seconds until the next try: 1 to 60, growing, each a little different; jitter is in 0 to 1."""
    longest = SLOW_RETRY if state in _NEEDS_A_PERSON else min(60.0, 2.0 ** min(tries, 6) / 2)
    return longest * (0.7 + 0.6 * jitter)
