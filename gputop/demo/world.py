"""The simulated cluster as one object: `advance` moves it, everything else asks it. Same seed, same day."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gputop.demo import workload
from gputop.demo.faults import KINDS, Strike
from gputop.demo.hardware import FULL_WATTS, IDLE_WATTS, Hardware
from gputop.demo.loads import Load, demand
from gputop.demo.machines import PORTS, Machine, Ports, Reach
from gputop.demo.scenario import Reaction, Scenario, ScenarioFault, ScenarioJob
from gputop.demo.slurm.commands import Commands, Reply, Switch, Trouble
from gputop.demo.slurm.controller import Controller, Settings
from gputop.demo.slurm.records import JobRecord, JobSpec, NodeRecord
from gputop.demo.subjects import About, Selector, Subject, SubjectError, parse_subject
from gputop.model.errors import ConfigError

GPUS = 8
RACK = 16
"""Nodes under one leaf switch."""
TICK = 1.0
"""Seconds between two steps of the physics; Slurm's own times are exact."""
WARM_START = 120.0
"""Seconds that have gone by when one looks first: jobs run and GPUs are warm."""


@dataclass(frozen=True)
class Happened:
    """A line of the world's own diary: what the scenario did."""

    at: float
    """Seconds since the scenario began."""
    kind: str
    says: str
    reaction: tuple[Reaction, ...] = ()
    nodes: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    """Who was struck."""


