"""Hostile text made safe to show: control characters and escape sequences go, length is bounded."""

import re
import unicodedata

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_REPLACED = "\ufffd"


def clean(text: str, limit: int = 1000) -> str:
    """One printable line: escape sequences, control and direction characters removed, at most limit characters."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= limit else text[: limit - 1] + "…"
    text = _ANSI.sub("", text[: limit * 4])
    out: list[str] = []
    for char in text:
        kind = unicodedata.category(char)
        if char in "\t\n\r\x0b\x0c\x85" or kind in ("Zs", "Zl", "Zp"):
            out.append(" ")
        elif char in _BIDI or kind in ("Cc", "Cf", "Co"):
            continue
        elif kind in ("Cs", "Cn"):
            out.append(_REPLACED)
        else:
            out.append(char)
    line = "".join(out)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plural(count: int, noun: str) -> str:
    """'1 node', '2 nodes'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
