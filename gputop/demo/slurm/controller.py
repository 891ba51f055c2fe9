"""The simulated slurmctld: a state machine on a clock that only `advance` moves; no I/O, no randomness."""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gputop.demo.slurm.array import expand_tasks
from gputop.demo.slurm.placing import backfill_limit, blocked_reason, place
from gputop.demo.slurm.records import JobRecord, JobSpec, NodeRecord

SCHEDULE_SECONDS = 0.3
"""From a change until the scheduler has looked (batch_sched_delay of a second, seen as 0.2 to 0.5)."""
PING_SECONDS = 0.9
"""A resumed node shows as not responding until the next ping."""
REQUEUE_SECONDS = 121.0
"""A requeued job may not start sooner: the credential's lifetime and one second."""
END_SECONDS = 0.2
"""From the end of a program until its job has left COMPLETING."""
SLURM_USER = "root"
"""Whom the controller names for what it does by itself."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The part of slurm.conf that shows in what follows."""

    slurmd_timeout: float = 60.0
    """SlurmdTimeout: a silent node is declared down after it, and shows as not responding after half of it."""
    kill_wait: float = 30.0
    min_job_age: float = 300.0
    return_to_service: int = 1
    """ReturnToService: at 1 a silent node comes back by itself and one that rebooted does not; at 2 both do."""
    first_job: int = 1
    cluster: str = "demo"


class Refusal(Exception):
    """What slurmctld says instead of doing it."""