class World:
    """Nodes gpu0001 and on, all of one kind; every list is in their order."""

    def __init__(self, scenario: Scenario, *, nodes: int, seed: int, now: float) -> None:
        """now: epoch seconds at which the scenario begins. Raises ConfigError for a cluster too small for it."""
        if nodes < scenario.least_nodes:
            raise ConfigError(f"scenario {scenario.name} needs at least {scenario.least_nodes} nodes; got {nodes}")
        self.scenario = scenario
        self.began = now
        self.now = now - WARM_START
        random = np.random.default_rng(seed)
        self._random = np.random.default_rng(seed + 1)
        self.names = tuple(f"gpu{k + 1:04}" for k in range(nodes))
        self._index = {name: k for k, name in enumerate(self.names)}
        self.machines = [
            Machine(name=name, boot_time=float(np.floor(self.now - random.uniform(2, 60) * 86_400)))
            for name in self.names
        ]
        self.hardware = Hardware(nodes, GPUS, random)
        self.ports = Ports(nodes, random)
        self.loads: dict[str, Load] = {}
        self._runs: dict[str, int] = {}
        self._spec_every: dict[str, float] = {}
        self.diary: list[Happened] = []
        records = [
            NodeRecord(
                name=name,
                partitions=("train",) if k < nodes - nodes // 8 or nodes < 8 else ("dev", "train"),
                gpus=GPUS,
                cpus=192,
                boot_time=self.machines[k].boot_time,
            )
            for k, name in enumerate(self.names)
        ]
        self.slurm = Controller(records, "train", self.now, Settings(cluster="demo", first_job=1001))
        racks = [self.names[k : k + RACK] for k in range(0, nodes, RACK)]
        self.racks = {f"leaf{k + 1:02}": rack for k, rack in enumerate(racks)}
        self.commands = Commands(self.slurm, [Switch(name, rack) for name, rack in self.racks.items()])
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._next_tick = self.now
        self._plan()

    # Time.

    def advance(self, to: float) -> None:
        """Lets time pass, in whole ticks of the physics and exact times of everything else."""
        while True:
            due = min(self._next_tick, self._later[0][0] if self._later else self._next_tick)
            if due > to:
                break
            self.slurm.advance(due)
            self.now = due
            if self._later and self._later[0][0] <= due:
                heapq.heappop(self._later)[2]()
            else:
                self._tick()
                self._next_tick += TICK
        self.slurm.advance(to)
        self.now = to

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Does something after so many seconds."""
        self._count += 1
        heapq.heappush(self._later, (self.now + seconds, self._count, work))

    @property
    def elapsed(self) -> float:
        """Seconds since the scenario began; negative while the cluster warms up."""
        return self.now - self.began

    @property
    def over(self) -> bool:
        return self.elapsed >= self.scenario.seconds

    def _tick(self) -> None:
        self._follow_jobs()
        loads = list(self.loads.values())
        for load in loads:
            load.note_checkpoint(self.now)
        self.hardware.step(demand(loads, self.hardware.speed, self.now), TICK)
        watts = self.hardware.column("power").reshape(len(self.names), GPUS).mean(axis=1)
        self.ports.step(np.clip((watts - 2 * IDLE_WATTS) / (FULL_WATTS - 2 * IDLE_WATTS), 0, 1), TICK)

    def _follow_jobs(self) -> None:
        """A load for each running job, and none for those that are gone."""
        for key in [key for key, load in self.loads.items() if not self._runs_still(key, load)]:
            load = self.loads.pop(key)
            job = self.slurm.jobs.get(key)
            if job is not None and load.checkpoint:
                job.progress += load.checkpoint - load.started
        for key, job in self.slurm.jobs.items():
            if job.running and key not in self.loads:
                self.loads[key] = self._load(job)

    def _runs_still(self, key: str, load: Load) -> bool:
        job = self.slurm.jobs.get(key)
        return job is not None and job.running and job.start == load.started

    def _load(self, job: JobRecord) -> Load:
        rows = [
            self._index[name] * GPUS + gpu for name in job.nodes for gpu in self.slurm.nodes[name].jobs.get(job.key, ())
        ]
        return Load(
            rows=np.asarray(rows, np.int64),
            started=job.start,
            appetite=0.72 if "eval" in job.spec.name else 0.97,
            checkpoint_every=self._spec_every.get(job.spec.name, 1800.0),
        )

    # The plan of the day.

    def _plan(self) -> None:
        scenario, nodes = self.scenario, len(self.names)
        for job in scenario.jobs:
            self._spec_every[job.name] = 60 * job.checkpoint_minutes
            if job.at > 0:
                self._at(job.at, lambda job=job: self._submit(_spec(job)))  # type: ignore[misc]
            else:
                self._submit(_spec(job))
        taken = sum(job.nodes for job in scenario.jobs if job.at == 0 and not job.array)
        share = max(0.0, scenario.busy - taken / nodes)
        for spec in workload.background(nodes, share, self._random):
            self._submit(spec)
        if scenario.busy > 0:
            self._next_arrival(workload.arrivals(nodes, self._random))
        for fault in scenario.faults:
            self._at(fault.at, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        self.advance(self.began)

    def _at(self, elapsed: float, work: Callable[[], None]) -> None:
        self.later(elapsed - self.elapsed, work)

    def _submit(self, spec: JobSpec) -> None:
        self.slurm.submit(spec)

    def _next_arrival(self, coming: Iterator[tuple[float, JobSpec]]) -> None:
        seconds, spec = next(coming)

        def arrive() -> None:
            self._submit(spec)
            self._next_arrival(coming)

        self.later(seconds, arrive)

    def _strike(self, fault: ScenarioFault) -> None:
        kind = KINDS[fault.kind]
        try:
            subject = self._resolve(parse_subject(fault.subject), kind.about)
        except SubjectError as error:
            self.diary.append(Happened(self.elapsed, fault.kind, f"passed over: {error}"))
            return
        strength = kind.strength if fault.strength is None else fault.strength
        strike = Strike(subject=subject, strength=strength, text=fault.text, lasts=fault.lasts)
        names, jobs = tuple(self.names[node] for node in subject.nodes), self._struck(subject)
        kind.begin(self, strike)
        self.diary.append(Happened(self.elapsed, fault.kind, subject.says, fault.reaction, names, jobs))
        end = kind.end
        if fault.lasts and end is not None:

            def over() -> None:
                end(self, strike)
                self.diary.append(Happened(self.elapsed, f"end of {fault.kind}", subject.says))

            self.later(fault.lasts, over)

    def _resolve(self, selector: Selector, about: About) -> Subject:
        """Raises SubjectError when there is no such thing now."""
        if about == "slurmctld":
            return Subject(says="slurmctld")
        job = None
        if selector.job:
            running = [one for one in self.slurm.jobs.values() if one.spec.name == selector.job and one.running]
            if not running:
                raise SubjectError(f"no job {selector.job} runs")
            job = running[0]
            place = selector.place or 0
            if place >= len(job.nodes):
                raise SubjectError(f"{selector.job} has {len(job.nodes)} nodes")
            names = job.nodes if about == "job" or (selector.place is None and about == "node") else (job.nodes[place],)
        elif selector.share:
            names = self._some(selector.share)
        elif selector.name == "all":
            names = self.names
        elif selector.name == "idle":
            idle = [name for name, node in self.slurm.nodes.items() if node.usable and not node.jobs]
            if not idle:
                raise SubjectError("no node is idle")
            names = (idle[int(self._random.integers(len(idle)))],)
        elif selector.name in self.racks:
            names = self.racks[selector.name]
        elif selector.name in self._index:
            names = (selector.name,)
        else:
            raise SubjectError(f"no {selector.name} on this cluster")
        return self._subject(names, selector.part, job)

    def _some(self, percent: float) -> tuple[str, ...]:
        """So many percent of all nodes, drawn from those that are well."""
        well = [one.name for one in self.machines if one.reach is Reach.UP and not one.hung_since]
        count = min(len(well), round(len(self.names) * percent / 100))
        return tuple(sorted(self._random.choice(well, count, replace=False).tolist()))

    def _subject(self, names: tuple[str, ...], part: str, job: JobRecord | None) -> Subject:
        says = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        gpus, ports = tuple(range(GPUS)), tuple(range(PORTS))
        if part.startswith("mlx5_"):
            ports, says = (int(part[5:]),), f"{says} {part}"
        elif part:
            gpus, says = (int(part),), f"{says} GPU {part}"
        return Subject(
            nodes=tuple(self._index[name] for name in names),
            gpus=gpus,
            ports=ports,
            job=job.key if job is not None else "",
            says=f"job {job.key} ({job.spec.name}) on {says}" if job is not None else says,
        )

    # What faults do.

    def port_row(self, node: int, port: int) -> int:
        return node * PORTS + port

    def jobs_on(self, node: int) -> list[JobRecord]:
        """Jobs that run there."""
        held = self.slurm.nodes[self.names[node]].jobs
        return [job for key in held if (job := self.slurm.jobs[key]).running]

    def crash_jobs(self, subject: Subject, code: int, seconds: float) -> None:
        """Jobs that use these GPUs die soon, with that exit code: all of a synchronous job goes with one GPU."""
        for key in self._struck(subject):
            job = self.slurm.jobs[key]
            self._hang(key, hung=True)
            self.later(seconds, lambda job=job, run=job.runs: self._die(job, run, code))  # type: ignore[misc]

    def _struck(self, subject: Subject) -> tuple[str, ...]:
        """Keys of the jobs that it is about: the one it names, or all that use its GPUs."""
        if subject.job:
            return (subject.job,)
        held = [self.slurm.nodes[self.names[node]].jobs for node in subject.nodes]
        return tuple(sorted({key for jobs in held for key, gpus in jobs.items() if set(gpus) & set(subject.gpus)}))

    def _die(self, job: JobRecord, run: int, code: int) -> None:
        if job.running and job.runs == run:
            self.slurm.finish(job, code << 8)

    def hang_jobs_on(self, node: int, *, hung: bool = True) -> None:
        for job in self.jobs_on(node):
            self._hang(job.key, hung=hung)

    def _hang(self, key: str, *, hung: bool) -> None:
        if key in self.loads:
            self.loads[key].hung = hung

    def reboot(self, node: int, seconds: float) -> None:
        """The host goes down and is back after so many seconds."""
        machine, name = self.machines[node], self.names[node]
        machine.reach = Reach.SILENT
        self.slurm.slurmd_dies(name)
        for job in self.jobs_on(node):
            self._hang(job.key, hung=True)

        def back() -> None:
            machine.boot_time, machine.boot = float(np.floor(self.now)), machine.boot + 1
            machine.reach, machine.hung_since, machine.blocked = Reach.UP, 0.0, 0
            machine.lines.clear()
            self.slurm.slurmd_returns(name, machine.boot_time)

        self.later(seconds, back)

    def trouble_slurm(self, trouble: Trouble, strength: float) -> None:
        self.commands.trouble, self.commands.slow_seconds = trouble, strength

    def run(self, argv: tuple[str, ...]) -> Reply:
        """One of Slurm's commands, now."""
        return self.commands.run(argv)


def _spec(job: ScenarioJob) -> JobSpec:
    seconds = job.hours * 3600
    return JobSpec(
        name=job.name,
        user=job.user,
        partition=job.partition,
        nodes=job.nodes,
        gpus=job.gpus,
        cpus=24 * job.gpus,
        seconds=seconds,
        exit_code=job.exit_code,
        array=job.array,
        requeue=job.requeue,
        time_limit=max(2 * seconds, 3600.0),
        age=min(job.age_hours * 3600, seconds * 0.9),
    )
