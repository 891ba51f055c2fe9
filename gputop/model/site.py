"""What changes slowly about a cluster: partitions, reservations and topology."""

from msgspec import Struct

from gputop.model.reading import Reading


class Partition(Struct, frozen=True, kw_only=True):
    """A Slurm partition."""

    name: str
    state: str
    """UP, DOWN, DRAIN, INACTIVE."""
    default: bool
    nodes: tuple[str, ...]


class Reservation(Struct, frozen=True, kw_only=True):
    """A reservation; with the maint flag it is a maintenance window."""

    name: str
    start: Reading[float]
    end: Reading[float]
    nodes: tuple[str, ...]
    flags: frozenset[str]
    users: str = ""

    @property
    def maintenance(self) -> bool:
        return "maint" in self.flags


class Switch(Struct, frozen=True, kw_only=True):
    """A switch of topology/tree; leaves hold nodes, others hold switches."""

    name: str
    level: int
    nodes: tuple[str, ...]
