"""The last line: the keys that do something here."""

from rich.text import Text

from gputop.tui.keys import footer
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette


class KeyLine(StaticText):
    """As many keys as fit, help and quit always."""

    DEFAULT_CSS = "KeyLine { height: 1; dock: bottom; padding: 0 1; }"

    def __init__(self, palette: Palette, where: str) -> None:
        super().__init__(fixed=True)
        self._palette = palette
        self._where = where

    def show(self, *, can_act: bool, live: bool) -> None:
        width = max(20, self.size.width - 2)
        keys = footer(self._where, can_act=can_act, live=live)
        always = [key for key in keys if key.id in ("help", "quit")]
        parts: list[Text] = []
        room = width - sum(len(key.show) + len(key.label) + 3 for key in always)
        for key in keys:
            size = len(key.show) + len(key.label) + 3
            if key in always:
                continue
            if size > room:
                break
            room -= size
            parts.append(self._part(key.show, key.label, dangerous=key.dangerous))
        parts.extend(self._part(key.show, key.label, dangerous=False) for key in always)
        self.put(Text("  ").join(parts))

    def _part(self, show: str, label: str, *, dangerous: bool) -> Text:
        word = "bad" if dangerous else "key"
        return Text.assemble((show, self._palette[word]), " ", (label, self._palette["dim"]))
