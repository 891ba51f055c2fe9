"""One node: its GPUs one by one, its links, what the kernel said, who is on it, what Slurm says of it."""

import time
from collections import deque
from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from gputop.model.actions import Kind
from gputop.model.columns import GpuId
from gputop.model.findings import Severity
from gputop.model.reading import Unknown
from gputop.tui.base_screen import BaseScreen
from gputop.tui.footer import KeyLine
from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.guide_bar import GuideBar
from gputop.tui.header import Header
from gputop.tui.keys import bindings
from gputop.tui.line_table import Cell, Column, LineTable, Row
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette
from gputop.tui.view import View
from gputop.tui.words import SHORT, age, reading

History = Mapping[str, deque[float | None]]
"""GPU row key -> its last utilisations, oldest first."""

GPU_COLUMNS = (
    Column("GPU", 3, right=True),
    Column("PCI", 10, drop=6),
    Column("STATE", 6),
    Column("UTIL", 6, right=True),
    Column("HISTORY", 20, drop=5),
    Column("MEM", 12, right=True, drop=3),
    Column("POWER", 11, right=True),
    Column("TEMP", 5, right=True),
    Column("SM MHZ", 11, right=True, drop=2),
    Column("PCIE", 8, drop=7),
    Column("NVLINK", 6, drop=8),
    Column("ECC", 7, right=True, drop=4),
    Column("REMARKS", 10, grow=True),
)
_REASONS = ((0x8, "HW slowdown"), (0x20, "SW thermal"), (0x40, "HW thermal"), (0x80, "power brake"), (0x4, "power cap"))


class NodeScreen(BaseScreen):
    """Opened by enter on a node."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("node")]
    DEFAULT_CSS = """
    NodeScreen LineTable { height: auto; min-height: 3; max-height: 20; }
    NodeScreen VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    NodeScreen .top { height: auto; padding: 0 1; margin-bottom: 1; }
    """

    def __init__(self, node: str, palette: Palette, glyphs: Glyphs) -> None:
        super().__init__()
        self._node = node
        self._palette = palette
        self._glyphs = glyphs
        self._guide = GuideBar(palette)
        self._header = Header(palette, glyphs)
        self._keys = KeyLine(palette, "node")
        self._table = LineTable(GPU_COLUMNS, palette, empty="no GPU of this node was read")

    def compose(self) -> ComposeResult:
        yield self._guide
        yield self._header
        yield StaticText(classes="top")
        yield self._table
        with VerticalScroll():
            yield StaticText(id="facts")
        yield self._keys

    def target(self, kind: Kind) -> str | None:
        return self._node if kind.on_node else None

    def show(self, view: View) -> None:
        self._guide.show(self.gputop.guidance(view))
        self._header.show(view)
        self.query_one(".top", StaticText).put(top(view, self._node, self._palette, self._glyphs))
        rows = gpu_rows(view, self._node, self.gputop.history, self._glyphs)
        self._table.styles.height = len(rows) + 1 if rows else 3
        self._table.show_rows(rows)
        self.query_one("#facts", StaticText).put(facts(view, self._node, self._palette))
        self._keys.show(can_act=view.can_act, live=view.live)


def top(view: View, name: str, palette: Palette, glyphs: Glyphs) -> Text:
    """Name, what is wrong, Slurm's state and reason, the link."""
    node = view.snap.nodes.get(name)
    if node is None:
        return Text(f"{name} is no longer among Slurm's nodes", palette["bad"])
    health = view.health[name]
    text = Text()
    text.append(f"{glyphs.level[health.level]} {name}", palette["title"])
    text.append(f"   {health.says or 'nothing is known to be wrong'}", palette[STYLE[health.level]])
    text.append("\nSlurm ", palette["dim"])
    text.append(str(node.state), palette["text"])
    text.append(f"   partitions {', '.join(node.partitions) or 'none'}   switch {node.switch or '-'}", palette["dim"])
    if node.reason is not None:
        when = _when(node.reason.at, " on %d %b %H:%M")
        text.append(f"\nreason {node.reason.text!r} by {node.reason.owner or 'nobody'}{when}", palette["warn"])
    for booked in view.snap.reservations.values():
        if name in booked.nodes:
            kind = "maintenance" if booked.maintenance else "reservation"
            text.append(f"\n{kind} {booked.name} {_when(booked.start, '%d %b %H:%M')}", palette["warn"])
            text.append(f" to {_when(booked.end, '%d %b %H:%M')}", palette["warn"])
    link = view.snap.links.get(name)
    if link is not None:
        sampled, read = view.ages(name)
        text.append(f"\nssh {link.state} for {age(view.now - link.since)}", palette["dim"])
        text.append(
            f"   host {age(sampled)} old, GPUs {age(read)} old", palette["stale" if view.gpus_stale(read) else "dim"]
        )
        if link.detail:
            text.append(f"   {link.detail}", palette["warn"])
    return text


