"""Says that the cluster is simulated, and what to press next; there only in a demo."""

from rich.text import Text

from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette


class GuideBar(StaticText):
    """At the top of every screen of a demo."""

    DEFAULT_CSS = (
        "GuideBar { height: auto; max-height: 3; padding: 0 1; display: none; } GuideBar.shown { display: block; }"
    )

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        self._palette = palette

    def show(self, says: str) -> None:
        self.set_class(bool(says), "shown")
        if says:
            self.put(
                Text.assemble(
                    (" SIMULATED ", self._palette["warn"] + self._palette["cursor"]),
                    "  ",
                    (says, self._palette["title"]),
                )
            )
