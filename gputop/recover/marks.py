"""Our mark on what we touch: in a node's reason, in a job's AdminComment."""

import re

from gputop.model.nodes import OUR_PREFIX
from gputop.model.text import clean

_ID = re.compile(r"[A-Za-z0-9-]{1,40}")
_MARK = re.compile(rf"{re.escape(OUR_PREFIX)}{_ID.pattern}\]")
NOTE_LIMIT = 200


def mark(action_id: str, note: str) -> str:
    """gputop[ID]: NOTE."""
    return f"{OUR_PREFIX}{action_id}]: {clean(note, NOTE_LIMIT)}"


def fits(action_id: str) -> bool:
    """Whether an id can stand in a mark and be recognised there."""
    return _ID.fullmatch(action_id) is not None


def is_ours(text: str) -> bool:
    """Whether a reason or comment was written by a gputop."""
    return _MARK.match(text) is not None


def carries(text: str, action_id: str) -> bool:
    """Whether it was written by this very action."""
    return text.startswith(f"{OUR_PREFIX}{action_id}]")