class Controller:
    """Nodes, jobs, timers. Times are epoch seconds; whatever is due is done in order by `advance`."""

    def __init__(self, nodes: Iterable[NodeRecord], default_partition: str, now: float, settings: Settings) -> None:
        self.now = now
        self.settings = settings
        self.nodes = {node.name: node for node in nodes}
        self.default_partition = default_partition
        self.jobs: dict[str, JobRecord] = {}
        self._next_id = settings.first_job
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._looking = False

    def advance(self, to: float) -> None:
        """Lets time pass."""
        while self._timers and self._timers[0][0] <= to:
            at, _, work = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            work()
        self.now = max(self.now, to)

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Does something later."""
        self._count += 1
        heapq.heappush(self._timers, (self.now + seconds, self._count, work))

    # Jobs.

    def submit(self, spec: JobSpec) -> JobRecord:
        """A new job, or the first task of a new array."""
        number = self._next_id
        self._next_id += 1
        if not spec.array:
            return self._enter(JobRecord(key=str(number), spec=spec, raw_id=number, submit=self.now, eligible=self.now))
        tasks, _ = expand_tasks(spec.array)
        made = [
            self._enter(
                JobRecord(
                    key=f"{number}_{task}",
                    spec=spec,
                    raw_id=number,
                    array_id=number,
                    task=task,
                    submit=self.now,
                    eligible=self.now,
                    split=False,
                )
            )
            for task in tasks
        ]
        return made[0]

    def _enter(self, job: JobRecord) -> JobRecord:
        spec = job.spec
        job.excluded, job.required = spec.exclude, spec.nodelist
        job.comment, job.requeueable = spec.comment, spec.requeue
        job.submit = job.eligible = self.now - spec.age
        job.priority = 4_294_901_761 - job.raw_id
        if spec.hold:
            job.held, job.priority, job.eligible, job.reason = "user", 0, 0.0, "JobHeldUser"
        self.jobs[job.key] = job
        self.look()
        return job

    def partition_of(self, job: JobRecord) -> str:
        return job.spec.partition or self.default_partition

    def tasks_of(self, array: int) -> list[JobRecord]:
        return [job for job in self.jobs.values() if job.array_id == array]

    def split(self, job: JobRecord) -> None:
        """A task becomes a job of its own; the last one keeps the array's number."""
        if job.split:
            return
        others = [one for one in self.tasks_of(job.array_id) if not one.split and one is not job]
        job.split = True
        if others:
            job.raw_id = self._next_id
            self._next_id += 1

    # Scheduling.

    def look(self) -> None:
        """Lets the scheduler look soon."""
        if not self._looking:
            self._looking = True
            self.after(SCHEDULE_SECONDS, self._schedule)

    def _schedule(self) -> None:
        self._looking = False
        blocked: dict[str, float] = {}
        waiting = sorted((job for job in self.jobs.values() if job.pending), key=_order)
        for job in waiting:
            if job.priority == 0 or job.held:
                continue
            if job.begin > self.now:
                job.reason = "BeginTime"
                continue
            if self._waits_for_tasks(job):
                job.reason, job.eligible = "JobArrayTaskLimit", 0.0
                continue
            if self._waits_for_others(job):
                job.reason = "Dependency"
                continue
            name = self.partition_of(job)
            nodes = [node for node in self.nodes.values() if name in node.partitions]
            if name in blocked and self.now + job.spec.time_limit > blocked[name]:
                job.reason = "Priority"
                continue
            chosen = place(job, nodes)
            if chosen:
                self._start(job, chosen)
                continue
            job.reason = blocked_reason(job, nodes, first=name not in blocked)
            if job.reason == "BadConstraints":
                job.priority, job.expected = 0, self.now
            else:
                job.expected = backfill_limit(job, nodes, self.jobs, self.now)
                blocked.setdefault(name, job.expected)

    def _waits_for_tasks(self, job: JobRecord) -> bool:
        if job.array_id == 0:
            return False
        limit = expand_tasks(job.spec.array)[1]
        running = sum(one.state in ("RUNNING", "COMPLETING") for one in self.tasks_of(job.array_id))
        return limit > 0 and running >= limit

    def _waits_for_others(self, job: JobRecord) -> bool:
        kind, _, other = job.spec.dependency.partition(":")
        before = self.jobs.get(other)
        if not kind or before is None:
            return False
        return not before.ended if kind == "afterany" else before.state != "COMPLETED"

    def _start(self, job: JobRecord, chosen: list[NodeRecord]) -> None:
        self.split(job)
        spec = job.spec
        for node in chosen:
            node.jobs[job.key] = node.free_gpus[: spec.gpus]
        age = spec.age if job.restarts == 0 else 0.0
        job.state, job.reason = "RUNNING", "None"
        job.nodes = tuple(node.name for node in chosen)
        job.start, job.begin, job.end = self.now - age, 0.0, self.now - age + spec.time_limit
        job.eligible, job.expected = job.eligible or self.now, 0.0
        job.runs += 1
        run = job.runs
        left = max(1.0, spec.seconds - age - job.progress)
        if left <= spec.time_limit - age:
            self.after(left, lambda: self._program_ends(job, run, spec.exit_code << 8))
        else:
            self.after(spec.time_limit - age, lambda: self._times_out(job, run))

    # The end of a run.

    def _program_ends(self, job: JobRecord, run: int, status: int) -> None:
        if job.runs == run and job.running:
            self.finish(job, status)

    def _times_out(self, job: JobRecord, run: int) -> None:
        if job.runs == run and job.running:
            self._complete(job, "TIMEOUT", "TimeLimit", 0, self._dying(job))

    def finish(self, job: JobRecord, status: int) -> None:
        """Its program ended by itself with that wait status."""
        reason = "None"
        if status:
            reason = "NonZeroExitCode" if status >> 8 else "JobLaunchFailure"
        self._complete(job, "FAILED" if status else "COMPLETED", reason, status, END_SECONDS)

    def _dying(self, job: JobRecord) -> float:
        return END_SECONDS + min(job.spec.ignore_term, self.settings.kill_wait)

    def _complete(self, job: JobRecord, state: str, reason: str, status: int, seconds: float) -> None:
        job.state, job.final, job.reason, job.status = "COMPLETING", state, reason, status
        if not job.requeued:
            job.end = self.now
        self.after(seconds, lambda: self._completed(job))

    def _completed(self, job: JobRecord) -> None:
        if job.state != "COMPLETING":
            return
        for name in job.nodes:
            self.nodes[name].jobs.pop(job.key, None)
        if job.requeued:
            self._back_in_queue(job)
        else:
            job.state, job.final = job.final, ""
            self._forget_later(job)
        self.look()

    def _forget_later(self, job: JobRecord) -> None:
        run, ended = job.runs, job.end

        def forget() -> None:
            if job.ended and job.runs == run and job.end == ended:
                self.jobs.pop(job.key, None)

        self.after(self.settings.min_job_age, forget)

    def _back_in_queue(self, job: JobRecord) -> None:
        hold = job.requeued == "hold"
        job.state, job.final, job.requeued = "PENDING", "", ""
        job.nodes = ()
        job.begin = job.eligible = self.now + REQUEUE_SECONDS
        job.start = job.end = 0.0
        if hold or job.held:
            job.priority = 0
            job.held = job.held or "requeued"
            job.reason = {"admin": "JobHeldAdmin", "user": "JobHeldUser"}.get(job.held, "job requeued in held state")
        else:
            job.priority = job.priority or 4_294_901_761 - job.raw_id
            job.reason = "BeginTime"
        self.after(REQUEUE_SECONDS, self.look)

    # What an operator can do to a job.

    def requeue(self, job: JobRecord, *, hold: bool) -> None:
        if job.pending:
            raise Refusal(f"Job is pending execution for job {job.key}")
        if not job.requeueable:
            raise Refusal(f"Requested operation is presently disabled for job {job.key}")
        job.requeued = "hold" if hold else "requeue"
        if job.state != "COMPLETING":
            job.restarts += 1
        if job.running:
            self._complete(job, "", "None", 0, self._dying(job))
        elif job.ended:
            job.state = "COMPLETING"
            self.after(0.0, lambda: self._completed(job))

    def hold(self, job: JobRecord, by: str) -> None:
        job.held = by
        if not job.ended:
            job.priority, job.eligible = 0, 0.0
            job.reason = "JobHeldAdmin" if by == "admin" else "JobHeldUser"

    def release(self, job: JobRecord) -> None:
        job.held = ""
        if job.requeued == "hold":
            job.requeued = "requeue"
        if not job.ended:
            job.priority = job.priority or 4_294_901_761 - job.raw_id
        job.eligible = max(job.begin, self.now)
        if job.pending:
            job.reason = "BeginTime" if job.begin > self.now else "None"
        self.look()

    def cancel(self, job: JobRecord) -> None:
        if job.pending:
            job.state, job.reason, job.end = "CANCELLED", "None", self.now
            self._forget_later(job)
        elif job.running:
            self._complete(job, "CANCELLED", "None", 15, self._dying(job))

    def start_now(self, job: JobRecord) -> None:
        """StartTime=now: lifts the wait of a pending job, and is forgotten by one that is still completing."""
        if job.pending:
            job.begin, job.eligible = 0.0, self.now
            if not job.held:
                job.reason = "None"
            self.look()

    # Nodes.

    def drain(self, node: NodeRecord, reason: str, user: str) -> None:
        node.drain = True
        self._say(node, reason, user)

    def down(self, node: NodeRecord, reason: str, user: str) -> None:
        node.down = True
        self._say(node, reason, user)
        self._fail_jobs(node)

    def _say(self, node: NodeRecord, reason: str, user: str) -> None:
        node.reason, node.reason_user, node.reason_at = reason, user, self.now

    def _add(self, node: NodeRecord, reason: str) -> None:
        """The controller's own words go behind those of a person."""
        self._say(node, f"{node.reason} : {reason}" if node.drain and node.reason else reason, SLURM_USER)

    def resume(self, node: NodeRecord) -> None:
        if not (node.drain or node.down):
            raise Refusal("Invalid node state specified")
        node.down = False
        self.undrain(node)

    def undrain(self, node: NodeRecord) -> None:
        node.drain = False
        if not node.down:
            node.reason = node.reason_user = ""
            node.reason_at = 0.0
            self._until_ping(node)
        self.look()

    def _until_ping(self, node: NodeRecord) -> None:
        """Not responding until it is heard of the next time."""
        node.not_responding = True
        if node.slurmd:
            self.after(PING_SECONDS, lambda: self._pinged(node))
        else:
            node.silent_since = self.now
            self._watch(node)

    def _pinged(self, node: NodeRecord) -> None:
        if node.slurmd:
            node.not_responding = False
            self.look()

    def slurmd_dies(self, name: str) -> None:
        node = self.nodes[name]
        if node.slurmd:
            node.slurmd, node.silent_since = False, self.now
            self._watch(node)

    def _watch(self, node: NodeRecord) -> None:
        since = node.silent_since

        def silent() -> None:
            if node.silent_since == since and not node.slurmd:
                node.not_responding = True

        def declared() -> None:
            if node.silent_since == since and not node.slurmd and not node.down:
                node.down, node.not_responding = True, True
                self._add(node, "Not responding")
                self._fail_jobs(node)

        self.after(self.settings.slurmd_timeout / 2, silent)
        self.after(self.settings.slurmd_timeout, declared)

    def slurmd_returns(self, name: str, boot_time: float = 0.0) -> None:
        """It answers again; with a boot time, after a reboot."""
        node = self.nodes[name]
        node.slurmd, node.silent_since, node.not_responding = True, 0.0, False
        if boot_time:
            node.boot_time = boot_time
        if node.down and node.reason.endswith("Not responding"):
            node.down = False
            if not node.drain:
                node.reason = node.reason_user = ""
                node.reason_at = 0.0
        elif boot_time and not node.down and self.settings.return_to_service < 2:
            node.down = True
            self._add(node, "Node unexpectedly rebooted")
            self._fail_jobs(node)
        elif boot_time:
            self._fail_jobs(node)
        self.look()

    def _fail_jobs(self, node: NodeRecord) -> None:
        for key in list(node.jobs):
            job = self.jobs[key]
            if job.running and job.requeueable:
                job.requeued = "requeue"
                job.restarts += 1
                self._complete(job, "", "None", 0, 0.0)
            elif job.running:
                self._complete(job, "NODE_FAIL", "NodeDown", 0, 0.0)


def _order(job: JobRecord) -> tuple[int, float, int, int]:
    return (-job.priority, job.submit, job.raw_id, job.task)
