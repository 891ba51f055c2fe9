"""The signs of the screen: in UTF-8 where the terminal has it, else in ASCII."""

import locale

from msgspec import Struct

from gputop.model.health import Level


class Glyphs(Struct, frozen=True, kw_only=True):
    """One set of signs."""

    level: dict[Level, str]
    spark: str
    bar: str
    more: str
    half: str
    """A half block: two nodes in a cell; "" where there is none."""
    rule: str
    dot: str


UNICODE = Glyphs(
    level={
        Level.DOWN: "✖", Level.FAILING: "▲", Level.DEGRADED: "△", Level.UNREAD: "?", Level.DRAINED: "◆",
        Level.OFF: "·", Level.BUSY: "■", Level.IDLE: "□",
    },
    spark="▁▂▃▄▅▆▇█", bar="█", more="…", half="▀", rule="─", dot="·",
)  # fmt: skip
ASCII = Glyphs(
    level={
        Level.DOWN: "X", Level.FAILING: "!", Level.DEGRADED: "~", Level.UNREAD: "?", Level.DRAINED: "d",
        Level.OFF: "-", Level.BUSY: "#", Level.IDLE: ".",
    },
    spark="_.-=+*#@", bar="#", more="~", half="", rule="-", dot="-",
)  # fmt: skip
STYLE = {
    Level.DOWN: "bad", Level.FAILING: "bad", Level.DEGRADED: "warn", Level.UNREAD: "unknown", Level.DRAINED: "warn",
    Level.OFF: "dim", Level.BUSY: "busy", Level.IDLE: "idle",
}  # fmt: skip
"""Level -> word of the theme."""


def for_terminal() -> Glyphs:
    """By the locale's encoding."""
    return UNICODE if "utf" in locale.getpreferredencoding(False).lower() else ASCII
