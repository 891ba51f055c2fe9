"""What can happen to the engine's state, as data; the fold is the only one that reads them."""

from msgspec import Struct

from gputop.detect.passes import Passed
from gputop.model.actions import Action, Proposal
from gputop.model.calls import Abilities, Site
from gputop.model.facts import Fact
from gputop.model.jobs import Job, JobLayout
from gputop.model.nodes import Node
from gputop.model.snapshot import Reader


class Heartbeat(Struct, frozen=True):
    """Time went on."""

    now: float


class Judged(Struct, frozen=True):
    """What a pass of the rules left behind."""

    passed: Passed


class FactsArrived(Struct, frozen=True):
    """What the SSH source said since the last fold, in order."""

    facts: tuple[Fact, ...]


class NodesRead(Struct, frozen=True):
    at: float
    nodes: tuple[Node, ...]


class JobsRead(Struct, frozen=True):
    """Everything squeue knows."""

    at: float
    jobs: tuple[Job, ...]


class TasksRead(Struct, frozen=True):
    """Some jobs or tasks, read apart while an action watches them."""

    at: float
    jobs: tuple[Job, ...]


class SiteRead(Struct, frozen=True):
    at: float
    site: Site


class LayoutRead(Struct, frozen=True):
    """None where Slurm had no detail; it is not asked again for this start."""

    job: str
    layout: JobLayout | None


class BootTimesRead(Struct, frozen=True):
    at: float
    times: tuple[tuple[str, float], ...]
    """(node, epoch seconds)."""


class AbilitiesRead(Struct, frozen=True):
    abilities: Abilities


class ReadFailed(Struct, frozen=True):
    """A source could not be asked: what was known stays, and ages."""

    source: str
    trouble: str


class ProposalChanged(Struct, frozen=True):
    proposal: Proposal


class ActionChanged(Struct, frozen=True):
    action: Action


class ReaderJoined(Struct, frozen=True):
    id: str
    reader: Reader


class ReaderLeft(Struct, frozen=True):
    id: str


class EngineTroubled(Struct, frozen=True):
    """Something is wrong with the engine itself; "" when it is over."""

    words: str


class Recording(Struct, frozen=True):
    """Where the session log goes now."""

    path: str


Event = (
    Heartbeat
    | Judged
    | FactsArrived
    | NodesRead
    | JobsRead
    | TasksRead
    | SiteRead
    | LayoutRead
    | BootTimesRead
    | AbilitiesRead
    | ReadFailed
    | ProposalChanged
    | ActionChanged
    | ReaderJoined
    | ReaderLeft
    | EngineTroubled
    | Recording
)
