"""Slurm's ways of writing times, durations, numbers and exit codes, as readings."""

import re
from math import inf

from gputop.model.reading import Reading, Unknown, Why

_NOTHING = frozenset({"", "N/A", "n/a", "None", "(null)", "Unknown", "NONE", "None assigned", "INVALID"})
_DURATION = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$")
_EXIT = re.compile(r"^(\d+):(\d+)$")


def absent(text: str) -> bool:
    """Whether Slurm wrote one of its words for nothing."""
    return text.strip() in _NOTHING


def epoch(text: str) -> Reading[float]:
    """A time written under SLURM_TIME_FORMAT=%s."""
    text = text.strip()
    if text.isascii() and text.isdigit() and text != "0":
        return float(text)
    return Unknown(Why.NOT_READ) if absent(text) or text == "0" else Unknown(Why.ERROR, f"time {text[:40]!r}")


def whole(text: str) -> Reading[int]:
    """A count."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    return Unknown(Why.NOT_READ) if absent(text) else Unknown(Why.ERROR, f"number {text[:40]!r}")


def duration(text: str) -> Reading[float]:
    """[days-]hours:minutes:seconds, minutes:seconds, or UNLIMITED, in seconds."""
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return inf
    if found := _DURATION.match(text):
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    return Unknown(Why.NOT_READ, text if text == "Partition_Limit" else "")


def exit_code(text: str) -> Reading[str]:
    """status:signal; 22.05 prints the raw wait status (768 is exit 3, 9 is signal 9)."""
    text = text.strip()
    if _EXIT.match(text):
        return text
    if text.isascii() and text.isdigit():
        status = int(text)
        return f"{status >> 8}:{status & 0x7F}"
    return Unknown(Why.NOT_READ)