def gpu_rows(view: View, name: str, history: History, glyphs: Glyphs) -> list[Row]:
    """A line each, a lost one too."""
    table = view.snap.gpu_table
    stale = view.gpus_stale(view.ages(name)[1])
    rows = sorted(
        table.rows_of(name), key=lambda row: (table.ids[row].index < 0, table.ids[row].index, table.ids[row].pci)
    )
    return [_gpu_row(view, row, table.ids[row], history, glyphs, stale=stale) for row in rows]


def _gpu_row(view: View, row: int, one: GpuId, history: History, glyphs: Glyphs, *, stale: bool) -> Row:
    table = view.snap.gpu_table

    def cell(column: str, form: str = "{:.0f}") -> Cell:
        value = table.at(row, column)
        if isinstance(value, Unknown):
            return SHORT[value.why], "bad" if value.why == "lost" else "dim"
        return ("stale", "stale") if stale else (form.format(value), "text")

    def pair(column: str, other: str, form: str) -> Cell:
        text, word = cell(column)
        limit = table.at(row, other)
        return (form.format(text, limit), word) if word == "text" and isinstance(limit, float) else (text, word)

    lost = table.at(row, "present") == 0
    state: Cell = ("LOST", "bad") if lost else ("stale", "stale") if stale else ("ok", "ok")
    return Row(
        one.key,
        (
            (str(one.index) if one.index >= 0 else "?", "title"),
            (one.pci or "unseen", "dim"),
            state,
            cell("util", "{:.0f} %"),
            (sparkline(history.get(one.key, ()), glyphs), "accent"),
            _memory(table.at(row, "mem_used"), table.at(row, "mem_total"), stale=stale),
            pair("power", "power_limit", "{}/{:.0f} W"),
            cell("temp", "{:.0f}°"),
            pair("sm_clock", "sm_clock_max", "{}/{:.0f}"),
            pair("pcie_gen", "pcie_width", "gen{} x{:.0f}"),
            pair("nvlinks_up", "nvlinks", "{}/{:.0f}"),
            pair("ecc_unc", "ecc_cor", "{}+{:.0f}"),
            remarks(view, row),
        ),
    )


def _memory(used: float | Unknown, room: float | Unknown, *, stale: bool) -> Cell:
    if isinstance(used, Unknown) or isinstance(room, Unknown):
        return reading(used), "dim"
    return ("stale", "stale") if stale else (f"{used / 1024:.1f}/{room / 1024:.0f} G", "text")


def sparkline(values: "deque[float | None] | tuple[()]", glyphs: Glyphs) -> str:
    """One sign a period, 0 to 100; a gap where nothing was read."""
    last = list(values)[-20:]
    top_sign = len(glyphs.spark) - 1
    return "".join(" " if v is None else glyphs.spark[round(min(100.0, v) / 100 * top_sign)] for v in last)


def remarks(view: View, row: int) -> Cell:
    """What this GPU says of itself that a person should see."""
    table = view.snap.gpu_table
    found = []
    reasons = table.at(row, "clock_reasons")
    if isinstance(reasons, float):
        found += [words for bit, words in _REASONS if int(reasons) & bit]
    for column, words in (
        ("recovery_action", "asks for repair"),
        ("remap_pending", "row remap pending"),
        ("remap_failed", "row remap FAILED"),
        ("ecc_unc", "uncorrected ECC"),
        ("sram_threshold", "SRAM errors over threshold"),
        ("mig", "MIG"),
    ):
        value = table.at(row, column)
        if isinstance(value, float) and value >= 1:
            found.append(words)
    return ", ".join(found), "warn" if found and found != ["power cap"] else "dim"


def facts(view: View, name: str, palette: Palette) -> Text:
    """Host, links, jobs, processes, kernel log."""
    text = Text()
    _findings(text, view, name, palette)
    _host(text, view, name, palette)
    _ports(text, view, name, palette)
    jobs = view.jobs_on.get(name, [])
    _title(text, "jobs", palette)
    text.append(
        "\n".join(f"{job.id}  {job.user}  {reading(job.gpus)} GPUs  {job.name}" for job in jobs) or "none run here"
    )
    _processes(text, view, name, palette)
    _kernel(text, view, name, palette)
    return text


def _title(text: Text, words: str, palette: Palette) -> None:
    text.append(f"{chr(10) * 2 if text.plain else ''}{words.upper()}\n", palette["header"])


SEVERITY = {Severity.FATAL: "bad", Severity.DEGRADED: "warn", Severity.WARN: "warn", Severity.INFO: "dim"}


