"""What the SSH source tells the engine about one node."""

from msgspec import Struct

from gputop.model.hosts import Link
from gputop.model.sample import Message


class LinkChanged(Struct, frozen=True, kw_only=True):
    """The link to a node took another state."""

    node: str
    link: Link


class Heard(Struct, frozen=True, kw_only=True):
    """A probe's message arrived."""

    node: str
    message: Message
    at: float
    """Our clock when it arrived; a frozen session delivers old samples late, so this is not their age."""
    offset: float
    """Our clock less the node's monotonic clock: the smallest seen in this session. Sample time = mono + offset."""


Fact = LinkChanged | Heard
