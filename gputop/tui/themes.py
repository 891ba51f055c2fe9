"""Themes: TOML files with rich styles for the words of the screen; the shipped ones, and the user's own."""

import os
import tomllib
from pathlib import Path

import platformdirs
from msgspec import Struct
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.theme import Theme

from gputop.model.errors import ConfigError

DEFAULT = "dark"
WORDS = (
    "text", "dim", "title", "accent", "ok", "busy", "idle", "warn", "bad", "unknown", "stale", "key", "cursor",
    "header",
)  # fmt: skip


class Palette(Struct, frozen=True, kw_only=True):
    """A theme, read and checked."""

    name: str
    styles: dict[str, Style]
    heat: tuple[Style, ...]
    """Cold to hot; empty in a theme without colour."""
    textual: Theme

    def __getitem__(self, word: str) -> Style:
        return self.styles[word]


def folders() -> tuple[Path, ...]:
    """Where themes are looked for: the user's first."""
    here = Path(__file__).resolve().parent.parent
    return (platformdirs.user_config_path("gputop") / "themes", here / "themes", here.parent / "themes")


def load_palette(name: str | None) -> Palette:
    """The named theme, else one for the terminal; ConfigError names what is wrong with it."""
    wanted = name or ("mono" if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "vt100") else DEFAULT)
    for folder in folders():
        path = folder / f"{wanted}.toml"
        if path.is_file():
            return _read(path)
    known = sorted({path.stem for folder in folders() if folder.is_dir() for path in folder.glob("*.toml")})
    raise ConfigError(f"no theme {wanted!r}; there is: {', '.join(known)}")


def _read(path: Path) -> Palette:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        styles = {word: Style.parse(raw["styles"][word]) for word in WORDS}
        heat = tuple(Style.parse(colour) for colour in raw["styles"]["heat"].split())
        theme = Theme(
            name=raw["name"],
            primary=raw["accent"],
            background=raw["background"],
            surface=raw["panel"],
            panel=raw["panel"],
            foreground=raw["foreground"],
            accent=raw["accent"],
            dark=bool(raw["dark"]),
        )
    except (OSError, tomllib.TOMLDecodeError, StyleSyntaxError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a theme: {type(error).__name__}: {error}") from error
    return Palette(name=raw["name"], styles=styles, heat=heat, textual=theme)
