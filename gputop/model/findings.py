"""What the rules say: a finding with its evidence, and what cannot be told, with the reason."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from msgspec import Struct

from gputop.model.reading import Reading, Unknown, Why


class Severity(IntEnum):
    """Worst first."""

    FATAL = 1
    """The GPU or node cannot do its work."""
    DEGRADED = 2
    """It works, worse than it should."""
    WARN = 3
    """A sign of what may come; nobody has to get up for it."""
    INFO = 4


class Hint(StrEnum):
    """What a finding calls for; a proposal is made of it, never an action by itself."""

    NONE = "nothing"
    WATCH = "watch it"
    RESET = "reset the GPU once the node is drained"
    REBOOT = "drain the node, then reboot it"
    DRAIN = "drain the node"
    PERSON = "a person has to look"


class Evidence(Struct, frozen=True, kw_only=True):
    """A reading that led to a finding, and the threshold it was held against."""

    reading: str
    """Name of the column or log."""
    value: str
    limit: str
    """In words: at least 1, below 0.9 of the median."""
    at: Reading[float] = Unknown(Why.NOT_READ)
    """Epoch seconds of the reading."""


class Finding(Struct, frozen=True, kw_only=True):
    """A rule that holds for a subject. Its key holds no count and no time, so that repeats are one finding."""

    rule: str
    """Such as GPU001."""
    subject: str
    """Key of the GPU, port or host."""
    node: str
    severity: Severity
    says: str
    since: float
    """Epoch seconds at which it was first seen to hold."""
    evidence: tuple[Evidence, ...] = ()
    hint: Hint = Hint.NONE
    stale: bool = False
    """What it rests on has not been read since: it was so, and nobody knows whether it still is."""

    @property
    def key(self) -> str:
        return f"{self.rule}/{self.subject}"


class Need(StrEnum):
    """A question that rules depend on."""

    GPUS = "GPUs"
    HOST = "host"
    PORTS = "ports"
    KERNEL_LOG = "kernel log"


class Blind(Struct, frozen=True, kw_only=True):
    """An unanswered need: its rules cannot tell for this node, which is never "healthy"."""

    need: Need
    node: str
    because: str

    @property
    def key(self) -> str:
        return f"{self.need}/{self.node}"


def worst_of(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Node -> its worst finding, the oldest of those that are as bad."""
    worst: dict[str, Finding] = {}
    for one in findings.values():
        old = worst.get(one.node)
        if old is None or (one.severity, one.since) < (old.severity, old.since):
            worst[one.node] = one
    return worst
