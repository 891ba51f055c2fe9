"""Text that is drawn anew only when it differs: most looks change little of it."""

from rich.text import Text
from textual.widgets import Static


class StaticText(Static):
    """`put` instead of `update`."""

    def __init__(self, *, id: str | None = None, classes: str | None = None, fixed: bool = False) -> None:  # noqa: A002 - Textual's name
        """fixed: its height never depends on what it says, so nothing else has to move."""
        super().__init__("", id=id, classes=classes)
        self._said: Text | None = None
        self._fixed = fixed

    def put(self, text: Text) -> None:
        if text != self._said:
            self._said = text
            self.update(text, layout=not self._fixed)
