"""Reading `-O` output whole: nothing Slurm prints is escaped, so every field ends in a suffix nobody can guess."""

import secrets

from gputop.model.errors import SourceError


def new_suffix() -> str:
    """A fresh field end for one call; made of characters that Slurm's format takes literally."""
    return f"\x1fk{secrets.token_hex(8)}\x1e"


def format_argument(fields: tuple[str, ...], suffix: str) -> str:
    """The value of -O: each field with the suffix, which also lifts its width limit."""
    return ",".join(f"{field}:{suffix}" for field in fields)


def split_rows(output: bytes, suffix: str, width: int, subject: str) -> list[list[str]]:
    """The rows of an answer, by suffix and never by line; raises when the count does not come out even."""
    parts = output.decode("utf-8", "replace").split(suffix)
    tail = parts.pop()
    if tail.strip() or len(parts) % width:
        raise SourceError(subject, f"answer cut off or garbled: {len(parts)} fields do not make rows of {width}")
    rows = [parts[k : k + width] for k in range(0, len(parts), width)]
    for row in rows:
        row[0] = row[0].lstrip("\n")
    return rows
