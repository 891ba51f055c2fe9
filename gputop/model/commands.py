"""What a reader may ask of the engine; a replay has no such channel."""

from msgspec import Struct

from gputop.model.actions import Intent


class Propose(Struct, frozen=True, kw_only=True, tag="propose"):
    """Draw a card for this intent under this id."""

    id: str
    intent: Intent


class Approve(Struct, frozen=True, kw_only=True, tag="approve"):
    """Run the proposal; `typed` carries the word where one is asked for."""

    proposal: str
    typed: str = ""


class Dismiss(Struct, frozen=True, kw_only=True, tag="dismiss"):
    """The card was closed without acting."""

    proposal: str


class Goodbye(Struct, frozen=True, kw_only=True, tag="goodbye"):
    """A clean quit, as opposed to a reader that vanished."""


Command = Propose | Approve | Dismiss | Goodbye
