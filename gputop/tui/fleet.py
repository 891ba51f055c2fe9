"""The first screen: totals and ages, what is wrong, every node as a cell, and the tables."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Input

from gputop.model.actions import Kind
from gputop.model.health import Level
from gputop.tui import action_rows, job_rows, node_rows
from gputop.tui.base_screen import BaseScreen
from gputop.tui.footer import KeyLine
from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.guide_bar import GuideBar
from gputop.tui.header import Header
from gputop.tui.heat_map import HeatMap
from gputop.tui.keys import bindings
from gputop.tui.line_table import LineTable
from gputop.tui.replay_bar import ReplayBar
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette
from gputop.tui.view import View

PANES = ("nodes", "jobs", "actions")


class FleetScreen(BaseScreen):
    """Everything at a glance, one key from the rest."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("fleet")]
    DEFAULT_CSS = """
    FleetScreen { layout: vertical; }
    FleetScreen #wrong { height: auto; max-height: 2; padding: 0 1; }
    FleetScreen #tabs { height: 1; padding: 0 1; margin-top: 1; }
    FleetScreen ContentSwitcher { height: 1fr; }
    FleetScreen #only { dock: bottom; display: none; border: none; height: 1; padding: 0 1; }
    FleetScreen #only.shown { display: block; }
    """

    def __init__(self, palette: Palette, glyphs: Glyphs) -> None:
        super().__init__()
        self._palette = palette
        self._glyphs = glyphs
        self._guide = GuideBar(palette)
        self._header = Header(palette, glyphs)
        self._map = HeatMap(palette, glyphs)
        self._keys = KeyLine(palette, "fleet")
        self._bar = ReplayBar(palette)
        self._tables = {
            "nodes": LineTable(node_rows.COLUMNS, palette, empty="Slurm has not been read yet", id="nodes"),
            "jobs": LineTable(job_rows.COLUMNS, palette, empty="no jobs", id="jobs"),
            "actions": LineTable(action_rows.COLUMNS, palette, empty="nothing was done yet", id="actions"),
        }
        self._sort = {"nodes": node_rows.SORTS[0], "jobs": job_rows.SORTS[0]}
        self._only = ""
        self._pane = "nodes"

    def compose(self) -> ComposeResult:
        yield self._guide
        yield self._header
        yield StaticText(id="wrong")
        yield self._map
        yield StaticText(id="tabs", fixed=True)
        with ContentSwitcher(initial="nodes"):
            yield from self._tables.values()
        yield Input(placeholder="only rows with …", id="only")
        with Vertical(id="bottom"):
            yield self._bar
        yield self._keys

    def on_mount(self) -> None:
        self.query_one("#bottom").styles.height = "auto"
        self._tables["nodes"].focus()

    def show(self, view: View) -> None:
        self._guide.show(self.gputop.guidance(view))
        self._header.show(view)
        self.query_one("#wrong", StaticText).put(wrong(view, self._palette, self._glyphs, self.size.width - 2))
        self._map.mark(self._tables["nodes"].cursor or "" if self._pane == "nodes" else "")
        self._map.show(view)
        self.query_one("#tabs", StaticText).put(self._tab_line(view))
        self._fill(view)
        self._bar.show(self.gputop.replay)
        self._keys.show(can_act=view.can_act, live=view.live)

    def _fill(self, view: View) -> None:
        """Only the pane that is seen."""
        table = self._tables[self._pane]
        match self._pane:
            case "nodes":
                nodes = view.snap.nodes
                keys = node_rows.node_keys(view, sort=self._sort["nodes"], only=self._only)
                table.show(keys, lambda name: node_rows.node_row(view, nodes[name], self._glyphs))
            case "jobs":
                jobs = view.snap.jobs
                keys = job_rows.job_keys(view, sort=self._sort["jobs"], only=self._only)
                table.show(keys, lambda key: job_rows.job_row(view, jobs[key]))
            case "actions":
                table.show_rows(action_rows.action_rows(view))

    def _tab_line(self, view: View) -> Text:
        counts = {"nodes": len(view.snap.nodes), "jobs": len(view.snap.jobs), "actions": len(view.snap.actions)}
        parts = []
        for number, pane in enumerate(PANES, 1):
            word = "title" if pane == self._pane else "dim"
            parts.append(
                Text.assemble((str(number), self._palette["key"]), (f" {pane} {counts[pane]}", self._palette[word]))
            )
        if self._pane in self._sort:
            parts.append(Text(f"by {self._sort[self._pane]}", self._palette["dim"]))
        if self._only:
            parts.append(Text(f"only {self._only!r}", self._palette["warn"]))
        return Text("   ").join(parts)

    def target(self, kind: Kind) -> str | None:
        if self._pane == ("nodes" if kind.on_node else "jobs"):
            return self._tables[self._pane].cursor
        return None

    def action_pane(self, pane: str) -> None:
        self._pane = pane
        self.query_one(ContentSwitcher).current = pane
        self._tables[pane].focus()
        self.gputop.look()

    def action_next_pane(self) -> None:
        self.action_pane(PANES[(PANES.index(self._pane) + 1) % len(PANES)])

    def action_metric(self) -> None:
        self._map.next_metric()
        self.gputop.look()

    def action_sort(self) -> None:
        orders = {"nodes": node_rows.SORTS, "jobs": job_rows.SORTS}.get(self._pane)
        if orders:
            at = orders.index(self._sort[self._pane])
            self._sort[self._pane] = orders[(at + 1) % len(orders)]
            self.gputop.look()

    def action_filter(self) -> None:
        only = self.query_one("#only", Input)
        only.add_class("shown")
        only.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._only = event.value.strip()
        self.gputop.look()

    def on_input_submitted(self) -> None:
        self.query_one("#only").remove_class("shown")
        self._tables[self._pane].focus()

    def key_escape(self) -> None:
        only = self.query_one("#only", Input)
        only.value = ""
        self.on_input_submitted()

    def action_open(self) -> None:
        key = self._tables[self._pane].cursor
        if key is not None:
            self._open(self._pane, key)

    def on_line_table_opened(self, event: LineTable.Opened) -> None:
        self._open(self._pane, event.key)

    def on_heat_map_picked(self, event: HeatMap.Picked) -> None:
        self.action_pane("nodes")
        self._tables["nodes"].select(event.node)

    def _open(self, pane: str, key: str) -> None:
        match pane:
            case "nodes":
                self.gputop.open_node(key)
            case "jobs":
                self.gputop.open_job(key)
            case "actions":
                self.gputop.open_action(key)


def wrong(view: View, palette: Palette, glyphs: Glyphs, width: int) -> Text:
    """The nodes that need a look, worst first, in as much room as there is."""
    bad = sorted((one.level, name, one.says) for name, one in view.health.items() if one.level <= Level.UNREAD)
    if not view.snap.nodes:
        return Text("waiting for Slurm's first answer", palette["dim"])
    if not bad:
        return Text("nothing is known to be wrong", palette["ok"])
    text = Text()
    text.append(f"{len(bad)} need a look:", palette["bad"])
    for shown, (level, name, says) in enumerate(bad):
        part = f"  {glyphs.level[level]} {name} {says}"
        if text.cell_len + len(part) > 2 * width - 12:
            text.append(f"  and {len(bad) - shown} more", palette["dim"])
            break
        text.append(part, palette[STYLE[level]])
    return text
