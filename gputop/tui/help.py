"""The help page, made from the registry of keys."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.header import LEVEL_WORDS
from gputop.tui.keys import KEYS
from gputop.tui.themes import Palette


class HelpScreen(ModalScreen[None]):
    """Any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1", "close", show=False)]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen VerticalScroll {
        width: 78;
        max-width: 96%;
        height: auto;
        max-height: 94%;
        border: round $accent;
        padding: 0 1;
        background: $panel;
    }
    """

    def __init__(self, palette: Palette, glyphs: Glyphs, *, can_act: bool, live: bool) -> None:
        super().__init__()
        self._text = help_text(palette, glyphs, can_act=can_act, live=live)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text)

    def action_close(self) -> None:
        self.app.pop_screen()


def help_text(palette: Palette, glyphs: Glyphs, *, can_act: bool, live: bool) -> Text:
    """Keys with what they do, then the signs."""
    text = Text("KEYS\n", palette["header"])
    for key in KEYS:
        if ("replay" in key.where and live) or (key.acts and not can_act):
            continue
        text.append(f"  {key.show:<8}", palette["bad" if key.dangerous else "key"])
        text.append(f"{key.help}\n", palette["text"])
    text.append("\nSIGNS\n", palette["header"])
    for level, words in LEVEL_WORDS.items():
        text.append(f"  {glyphs.level[level]:<8}", palette[STYLE[level]])
        text.append(f"{words}\n", palette["text"])
    text.append(
        "\nA missing value says why: ? not read, n/s not supported, LOST, denied, t/out, err.\n"
        "stale: read more than two periods ago. Nothing is done on stale data.",
        palette["dim"],
    )
    return text
