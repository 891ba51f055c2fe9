"""What the simulated controller knows of a node and of a job."""

from dataclasses import dataclass, field

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What sbatch was given, and how the program inside will fare."""

    name: str
    user: str = "alice"
    account: str = ""
    partition: str = ""
    nodes: int = 1
    gpus: int = 8
    """GPUs on each node."""
    cpus: int = 1
    """CPUs on each node."""
    seconds: float = 3600.0
    """How long the program runs when nothing hinders it."""
    exit_code: int = 0
    array: str = ""
    """Such as 0-3 or 0-9%2."""
    requeue: bool = True
    time_limit: float = 3600.0
    hold: bool = False
    comment: str = ""
    exclude: tuple[str, ...] = ()
    nodelist: tuple[str, ...] = ()
    dependency: str = ""
    ignore_term: float = 0.0
    """Seconds it goes on after it was asked to end."""
    age: float = 0.0
    """Seconds it has been running already when it is submitted: a cluster is not empty when one looks at it first."""


@dataclass(kw_only=True)
class NodeRecord:
    """One node of the controller's table."""

    name: str
    partitions: tuple[str, ...]
    gpus: int
    cpus: int
    boot_time: float
    slurmd: bool = True
    """Whether its slurmd lives."""
    silent_since: float = 0.0
    """When its slurmd died; 0 while it lives."""
    drain: bool = False
    down: bool = False
    not_responding: bool = False
    reason: str = ""
    reason_user: str = ""
    reason_at: float = 0.0
    jobs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Job key -> GPU indices, while the job runs or completes there."""

    @property
    def free_gpus(self) -> tuple[int, ...]:
        taken = {gpu for gpus in self.jobs.values() for gpu in gpus}
        return tuple(gpu for gpu in range(self.gpus) if gpu not in taken)

    @property
    def usable(self) -> bool:
        """Whether the scheduler may start something there."""
        return not (self.drain or self.down or self.not_responding)


@dataclass(kw_only=True)
class JobRecord:
    """One job, or one task of an array."""

    key: str
    """How people name it: 12, or 12_3."""
    spec: JobSpec
    raw_id: int
    array_id: int = 0
    task: int = -1
    """Its number in the array; -1 for a job that is none's."""
    state: str = "PENDING"
    reason: str = "None"
    submit: float
    eligible: float
    start: float = 0.0
    end: float = 0.0
    begin: float = 0.0
    """It may not start before; 0 is at once."""
    expected: float = 0.0
    """When the scheduler thinks that it can start; 0 where it has not thought about it."""
    nodes: tuple[str, ...] = ()
    restarts: int = 0
    priority: int = 0
    held: str = ""
    """"admin", "user", or "requeued"; "" while it is not held."""
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    comment: str = ""
    admin_comment: str = ""
    status: int = 0
    """Raw wait status of its last run."""
    requeueable: bool = True
    requeued: str = ""
    """While it completes: "requeue" or "hold" when it goes back to the queue then."""
    final: str = ""
    """While it completes: the state it ends in."""
    runs: int = 0
    """Counts starts, so that a timer of an earlier run does nothing."""
    progress: float = 0.0
    """Seconds of work that its last checkpoint keeps."""
    split: bool = True
    """False for a task that still is part of its array's pending bundle."""

    @property
    def pending(self) -> bool:
        return self.state == "PENDING"

    @property
    def running(self) -> bool:
        return self.state == "RUNNING"

    @property
    def ended(self) -> bool:
        return self.state in ENDED
