"""Every node as one cell: its health, or one of its readings as a colour and a sign."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputop.model.health import Level
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
ROOMY_LINES = 4
STEPS = 64
"""Steps in which a metric is told apart."""
UNREAD = -1
Ranks = npt.NDArray[np.int64]


class HeatMap(Widget):
    """One line of what it shows, then the cells, in the order of the nodes' names.

    Where there are more nodes than room, a cell stands for a few of them, and shows the one that most needs a look.
    """

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
        self._names: tuple[str, ...] = ()
        self._ranks: Ranks = np.empty(0, np.int64)
        """Of each node; the highest in a cell is the one that is drawn."""
        self.metric = "health"
        self.marked = ""
        """The node that the table's cursor is on."""

    def show(self, view: View) -> None:
        """Takes a new moment; repaints the lines in which a cell differs."""
        names = tuple(sorted(view.snap.nodes))
        ranks = self._ranked(view, names)
        before, self._ranks = self._ranks, ranks
        if names != self._names:
            resized = len(names) != len(self._names)
            self._names = names
            self.refresh(layout=resized)
        elif (changed := np.flatnonzero(before != ranks)).size:
            per_line = self._grid().nodes_a_line
            for line in sorted(set((changed // per_line).tolist())):
                self._refresh_line(line)

    def next_metric(self) -> None:
        self.metric = METRICS[(METRICS.index(self.metric) + 1) % len(METRICS)]
        self.refresh()

    def mark(self, node: str) -> None:
        if node != self.marked:
            before, self.marked = self.marked, node
            grid = self._grid()
            for name in (before, node):
                at = bisect_left(self._names, name)
                if at < len(self._names) and self._names[at] == name:
                    self._refresh_line(at // grid.nodes_a_line)

    def _refresh_line(self, line: int) -> None:
        self.refresh(Region(0, line + 1, self.size.width, 1))

    def _ranked(self, view: View, names: tuple[str, ...]) -> Ranks:
        if self.metric == "health":
            return np.array([-view.health[name].level for name in names], np.int64)
        low, high = _RANGE[self.metric]
        values = np.array([np.nan if v is None else v for v in (metric_value(view, n, self.metric) for n in names)])
        steps = np.clip((values - low) / (high - low), 0.0, 0.999) * STEPS
        return np.where(np.isnan(values), UNREAD, np.nan_to_num(steps)).astype(np.int64)

    def _look(self, rank: int) -> tuple[str, Style]:
        """The sign and style of a cell."""
        if self.metric == "health":
            level = Level(-rank)
            return self._glyphs.level[level], self._palette[STYLE[level]]
        if rank == UNREAD:
            return "?", self._palette["unknown"]
        signs, heat = self._glyphs.spark, self._palette.heat
        sign = signs[rank * len(signs) // STEPS]
        return sign, heat[rank * len(heat) // STEPS] if heat else self._palette["text"]

    def _legend(self, grid: "Grid") -> str:
        several = f"   {grid.nodes} nodes a cell, the worst shows" if grid.nodes > 1 else ""
        if self.metric == "health":
            signs = self._glyphs.level
            words = ("down", "failing", "degraded", "unread", "drained", "off", "busy", "idle")
            return "  ".join(f"{sign} {word}" for sign, word in zip(signs.values(), words, strict=True)) + several
        low, high = _RANGE[self.metric]
        cold, hot = self._glyphs.spark[0], self._glyphs.spark[-1]
        return f"{self.metric}: {cold} {low:.0f} to {hot} {high:.0f} {_UNIT[self.metric]}, ? not read{several}"

    def _grid(self) -> "Grid":
        return grid(len(self._names), self.size.width - 2)

    def get_content_height(self, container, viewport, width: int) -> int:  # type: ignore[no-untyped-def]
        return 1 + grid(len(self._names), width).lines

    def render_line(self, y: int) -> Strip:
        pad = Segment(" ")
        layout = self._grid()
        if y == 0:
            title = Strip([pad, Segment(self._legend(layout)[: self.size.width - 2], self._palette["dim"])])
            return title.adjust_cell_length(self.size.width).apply_style(self.rich_style)
        first = (y - 1) * layout.nodes_a_line
        ranks = self._ranks[first : first + layout.nodes_a_line]
        segments = [pad]
        for at in range(0, len(ranks), layout.nodes):
            sign, style = self._look(int(ranks[at : at + layout.nodes].max()))
            here = self._names[first + at : first + at + layout.nodes]
            shown = style + Style(reverse=True) if self.marked in here else style
            segments.append(Segment(sign, shown))
            if layout.columns == 2:
                segments.append(Segment(" "))
        strip = Strip(Segment.simplify(segments))
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def on_click(self, event: events.Click) -> None:
        layout = self._grid()
        at = (event.y - 1) * layout.nodes_a_line + (event.x - 1) // layout.columns * layout.nodes
        if event.y >= 1 and 0 <= at < len(self._names):
            worst = int(self._ranks[at : at + layout.nodes].argmax())
            self.post_message(self.Picked(self._names[at + worst]))


@dataclass(frozen=True)
class Grid:
    """How nodes are laid out."""

    lines: int
    nodes_a_line: int
    nodes: int
    """Nodes a cell."""
    columns: int
    """Columns a cell."""


def grid(nodes: int, width: int) -> Grid:
    """Two columns a node while that fits a few lines, else one, else several nodes a cell."""
    width = max(2, width)
    if math.ceil(nodes / (width // 2)) <= ROOMY_LINES:
        return Grid(max(1, math.ceil(nodes / (width // 2))), width // 2, 1, 2)
    several = max(1, math.ceil(nodes / (width * MAX_LINES)))
    return Grid(math.ceil(nodes / (width * several)), width * several, several, 1)


def metric_value(view: View, name: str, metric: str) -> float | None:
    """A node's value of a metric; None where it was not read in time."""
    sampled, read = view.ages(name)
    if metric == "age":
        return sampled
    sums = view.sums.of(name)
    if sums is None or view.gpus_stale(read):
        return None
    if metric == "memory":
        return 100 * sums.mem_used / sums.mem_total if sums.mem_used is not None and sums.mem_total else None
    value: float | None = getattr(sums, metric)
    return value
