"""A small Slurm in memory with the real one's traps, on a clock that only moves when somebody sleeps."""

from collections.abc import Callable

import msgspec

from gputop.model.calls import (
    Abilities,
    Ability,
    Answer,
    AnswerKind,
    Call,
    CancelJob,
    DrainNode,
    HoldJob,
    MarkJob,
    ReleaseJob,
    RequeueJob,
    ResumeNode,
    Site,
    UpdateJob,
)
from gputop.model.errors import SourceDown
from gputop.model.jobs import Job, JobLayout
from gputop.model.nodes import Node, Reason
from gputop.model.reading import Unknown, Why
from gputop.model.snapshot import About, Snapshot, Source
from gputop.model.states import State
from gputop.sources.slurm.calls import argv

NOW = 1_800_000_000.0
COMPLETING = 2.0
"""Seconds a requeued job spends ending its run."""


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def node(name: str = "gpu1", state: str = "idle", **more: object) -> Node:
    base, *flags = state.split("+")
    facts: dict[str, object] = {"gpus": 8, "partitions": ("train",), "boot_time": NOW - 9000}
    return Node(name=name, state=State(base, frozenset(flags)), **{**facts, **more})  # type: ignore[arg-type]


def job(job_id: str = "7", state: str = "running", **more: object) -> Job:
    facts: dict[str, object] = {
        "nodes": ("gpu1",),
        "gpus": 8,
        "user": "ann",
        "partition": "train",
        "submit_time": NOW - 5000,
        "start_time": NOW - 4000,
        "requeueable": True,
        "batch": True,
        "excluded": (),
        "priority": 100,
    }
    return Job(id=job_id, raw_id=job_id, state=State(state), **{**facts, **more})  # type: ignore[arg-type]


class World:
    """Implements Scheduler; only the snapshot knows the nodes' boot times.

    `fail` may raise, or answer in its place; `plugin` changes exclude lists, as a submit plugin does.
    """

    def __init__(self, nodes: tuple[Node, ...] = (), jobs: tuple[Job, ...] = ()) -> None:
        self.clock = Clock()
        self.node_table = {one.name: one for one in nodes or (node(), node("gpu2"), node("gpu3"))}
        self.job_table = {one.id: one for one in jobs or (job(),)}
        self.calls: list[Call] = []
        self.ending: dict[str, float] = {}
        self.ended_at: dict[str, float] = {}
        self.down = False
        self.completing = COMPLETING
        self.fail: Callable[[Call], Answer | None] = lambda _call: None
        self.plugin: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda listed: listed

    def snapshot(self) -> Snapshot:
        now = self.clock.now()
        names = (("slurm.nodes", 10.0), ("slurm.jobs", 10.0), ("probe", 5.0))
        sources = {name: Source(name=name, period=period, read_at=now) for name, period in names}
        yes = Ability.YES
        return Snapshot(
            time=now,
            about=About(cluster="t", version="0"),
            sources=sources,
            nodes=dict(self.node_table),
            jobs=dict(self.job_table),
            abilities=Abilities(account="root", nodes=yes, jobs=yes, marks=yes),
        )

    def _alter(self, job_id: str, **changes: object) -> None:
        self.job_table[job_id] = msgspec.structs.replace(self.job_table[job_id], **changes)

    def forget(self, job_id: str) -> None:
        """MinJobAge is over."""
        self.job_table.pop(job_id)
        self.ending.pop(job_id, None)

    def _tick(self) -> None:
        for job_id, at in list(self.ending.items()):
            if self.clock.now() >= at:
                del self.ending[job_id]
                self.ended_at[job_id] = self.clock.now()
                self._alter(job_id, state=State("pending"), nodes=())

    def _start(self, job_id: str) -> None:
        """A run within a second of the last one's end carries a credential that the node takes for revoked."""
        soon = self.clock.now() - self.ended_at.get(job_id, 0.0) < 1.0
        self._alter(job_id, reason="", state=State("failed" if soon else "running"), nodes=("gpu2",))

    async def nodes(self) -> tuple[Node, ...]:
        if self.down:
            raise SourceDown("slurmctld", "no answer")
        unread = Unknown(Why.NOT_READ)
        return tuple(msgspec.structs.replace(one, boot_time=unread) for one in self.node_table.values())

    async def jobs(self) -> tuple[Job, ...]:
        self._tick()
        return tuple(self.job_table.values())

    async def tasks(self, jobs: tuple[str, ...]) -> tuple[Job, ...]:
        if self.down:
            raise SourceDown("slurmctld", "no answer")
        self._tick()
        return tuple(self.job_table[one] for one in jobs if one in self.job_table)

    async def layout(self, job: str) -> JobLayout | None:
        return None

    async def boot_times(self) -> dict[str, float]:
        return {}

    async def site(self) -> Site:
        return Site(partitions=(), reservations=(), switches=())

    async def abilities(self) -> Abilities:
        return Abilities(account="root", nodes=Ability.YES, jobs=Ability.YES, marks=Ability.YES)

    def argv(self, call: Call) -> tuple[str, ...]:
        return argv(call)

    async def call(self, call: Call) -> Answer:
        self.calls.append(call)
        if (answer := self.fail(call)) is not None:
            if answer.words == "and took effect":
                self._apply(call)
            return answer
        self._apply(call)
        return Answer(AnswerKind.ACCEPTED)

    def _apply(self, call: Call) -> None:
        self._tick()
        match call:
            case DrainNode(node=name, reason=text):
                old = self.node_table[name]
                state = State(old.state.base, old.state.flags | {"drain"})
                reason = Reason(text=text, owner="root", at=self.clock.now())
                self.node_table[name] = msgspec.structs.replace(old, state=state, reason=reason)
            case ResumeNode(node=name):
                state = State("idle", frozenset({"not_responding"}))
                self.node_table[name] = msgspec.structs.replace(self.node_table[name], state=state, reason=None)
            case RequeueJob(job=job_id, hold=hold):
                restarts = self.job_table[job_id].restarts + 1
                why = "job requeued in held state" if hold else "BeginTime"
                self.ending[job_id] = self.clock.now() + self.completing
                priority = 0 if hold else 100
                self._alter(job_id, state=State("completing"), restarts=restarts, reason=why, priority=priority)
            case UpdateJob(job=job_id, excluded=excluded, start_now=start_now):
                if job_id in self.ending:
                    return
                if excluded is not None:
                    self._alter(job_id, excluded=self.plugin(excluded))
                if start_now and not self.job_table[job_id].held:
                    self._start(job_id)
            case HoldJob(job=job_id):
                self._alter(job_id, priority=0, reason="JobHeldAdmin")
            case ReleaseJob(job=job_id):
                self._alter(job_id, priority=100)
                self._start(job_id)
            case CancelJob(job=job_id):
                self._alter(job_id, state=State("cancelled"))
            case MarkJob(job=job_id, text=text):
                self._alter(job_id, admin_comment=text)
