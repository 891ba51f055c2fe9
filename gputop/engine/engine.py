"""The engine: one process that observes, folds, acts and publishes; it joins the rooms and decides nothing itself."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gputop.detect.passes import detect
from gputop.detect.registry import Chosen
from gputop.engine.command_channel import CommandChannel
from gputop.engine.events import (
    EngineTroubled,
    Event,
    FactsArrived,
    Heartbeat,
    Judged,
    ReaderJoined,
    ReaderLeft,
    Recording,
)
from gputop.engine.fold import fold
from gputop.engine.lifetime import Lifetime
from gputop.engine.periods import Periods, first_state
from gputop.engine.readers import SlurmReader
from gputop.engine.state import Effect, Follow, ReadLayouts
from gputop.model.calls import Scheduler
from gputop.model.clock import Clock
from gputop.model.facts import Fact
from gputop.model.snapshot import About, Reader, Snapshot
from gputop.recover.ledger import Ledger

TICK = 0.25
"""Seconds between folds while facts arrive."""
JUDGE_SECONDS = 0.9
"""Between two passes of the rules: one a heartbeat."""
FIRST_TICK = 0.05
"""The same until there is anything to see."""
HEARTBEAT = 1.0
"""A frame goes out at least so often, so that a reader can tell a quiet cluster from a dead engine."""


class Engine:
    """Runs until it is cancelled or its lifetime is over."""

    def __init__(
        self,
        *,
        about: About,
        periods: Periods,
        host_pattern: str,
        clock: Clock,
        scheduler: Scheduler,
        follow: Callable[[dict[str, str]], None],
        publish: Callable[[Snapshot], str],
        ledger: Ledger,
        rules: Sequence[Chosen],
    ) -> None:
        """follow takes node -> SSH host; publish sends a snapshot out and answers with its trouble, or ""."""
        self._rules = rules
        self._judged_at = 0.0
        self._clock = clock
        self._host_pattern = host_pattern
        self._periods = periods
        self._follow = follow
        self._publish = publish
        self._queue: deque[Event] = deque()
        self._facts: list[Fact] = []
        self._published_at = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.state = first_state(about, periods, clock.now())
        self.lifetime = Lifetime(started=clock.now())
        self._reader = SlurmReader(scheduler, clock, self.post, lambda: self.state.snap)
        self._channel = CommandChannel(self, scheduler=scheduler, ledger=ledger, clock=clock)

    @property
    def snap(self) -> Snapshot:
        return self.state.snap

    def post(self, event: Event) -> None:
        """Queues an event for the next fold."""
        self._queue.append(event)

    def deliver(self, fact: Fact) -> None:
        """Takes a fact of the SSH source; facts are folded in batches."""
        self._facts.append(fact)

    def step(self) -> None:
        """Folds all that is queued, carries out what that asks for, redraws open cards, and publishes."""
        if self._facts:
            facts, self._facts = tuple(self._facts), []
            self._queue.append(FactsArrived(facts))
        now = self._clock.now()
        self._queue.append(Heartbeat(now))
        effects: list[Effect] = []
        while self._queue:
            self.state, wanted = fold(self.state, self._queue.popleft(), self._host_pattern)
            effects.extend(wanted)
            if not self._queue and now - self._judged_at >= JUDGE_SECONDS:
                self._judged_at = now
                self._queue.append(Judged(detect(self.state.snap, self._rules, self.state.pasts, now)))
            if not self._queue:
                self._queue.extend(self._channel.redrawn(self.state.snap, now))
        trouble = self._publish(self.state.snap)
        self._published_at = now
        # After the frame: the first effect is to connect to every node, and readers need not wait for that.
        for effect in effects:
            self._carry_out(effect)
        about = self.state.snap.about
        if about is not None and about.trouble != trouble:
            self.post(EngineTroubled(trouble))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Follow(hosts=hosts):
                self._follow(dict(hosts))
            case ReadLayouts(jobs=jobs):
                self.start(self._reader.layouts(jobs))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something beside the loops; the engine does not end before it has."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reader_joined(self, reader_id: str, name: str) -> None:
        """Somebody attached."""
        self.lifetime = self.lifetime.joined()
        self.post(ReaderJoined(id=reader_id, reader=Reader(name=name, since=self._clock.now())))

    def reader_left(self, reader_id: str, *, clean: bool) -> None:
        """Somebody is gone; clean when they said goodbye."""
        self.lifetime = self.lifetime.left(self._clock.now(), clean=clean)
        self.post(ReaderLeft(reader_id))

    def recording(self, path: str) -> None:
        """The session log goes there now."""
        about = self.state.snap.about
        if about is not None and about.recording != path:
            self.post(Recording(path))

    @property
    def channel(self) -> CommandChannel:
        """What readers' commands are handed to."""
        return self._channel

    async def observe(self) -> None:
        """Watches for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reader.run(self._periods.slurm))
            group.create_task(self._reader.run_slow(self._periods.site))
            group.create_task(self._tick())
            group.create_task(self._channel.settle())

    async def _tick(self) -> None:
        while True:
            if self._queue or self._facts or self._clock.now() - self._published_at >= HEARTBEAT:
                self.step()
            await self._clock.sleep(TICK if self.snap.nodes else FIRST_TICK)

    async def until_over(self) -> None:
        """Returns when nobody reads any more and nothing is open."""
        while not self.lifetime.over(self._clock.now(), self._channel.open_actions):
            await self._clock.sleep(0.5)
