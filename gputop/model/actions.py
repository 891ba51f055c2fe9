"""Proposals and actions as everyone sees them: on the card, in the ledger, in the log."""

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """What can be done."""

    DRAIN = "drain"
    RESUME = "resume"
    REQUEUE = "requeue"
    REQUEUE_EXCLUDING = "requeue-excluding"
    HOLD = "hold"
    RELEASE = "release"
    CANCEL = "cancel"

    @property
    def on_node(self) -> bool:
        """Whether its target is a node; otherwise it is a job."""
        return self in (Kind.DRAIN, Kind.RESUME)


class Intent(Struct, frozen=True, kw_only=True):
    """What somebody wants: a kind, one target, and what the kind needs beside it."""

    kind: Kind
    target: str
    """Node name or job id."""
    exclude: tuple[str, ...] = ()
    """For requeue-excluding: the nodes to keep away from."""
    note: str = ""
    """Free text of the person; goes into the reason after our mark."""


class Refused(StrEnum):
    """Which guard stopped an action."""

    READ_ONLY = "read-only"
    STALE = "stale"
    GONE = "gone"
    CHANGED = "changed"
    DONE = "already so"
    FOREIGN = "foreign"
    BUSY = "busy"
    STATE = "state"
    TYPED = "typed word"
    ABILITY = "ability"
    LEDGER = "ledger"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class Refusal(Struct, frozen=True):
    """Why an action may not run now, in words."""

    guard: Refused
    says: str


class ProposalState(StrEnum):
    OPEN = "open"
    STALE = "stale"
    """The world changed since it was drawn; its key does nothing."""
    APPROVED = "approved"
    DISMISSED = "dismissed"


class Proposal(Struct, frozen=True, kw_only=True):
    """An offered action: what it would do, to what, what stops it, and what must be typed."""

    id: str
    intent: Intent
    title: str
    commands: tuple[str, ...]
    """The exact commands in order, shell-quoted for reading and copying."""
    effects: tuple[str, ...]
    """Blast radius and consequences, one sentence each."""
    refusals: tuple[Refusal, ...] = ()
    """Guards that hold it back right now; empty means the key acts."""
    typed: str = ""
    """The word that must be typed; "" when `y` is enough."""
    fingerprint: str
    """What the subject was when the card was drawn."""
    created: float
    expires: float
    state: ProposalState = ProposalState.OPEN
    by: str = ""
    """Who asked for it: user name and uid of the peer."""


class Phase(StrEnum):
    """How far an action is. Never just "success"."""

    ASKED = "asked"
    ACCEPTED = "accepted"
    SEEN = "seen"
    CLOSED = "closed"


class Outcome(StrEnum):
    """How an action ended."""

    CONFIRMED = "confirmed"
    """A fresh read shows what was wanted."""
    CONTRADICTED = "contradicted"
    """A fresh read shows something else."""
    UNKNOWN = "unknown"
    """It may or may not have taken effect; somebody has to look."""
    REFUSED = "refused"
    """A guard or Slurm said no; nothing was done."""


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happened in an action."""

    at: float
    phase: Phase
    says: str


class Action(Struct, frozen=True, kw_only=True):
    """One run of an intent, from the ledger's reservation to its end."""

    id: str
    """That of its proposal: a card is run once."""
    intent: Intent
    by: str
    asked_at: float
    phase: Phase
    outcome: Outcome | None = None
    """None while it is open."""
    says: str = ""
    """The last word on it."""
    steps: tuple[Step, ...] = ()
    closed_at: float | None = None
    undo: Intent | None = None
    """What would take it back, while that can be done."""
    follow_up: str = ""
    """A later observation: where a requeued job runs now."""

    @property
    def open(self) -> bool:
        return self.outcome is None
