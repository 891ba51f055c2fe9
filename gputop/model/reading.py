"""A reading is a value, or Unknown with the reason why there is none."""

from enum import StrEnum
from typing import TypeAlias, TypeVar

from msgspec import Struct


class Why(StrEnum):
    """Why a value is not there."""

    NOT_READ = "not read"
    NOT_SUPPORTED = "not supported"
    DENIED = "denied"
    LOST = "lost"
    TIMED_OUT = "timed out"
    STALE = "stale"
    ERROR = "error"


WHY_CODES: tuple[Why | None, ...] = (
    None,
    Why.NOT_READ,
    Why.NOT_SUPPORTED,
    Why.DENIED,
    Why.LOST,
    Why.TIMED_OUT,
    Why.STALE,
    Why.ERROR,
)
"""Column code -> reason; 0 is a known value. On disk and on the wire: append only, never reorder."""

CODE_OF: dict[Why, int] = {why: code for code, why in enumerate(WHY_CODES) if why is not None}


class Unknown(Struct, frozen=True, tag="unknown", tag_field="is"):
    """A value that is not there, and why. Never zero, never blank, never healthy."""

    why: Why
    detail: str = ""
    """The source's own words, for a person; cleaned of control characters at the edge."""

    def __str__(self) -> str:
        return f"{self.why}: {self.detail}" if self.detail else str(self.why)


T = TypeVar("T")
Reading: TypeAlias = T | Unknown


def known(value: "T | Unknown") -> "T | None":
    """The value, or None where there is none; for code that treats every reason alike."""
    return None if isinstance(value, Unknown) else value
