"""What can be asked of Slurm: reads give facts, calls are data, an answer says only whether Slurm took the call."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from gputop.model.jobs import Job, JobLayout
from gputop.model.nodes import Node
from gputop.model.site import Partition, Reservation, Switch


class DrainNode(Struct, frozen=True, tag="drain-node"):
    node: str
    reason: str


class ResumeNode(Struct, frozen=True, tag="resume-node"):
    node: str


class RequeueJob(Struct, frozen=True, tag="requeue-job"):
    """The job goes back to the queue; with hold it stays there until released."""

    job: str
    hold: bool = False


class UpdateJob(Struct, frozen=True, tag="update-job"):
    """Changes a pending job: the whole exclude list (None leaves it), and whether its start delay is lifted."""

    job: str
    excluded: tuple[str, ...] | None = None
    start_now: bool = False


class HoldJob(Struct, frozen=True, tag="hold-job"):
    job: str


class ReleaseJob(Struct, frozen=True, tag="release-job"):
    job: str


class CancelJob(Struct, frozen=True, tag="cancel-job"):
    job: str


class MarkJob(Struct, frozen=True, tag="mark-job"):
    """Writes the job's AdminComment."""

    job: str
    text: str


Call = DrainNode | ResumeNode | RequeueJob | UpdateJob | HoldJob | ReleaseJob | CancelJob | MarkJob


class AnswerKind(StrEnum):
    ACCEPTED = "accepted"
    """Slurm took the call; says nothing about its effect."""
    REFUSED = "refused"
    """Slurm said no, in `words`; nothing was done."""
    UNKNOWN = "unknown"
    """Timed out, cut off, or partly done: it may still take effect. Read the world, never resend."""


class Answer(Struct, frozen=True):
    """What came back from a call."""

    kind: AnswerKind
    words: str = ""


class Site(Struct, frozen=True, kw_only=True):
    """The slow reads together."""

    partitions: tuple[Partition, ...]
    reservations: tuple[Reservation, ...]
    switches: tuple[Switch, ...]


class Ability(StrEnum):
    """Whether this account may do a kind of action."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Abilities(Struct, frozen=True, kw_only=True):
    """What Slurm would let this account do, as far as it can be told without trying."""

    account: str
    nodes: Ability
    """Drain and resume nodes."""
    jobs: Ability
    """Requeue, hold, release and cancel the jobs of others."""
    marks: Ability
    """Write AdminComment."""
    detail: str = ""
    """How we know, or what would have to be set up."""


class Scheduler(Protocol):
    """Slurm, by whichever adapter. Reads raise SourceError; calls never raise for what Slurm says."""

    async def nodes(self) -> tuple[Node, ...]:
        """Every node; an empty answer raises, since no cluster has none."""
        ...

    async def jobs(self) -> tuple[Job, ...]:
        """Every job the controller remembers, pending arrays as bundles; may be empty."""
        ...

    async def tasks(self, jobs: tuple[str, ...]) -> tuple[Job, ...]:
        """These jobs or array tasks one by one, exclude lists included whatever the release."""
        ...

    async def layout(self, job: str) -> JobLayout | None:
        """GPU indices per node of one running job; None where Slurm has no detail."""
        ...

    async def boot_times(self) -> dict[str, float]:
        """Node -> boot time in epoch seconds, for nodes whose probe cannot tell."""
        ...

    async def site(self) -> Site:
        """Partitions, reservations and topology."""
        ...

    async def abilities(self) -> Abilities:
        """What this account may do."""
        ...

    async def call(self, call: Call) -> Answer:
        """Sends one call, once."""
        ...

    def argv(self, call: Call) -> tuple[str, ...]:
        """The exact command of a call, for the card; adapters without commands give the equivalent one."""
        ...
