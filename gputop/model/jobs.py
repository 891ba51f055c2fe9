"""A job, an array task, or a pending bundle of tasks, as Slurm describes it."""

from msgspec import Struct

from gputop.model.reading import Reading, Unknown, Why
from gputop.model.states import State

ENDED = frozenset(
    {
        "completed", "failed", "cancelled", "timeout", "node_fail", "out_of_memory", "preempted", "boot_fail",
        "deadline", "revoked", "launch_failed", "reconfig_fail",
    }
)  # fmt: skip
"""Base states of a job that is over."""


class Job(Struct, frozen=True, kw_only=True):
    """One row of squeue."""

    id: str
    """How people and commands name it: 123, 123_4, 123_[5-9] (a pending bundle), 123+0 (het component)."""
    raw_id: str
    """Slurm's own number; that of the last array task equals the array's."""
    array_id: str = ""
    """The array it belongs to, or ""."""
    task_id: str = ""
    """The task number, a pending set such as 5-9, or ""."""
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: State
    reason: str = ""
    """Why it waits, in Slurm's words; not a closed list."""
    nodes: tuple[str, ...] = ()
    """Where it runs or ran; Slurm empties this on requeue."""
    last_nodes: tuple[str, ...] = ()
    """Where we last saw it run; survives a requeue."""
    gpus: Reading[int] = Unknown(Why.NOT_READ)
    """GPUs allocated, or asked for while it waits."""
    tasks: int = 1
    """Array tasks this row stands for; more than 1 only in a pending bundle."""
    restarts: int = 0
    requeueable: bool = False
    batch: bool = False
    submit_time: Reading[float] = Unknown(Why.NOT_READ)
    eligible_time: Reading[float] = Unknown(Why.NOT_READ)
    start_time: Reading[float] = Unknown(Why.NOT_READ)
    end_time: Reading[float] = Unknown(Why.NOT_READ)
    time_limit: Reading[float] = Unknown(Why.NOT_READ)
    """Seconds; inf for no limit."""
    priority: Reading[int] = Unknown(Why.NOT_READ)
    dependency: str = ""
    exit_code: Reading[str] = Unknown(Why.NOT_READ)
    """status:signal as scontrol writes it."""
    derived_exit_code: Reading[str] = Unknown(Why.NOT_READ)
    excluded: Reading[tuple[str, ...]] = Unknown(Why.NOT_READ)
    """ExcNodeList, expanded; squeue shows it from 24.11 on."""
    required: tuple[str, ...] = ()
    """ReqNodeList, expanded."""
    comment: str = ""
    admin_comment: str = ""

    @property
    def pending(self) -> bool:
        return self.state.base == "pending"

    @property
    def running(self) -> bool:
        return self.state.base == "running"

    @property
    def completing(self) -> bool:
        return self.state.base == "completing" or self.state.has("completing")

    @property
    def ended(self) -> bool:
        return self.state.base in ENDED

    @property
    def held(self) -> bool:
        """Waits for a release, not for resources."""
        return self.pending and (self.priority == 0 or self.reason.startswith("JobHeld") or "held" in self.reason)

    @property
    def bundle(self) -> bool:
        """A row that stands for many pending tasks; never a target of an action."""
        return self.tasks > 1 or "[" in self.id


class JobLayout(Struct, frozen=True, kw_only=True):
    """Which GPUs of each node a job holds; read once, when it starts on part of a node."""

    job: str
    start_time: Reading[float]
    gpus: tuple[tuple[str, tuple[int, ...]], ...]
    """(node, GPU indices) pairs."""
