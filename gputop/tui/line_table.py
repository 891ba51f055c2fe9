"""A table on the Line API: rows by id, only changed lines repainted, a cursor that follows its id."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputop.tui.themes import Palette

KEEP_STRIPS = 2000
"""Painted lines kept for when they come back."""


@dataclass(frozen=True)
class Column:
    """One column; of those that do not fit, the ones with the highest drop go first."""

    title: str
    width: int
    right: bool = False
    drop: int = 0
    """0 is never dropped."""
    grow: bool = False
    """Takes what is left."""


Cell = tuple[str, str]
"""Text, and a word of the theme."""


@dataclass(frozen=True)
class Row:
    """One line; equal rows are painted once."""

    key: str
    cells: tuple[Cell, ...]


def _no_row(key: str) -> Row:
    raise KeyError(key)


class LineTable(ScrollView, can_focus=True):
    """Shows rows in the order they are given."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
    ]
    DEFAULT_CSS = "LineTable { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }"

    class Opened(Message):
        """Enter or a double click on a row."""

        def __init__(self, table: "LineTable", key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

    def __init__(self, columns: Sequence[Column], palette: Palette, *, empty: str, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._palette = palette
        self._empty = empty
        self._keys: tuple[str, ...] = ()
        self._row_of: Callable[[str], Row] = _no_row
        self._drawn: dict[int, Row] = {}
        """Row number -> what was last made of it; only rows that can be seen are made at all."""
        self._index: dict[str, int] = {}
        self._widths: tuple[int, ...] = ()
        self._strips: dict[tuple[Row, bool], Strip] = {}
        self.cursor: str | None = None
        """The id of the selected row; it stays selected wherever it moves."""
        self._touched = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The ids of its rows, in their order."""
        return self._keys

    def row(self, k: int) -> Row:
        """One row as it would be drawn."""
        return self._row_of(self._keys[k])

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Takes a few rows."""
        by_key = {row.key: row for row in rows}
        self.show([row.key for row in rows], by_key.__getitem__)

    def show(self, keys: Sequence[str], row_of: Callable[[str], Row]) -> None:
        """Takes new rows by id, of which only those in sight are asked for; repaints the lines that differ."""
        old, self._keys, self._row_of = len(self._keys), tuple(keys), row_of
        before = self._index.get(self.cursor or "", 0)
        self._index = {key: k for k, key in enumerate(self._keys)}
        if not self._touched and self._keys:
            self.cursor = self._keys[0]
        elif self.cursor not in self._index:
            self.cursor = self._keys[min(before, len(self._keys) - 1)] if self._keys else None
        drawn, self._drawn = self._drawn, {}
        if len(self._keys) != old:
            self.virtual_size = Size(self.size.width, len(self._keys) + 1)
        self._keep_cursor_in_place(before)
        if len(self._strips) > KEEP_STRIPS:
            self._strips.clear()
        if len(self._keys) != old:
            self.refresh()
            return
        top = self.scroll_offset.y
        for k in range(top, min(top + self._room, len(self._keys))):
            if self._row_at(k) != drawn.get(k):
                self._refresh_row(k)

    def _row_at(self, k: int) -> Row:
        row = self._drawn.get(k)
        if row is None:
            row = self._drawn[k] = self._row_of(self._keys[k])
        return row

    def _refresh_row(self, k: int) -> None:
        y = k - self.scroll_offset.y + 1
        if 1 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _keep_cursor_in_place(self, before: int) -> None:
        """A row that moved takes the view with it, so that it stays where the eye is."""
        after = self._index.get(self.cursor or "", 0)
        top = self.scroll_offset.y
        if after == before or not before >= top or not before < top + self._room:
            return
        if not top <= after < top + self._room:
            self.scroll_to(y=max(0, top + after - before), animate=False, immediate=True)
        self.refresh()

    @property
    def _room(self) -> int:
        """Rows that fit under the header."""
        return max(1, self.size.height - 1)

    def select(self, key: str) -> None:
        """Moves the cursor to a row."""
        if key in self._index:
            before = self._index.get(self.cursor or "", 0)
            self.cursor, self._touched = key, True
            self._refresh_row(before)
            self._reveal()

    def action_move(self, by: int) -> None:
        if self._keys:
            at = self._index.get(self.cursor or "", 0)
            self.select(self._keys[min(max(0, at + by), len(self._keys) - 1)])

    def action_page(self, by: int) -> None:
        self.action_move(by * self._room)

    def _reveal(self) -> None:
        at, top = self._index.get(self.cursor or "", 0), self.scroll_offset.y
        if at < top:
            self.scroll_to(y=at, animate=False, immediate=True)
        elif at >= top + self._room:
            self.scroll_to(y=at - self._room + 1, animate=False, immediate=True)
        self._refresh_row(at)

    def on_click(self, event: events.Click) -> None:
        k = self.scroll_offset.y + event.y - 1
        if event.y >= 1 and k < len(self._keys):
            self.select(self._keys[k])
            if event.chain == 2:
                self.post_message(self.Opened(self, self._keys[k]))

    def on_resize(self) -> None:
        self._strips.clear()
        self._widths = fit(self._columns, self.size.width)
        self.virtual_size = Size(self.size.width, len(self._keys) + 1)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if len(self._widths) != len(self._columns):
            self._widths = fit(self._columns, width)
        if y == 0:
            return self._line(tuple((column.title, "header") for column in self._columns), Style.null())
        k = self.scroll_offset.y + y - 1
        if k >= len(self._keys):
            text = f"  {self._empty}" if not self._keys and y == 2 else ""
            return Strip([Segment(set_cell_size(text, width), self.rich_style + self._palette["dim"])], width)
        row = self._row_at(k)
        selected = row.key == self.cursor and (self.has_focus or self.screen.focused is None)
        cached = self._strips.get((row, selected))
        if cached is None:
            cached = self._line(row.cells, self._palette["cursor"] if selected else Style.null())
            self._strips[(row, selected)] = cached
        return cached

    def _line(self, cells: Sequence[Cell], over: Style) -> Strip:
        segments = [Segment(" ", over)]
        for column, width, (text, word) in zip(self._columns, self._widths, cells, strict=True):
            if width:
                shown = clip(text, width)
                gap = width - cell_len(shown)
                shown = " " * gap + shown if column.right else shown + " " * gap
                # With its gap, so that a line has half as many changes of colour to send.
                segments.append(Segment(shown + "  ", self._palette[word] + over))
        return Strip(Segment.simplify(segments)).adjust_cell_length(self.size.width, over).apply_style(self.rich_style)


def clip(text: str, width: int) -> str:
    """At most so many cells, with a sign where something is cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else "…"[:width]


def fit(columns: Sequence[Column], width: int) -> tuple[int, ...]:
    """The width of each column, 0 for one that is dropped."""
    kept = list(range(len(columns)))

    def needed() -> int:
        return 1 + sum(columns[k].width + 2 for k in kept)

    while needed() > width and (droppable := [k for k in kept if columns[k].drop]):
        kept.remove(max(droppable, key=lambda k: columns[k].drop))
    spare = max(0, width - needed())
    growing = [k for k in kept if columns[k].grow]
    return tuple(
        0 if k not in kept else columns[k].width + (spare // len(growing) if k in growing else 0)
        for k in range(len(columns))
    )
