"""One job: where it runs, its GPUs against each other, why it waits, how often it restarted."""

import time
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from gputop.model.actions import Kind
from gputop.model.jobs import Job
from gputop.model.reading import Unknown
from gputop.tui import job_rows
from gputop.tui.base_screen import BaseScreen
from gputop.tui.footer import KeyLine
from gputop.tui.glyphs import Glyphs
from gputop.tui.guide_bar import GuideBar
from gputop.tui.header import Header
from gputop.tui.keys import bindings
from gputop.tui.line_table import Cell, Column, LineTable, Row
from gputop.tui.node_detail import remarks, sparkline
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette
from gputop.tui.view import View
from gputop.tui.words import SHORT, reading, span

COLUMNS = (
    Column("NODE", 10),
    Column("GPU", 3, right=True),
    Column("UTIL", 6, right=True),
    Column("HISTORY", 20, drop=3),
    Column("POWER", 7, right=True),
    Column("OF MEDIAN", 9, right=True, drop=1),
    Column("SM MHZ", 6, right=True),
    Column("TEMP", 5, right=True),
    Column("REMARKS", 10, grow=True),
)


class JobScreen(BaseScreen):
    """Opened by enter on a job."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("job")]
    DEFAULT_CSS = "JobScreen .top { height: auto; padding: 0 1; margin-bottom: 1; }"

    def __init__(self, job: str, palette: Palette, glyphs: Glyphs) -> None:
        super().__init__()
        self._job = job
        self._palette = palette
        self._glyphs = glyphs
        self._guide = GuideBar(palette)
        self._header = Header(palette, glyphs)
        self._keys = KeyLine(palette, "job")
        self._table = LineTable(COLUMNS, palette, empty="it does not run, or its GPUs were not read")

    def compose(self) -> ComposeResult:
        yield self._guide
        yield self._header
        yield StaticText(classes="top")
        yield self._table
        yield self._keys

    def target(self, kind: Kind) -> str | None:
        return None if kind.on_node else self._job

    def show(self, view: View) -> None:
        self._guide.show(self.gputop.guidance(view))
        self._header.show(view)
        job = view.snap.jobs.get(self._job)
        self.query_one(".top", StaticText).put(top(view, self._job, job, self._palette))
        self._table.show_rows([] if job is None else self._gpu_rows(view, job))
        self._keys.show(can_act=view.can_act, live=view.live)

    def _gpu_rows(self, view: View, job: Job) -> list[Row]:
        table = view.snap.gpu_table
        rows = gpus_of(view, job)
        powers = [v for row in rows if isinstance(v := table.at(row, "power"), float)]
        median = float(np.median(powers)) if powers else None
        return [self._gpu_row(view, row, median) for row in rows]

    def _gpu_row(self, view: View, row: int, median: float | None) -> Row:
        table = view.snap.gpu_table
        one = table.ids[row]
        stale = view.gpus_stale(view.ages(one.node)[1])

        def cell(column: str, form: str) -> Cell:
            value = table.at(row, column)
            if isinstance(value, Unknown):
                return SHORT[value.why], "bad" if value.why == "lost" else "dim"
            return ("stale", "stale") if stale else (form.format(value), "text")

        power = table.at(row, "power")
        part: Cell = ("?", "dim")
        if isinstance(power, float) and median and not stale:
            part = (f"{100 * power / median:.0f} %", "warn" if not 0.7 < power / median < 1.3 else "dim")
        return Row(
            one.key,
            (
                (one.node, "title"),
                (str(one.index) if one.index >= 0 else "?", "text"),
                cell("util", "{:.0f} %"),
                (sparkline(self.gputop.history.get(one.key, ()), self._glyphs), "accent"),
                cell("power", "{:.0f} W"),
                part,
                cell("sm_clock", "{:.0f}"),
                cell("temp", "{:.0f}°"),
                remarks(view, row),
            ),
        )


def gpus_of(view: View, job: Job) -> list[int]:
    """Rows of the GPUs it holds: by its layout where it has part of a node, else all of its nodes'."""
    table = view.snap.gpu_table
    layout = view.snap.layouts.get(job.id)
    held = dict(layout.gpus) if layout is not None else {}
    rows = []
    for name in job.nodes:
        mine = sorted(table.rows_of(name), key=lambda row: table.ids[row].index)
        rows += [row for row in mine if name not in held or table.ids[row].index in held[name]]
    return rows


def top(view: View, job_id: str, job: Job | None, palette: Palette) -> Text:
    """Who, what, where, since when, and why it waits."""
    if job is None:
        return Text(f"job {job_id} is no longer in Slurm's memory", palette["warn"])
    text = Text()
    text.append(f"job {job.id}", palette["title"])
    text.append(f"   {job.state.base}{' (held)' if job.held else ''}", palette[job_rows.state_word(job)])
    text.append(f"   {job.reason}" if job.reason else "", palette["warn"])
    text.append(f"\n{job.name}", palette["text"])
    text.append(
        f"\nuser {job.user}   account {job.account or '-'}   partition {job.partition}   qos {job.qos or '-'}",
        palette["dim"],
    )
    limit = "?" if isinstance(job.time_limit, Unknown) else "no limit"
    if isinstance(job.time_limit, float) and job.time_limit != float("inf"):
        limit = span(job.time_limit)
    text.append(f"\n{reading(job.gpus)} GPUs on {len(job.nodes)} nodes   runs {job_rows.elapsed(view, job)} of {limit}")
    text.append(f"   submitted {_when(job.submit_time)}   restarts {job.restarts}", palette["text"])
    text.append(f"\nnodes {', '.join(job.nodes[:12]) or '-'}{' …' if len(job.nodes) > 12 else ''}", palette["text"])
    if not job.nodes and job.last_nodes:
        text.append(f"   ran before on {', '.join(job.last_nodes[:12])}", palette["dim"])
    excluded = job.excluded
    words = "unknown" if isinstance(excluded, Unknown) else ", ".join(excluded) or "none"
    text.append(f"\nkeeps away from {words}   exit code {_str(job.exit_code)}", palette["dim"])
    if job.dependency:
        text.append(f"   depends on {job.dependency}", palette["dim"])
    if job.admin_comment:
        text.append(f"\n{job.admin_comment}", palette["accent"])
    return text


def _when(at: float | Unknown) -> str:
    return "?" if isinstance(at, Unknown) else time.strftime("%d %b %H:%M", time.localtime(at))


def _str(value: str | Unknown) -> str:
    return SHORT[value.why] if isinstance(value, Unknown) else value