def _findings(text: Text, view: View, name: str, palette: Palette) -> None:
    """What the rules say of this node, each with its readings; and what they cannot tell."""
    found = [one for one in view.snap.findings.values() if one.node == name]
    blinds = [one for one in view.snap.blinds.values() if one.node == name]
    if not found and not blinds:
        return
    _title(text, "findings", palette)
    lines: list[Text] = []
    for one in sorted(found, key=lambda one: (one.severity, one.since)):
        line = Text()
        line.append(f"{one.rule} {one.says}", palette["stale" if one.stale else SEVERITY[one.severity]])
        line.append(f"   for {age(view.now - one.since)}   {one.hint}", palette["dim"])
        line.append("   not read since: nobody knows whether it still holds" if one.stale else "", palette["stale"])
        for piece in one.evidence:
            line.append(f"\n  {piece.reading} {piece.value}", palette["text"])
            line.append(f"   expected {piece.limit}", palette["dim"])
        lines.append(line)
    lines += [Text(f"cannot tell about {one.need}: {one.because}", palette["unknown"]) for one in blinds]
    text.append_text(Text("\n").join(lines))


def _host(text: Text, view: View, name: str, palette: Palette) -> None:
    host, row = view.snap.hosts.get(name), view.snap.host_table.index.get(name, -1)
    _title(text, "host", palette)
    if host is None or row < 0:
        text.append("not read yet", palette["unknown"])
        return

    def value(column: str, form: str = "{:.0f}") -> str:
        return reading(view.snap.host_table.at(row, column), form)

    if host.hang is not None:
        text.append(
            f"DRIVER HUNG since {age(view.now - host.hang.since)}: no second probe is started\n", palette["bad"]
        )
    driver = host.driver if isinstance(host.driver, str) else f"unknown ({host.driver})"
    booted = "unknown" if isinstance(host.boot_time, Unknown) else age(view.now - host.boot_time) + " ago"
    text.append(f"driver {driver}   CUDA {_str(host.cuda)}   kernel {host.kernel}   booted {booted}\n")
    text.append(
        f"load {value('load', '{:.1f}')} on {value('cpus')} CPUs, {value('cpu_busy')} % busy   "
        f"memory {value('mem_available')} of {value('mem_total')} MiB free   swap {value('swap_used')} MiB   "
        f"D state {value('blocked')}   zombies {value('zombies')}   / {value('disk_used')} % full\n"
    )
    text.append(
        f"probe as {host.user}, python {host.python or '-'}   NVML pass {value('nvml_ms', '{:.1f}')} ms, "
        f"{value('nvml_calls')} calls   clock skew {value('clock_skew', '{:+.1f}')} s",
        palette["dim"],
    )


def _str(value: str | Unknown) -> str:
    return SHORT[value.why] if isinstance(value, Unknown) else value


def _ports(text: Text, view: View, name: str, palette: Palette) -> None:
    table = view.snap.port_table
    rows = table.rows_of(name)
    _title(text, "infiniband", palette)
    if not rows:
        text.append("no ports were read", palette["dim"])
    for row in rows:
        one = table.ids[row]
        active = table.at(row, "state") == 4
        downs = table.at(row, "link_downed")
        saturated = " (saturated)" if downs == 255 else ""
        words = f"{one.device}/{one.port} {'active' if active else 'NOT ACTIVE'} {reading(table.at(row, 'rate'))} Gb/s"
        text.append(f"{words:<34}", palette["text" if active else "bad"])
        text.append(
            f"down {reading(downs)}{saturated}  symbol errors {reading(table.at(row, 'symbol_error'))}\n",
            palette["dim"],
        )


def _processes(text: Text, view: View, name: str, palette: Palette) -> None:
    found = view.snap.processes.get(name)
    _title(text, "processes on GPUs", palette)
    if found is None or isinstance(found.items, Unknown):
        text.append("not read" if found is None else f"unknown: {found.items}", palette["unknown"])
        return
    lines = [f"{one.pid:>8}  {one.user:<12} {one.name:<20} {reading(one.memory_mib)} MiB" for one in found.items]
    text.append("\n".join(lines) or f"none, {age(view.now - found.read_at)} ago", palette["text"])


def _kernel(text: Text, view: View, name: str, palette: Palette) -> None:
    log = view.snap.klogs.get(name)
    _title(text, "kernel log", palette)
    if log is None:
        text.append("not read yet", palette["unknown"])
        return
    if isinstance(log.source, Unknown):
        text.append(f"log unreadable: {log.source}. Whether there were XIDs is not known.", palette["unknown"])
        return
    text.append(f"by {log.source}{f', {log.dropped} lines left out' if log.dropped else ''}\n", palette["dim"])
    for line in reversed(log.lines):
        when = _when(line.at, "%d %b %H:%M ") or " " * 13
        text.append(when, palette["dim"])
        text.append(line.text + "\n", palette["bad" if "Xid" in line.text else "text"])


def _when(at: float | Unknown, form: str) -> str:
    return "" if isinstance(at, Unknown) else time.strftime(form, time.localtime(at))
