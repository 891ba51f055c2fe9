"""The schedules on which Slurm is read: one loop for nodes and jobs, one for what changes slowly."""

from collections.abc import Callable

from gputop.engine.events import (
    AbilitiesRead,
    BootTimesRead,
    Event,
    JobsRead,
    LayoutRead,
    NodesRead,
    ReadFailed,
    SiteRead,
)
from gputop.model.calls import Scheduler
from gputop.model.clock import Clock
from gputop.model.errors import SourceError
from gputop.model.reading import Unknown
from gputop.model.snapshot import Snapshot

Post = Callable[[Event], None]


class SlurmReader:
    """Asks Slurm regularly and posts what it says; a failed read is an event too."""

    def __init__(self, scheduler: Scheduler, clock: Clock, post: Post, seen: Callable[[], Snapshot]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._post = post
        self._seen = seen

    async def cycle(self) -> None:
        """One read of nodes, then jobs."""
        try:
            self._post(NodesRead(at=self._clock.now(), nodes=await self._scheduler.nodes()))
        except SourceError as error:
            self._post(ReadFailed(source="slurm.nodes", trouble=str(error)))
        try:
            self._post(JobsRead(at=self._clock.now(), jobs=await self._scheduler.jobs()))
        except SourceError as error:
            self._post(ReadFailed(source="slurm.jobs", trouble=str(error)))

    async def slow_cycle(self) -> None:
        """Partitions, reservations, topology; what this account may do; boot times that no probe told."""
        try:
            self._post(SiteRead(at=self._clock.now(), site=await self._scheduler.site()))
            self._post(AbilitiesRead(abilities=await self._scheduler.abilities()))
            if any(isinstance(node.boot_time, Unknown) for node in self._seen().nodes.values()):
                times = await self._scheduler.boot_times()
                self._post(BootTimesRead(at=self._clock.now(), times=tuple(times.items())))
        except SourceError as error:
            self._post(ReadFailed(source="slurm.site", trouble=str(error)))

    async def layouts(self, jobs: tuple[str, ...]) -> None:
        """GPU indices of these jobs, one question each."""
        for job in jobs:
            try:
                self._post(LayoutRead(job=job, layout=await self._scheduler.layout(job)))
            except SourceError:
                self._post(LayoutRead(job=job, layout=None))

    async def run(self, period: float) -> None:
        """Nodes and jobs for ever, every period seconds from start to start."""
        while True:
            began = self._clock.now()
            await self.cycle()
            await self._clock.sleep(max(1.0, period - (self._clock.now() - began)))

    async def run_slow(self, period: float) -> None:
        """The slow reads for ever; the first ones a moment after the first picture."""
        await self._clock.sleep(1.0)
        while True:
            await self.slow_cycle()
            await self._clock.sleep(period)
