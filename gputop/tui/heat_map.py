"""Every node as one cell: its health, or one of its readings as a colour and a sign."""

import math

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.themes import Palette
from gputop.tui.view import View

METRICS = ("health", "util", "power", "temp", "memory", "age")
_RANGE = {
    "util": (0.0, 100.0),
    "power": (0.0, 5600.0),
    "temp": (25.0, 90.0),
    "memory": (0.0, 100.0),
    "age": (0.0, 20.0),
}
_UNIT = {"util": "%", "power": "W", "temp": "°C", "memory": "%", "age": "s"}
MAX_LINES = 12


class HeatMap(Widget):
    """One line of what it shows, then the cells, in the order of the nodes' names."""

    DEFAULT_CSS = "HeatMap { height: auto; padding: 0 1; }"

    class Picked(Message):
        """A click on a node."""

        def __init__(self, node: str) -> None:
            super().__init__()
            self.node = node

    def __init__(self, palette: Palette, glyphs: Glyphs) -> None:
        super().__init__()
        self._palette = palette
        self._glyphs = glyphs
        self._cells: tuple[tuple[str, str, Style], ...] = ()
        self._title = ""
        self.metric = "health"
        self.marked = ""
        """The node that the table's cursor is on."""

    def show(self, view: View) -> None:
        """Takes a new moment; repaints when a cell differs."""
        cells = tuple((name, *self._cell(view, name)) for name in sorted(view.snap.nodes))
        title = self._legend()
        if (cells, title) != (self._cells, self._title):
            resized = len(cells) != len(self._cells)
            self._cells, self._title = cells, title
            self.refresh(layout=resized)

    def next_metric(self) -> None:
        self.metric = METRICS[(METRICS.index(self.metric) + 1) % len(METRICS)]

    def mark(self, node: str) -> None:
        if node != self.marked:
            self.marked = node
            self.refresh()

    def _legend(self) -> str:
        if self.metric == "health":
            signs = self._glyphs.level
            words = ("down", "failing", "unread", "drained", "off", "busy", "idle")
            return "  ".join(f"{sign} {word}" for sign, word in zip(signs.values(), words, strict=True))
        low, high = _RANGE[self.metric]
        cold, hot = self._glyphs.spark[0], self._glyphs.spark[-1]
        return f"{self.metric}: {cold} {low:.0f} to {hot} {high:.0f} {_UNIT[self.metric]}, ? not read"

    def _cell(self, view: View, name: str) -> tuple[str, Style]:
        level = view.health[name].level
        if self.metric == "health":
            return self._glyphs.level[level], self._palette[STYLE[level]]
        value = metric_value(view, name, self.metric)
        if value is None:
            return "?", self._palette["unknown"]
        low, high = _RANGE[self.metric]
        part = min(0.999, max(0.0, (value - low) / (high - low)))
        sign = self._glyphs.spark[int(part * len(self._glyphs.spark))]
        heat = self._palette.heat
        return sign, heat[int(part * len(heat))] if heat else self._palette["text"]

    def _across(self, width: int) -> tuple[int, int]:
        """(cells a line, columns a cell): two columns while that fits a few lines."""
        roomy = max(1, width // 2)
        if math.ceil(len(self._cells) / roomy) <= 4:
            return roomy, 2
        return max(1, width), 1

    def get_content_height(self, container, viewport, width: int) -> int:  # type: ignore[no-untyped-def]
        across, _ = self._across(width)
        return 1 + min(MAX_LINES, max(1, math.ceil(len(self._cells) / across)))

    def render_line(self, y: int) -> Strip:
        width = self.size.width - 2
        pad = Segment(" ")
        if y == 0:
            title = Strip([pad, Segment(self._title[:width], self._palette["dim"])])
            return title.adjust_cell_length(self.size.width).apply_style(self.rich_style)
        across, columns = self._across(width)
        lines = math.ceil(len(self._cells) / across)
        per_line = across if lines <= MAX_LINES else math.ceil(len(self._cells) / MAX_LINES)
        segments = [pad]
        for name, sign, style in self._cells[(y - 1) * per_line : y * per_line][:across]:
            shown = style + Style(reverse=True) if name == self.marked else style
            segments.append(Segment(sign, shown))
            if columns == 2:
                segments.append(Segment(" "))
        return Strip(segments).adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        across, columns = self._across(self.size.width - 2)
        at = (event.y - 1) * across + (event.x - 1) // columns
        if event.y >= 1 and 0 <= at < len(self._cells):
            self.post_message(self.Picked(self._cells[at][0]))


def metric_value(view: View, name: str, metric: str) -> float | None:
    """A node's value of a metric; None where it was not read in time."""
    sampled, read = view.ages.get(name, (None, None))
    if metric == "age":
        return sampled
    sums = view.sums.get(name)
    if sums is None or view.gpus_stale(read):
        return None
    if metric == "memory":
        return 100 * sums.mem_used / sums.mem_total if sums.mem_used is not None and sums.mem_total else None
    value: float | None = getattr(sums, metric)
    return value
