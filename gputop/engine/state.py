"""The engine's state, and what it asks for in return for an event."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from gputop.detect.rule import Past
from gputop.model.sample import Hello
from gputop.model.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """What frames carry, and the little that only the fold needs. Mappings are never written to."""

    snap: Snapshot
    hellos: Mapping[str, Hello] = field(default_factory=dict)
    """Node -> the order of columns its probe sends."""
    layouts_asked: frozenset[tuple[str, float]] = frozenset()
    """(job, start time) whose GPU indices were asked for, answered or not."""
    pasts: Mapping[str, Past] = field(default_factory=dict)
    """Rule -> what it keeps from pass to pass."""
    followed: Mapping[str, str] = field(default_factory=dict)
    """Node -> SSH host name, as last handed to the SSH source."""


class Follow(Struct, frozen=True):
    """Watch exactly these nodes over SSH."""

    hosts: tuple[tuple[str, str], ...]
    """(node, SSH host name)."""


class ReadLayouts(Struct, frozen=True):
    """Ask Slurm for the GPU indices of these jobs."""

    jobs: tuple[str, ...]


Effect = Follow | ReadLayouts
