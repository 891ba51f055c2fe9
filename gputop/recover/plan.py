"""What an action is made of, as data: calls to send, and what must be seen before the next one."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from gputop.model.actions import Intent, Refusal
from gputop.model.calls import Call
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot

Subject: TypeAlias = Node | Job


class Sight(StrEnum):
    """What one look at the subject says."""

    THERE = "there"
    NOT_YET = "not yet"
    WRONG = "wrong"
    """It went another way, and waiting will not help."""


class Look(Struct, frozen=True):
    """A sight, and what was seen in words."""

    sight: Sight
    says: str


class Send(Struct, frozen=True):
    """Hand this call to Slurm, once."""

    call: Call
    optional: bool = False
    """A mark: when Slurm refuses it, the action goes on and says so."""
    left: str = ""
    """In what state the subject is left when Slurm refuses this call, and what to do then."""


class Until(Struct, frozen=True):
    """Read the subject until check says there, wrong, or time is up."""

    seconds: float
    check: Callable[[Subject | None], Look]
    left: str = ""
    """In what state the subject is left when this never comes, and what to do then."""


class Pause(Struct, frozen=True):
    """Let time go by before the next call."""

    seconds: float
    why: str


Stage = Send | Until | Pause


class Plan(Protocol):
    """One kind of action on one target; runs nothing."""

    @property
    def intent(self) -> Intent: ...

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        """Why this kind may not run on this subject as it is now, in words."""
        ...

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        """What it does, to whom, and whether it can be undone; a sentence each."""
        ...

    def typed(self, snap: Snapshot) -> str:
        """The word to type; "" when a key is enough."""
        ...

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        """What to send and what to see, from the subject as it was just read."""
        ...

    def undo(self) -> Intent | None:
        """What takes it back; None where nothing does."""
        ...


def still_moving(subject: Subject | None) -> bool:
    """Whether no verdict can rest on it yet: it was not in the answer, or its run is still ending."""
    return subject is None or (isinstance(subject, Job) and subject.completing)


def subject_of(snap: Snapshot, intent: Intent) -> Subject | None:
    """The node or job that an intent is about."""
    return snap.nodes.get(intent.target) if intent.kind.on_node else snap.jobs.get(intent.target)
