"""The three lines at the top: which cluster, how it is read and how old that is, and the totals."""

import time

import numpy as np
from rich.text import Text

from gputop.model.calls import Ability
from gputop.model.health import Level
from gputop.model.hosts import LinkState
from gputop.model.reading import Unknown
from gputop.model.snapshot import Source
from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.static_text import StaticText
from gputop.tui.themes import Palette
from gputop.tui.view import View
from gputop.tui.words import age, watts

NAMES = {"slurm.nodes": "nodes", "slurm.jobs": "jobs", "slurm.site": "site", "probe": "probes"}
LEVEL_WORDS = {
    Level.DOWN: "down", Level.FAILING: "failing", Level.DEGRADED: "degraded", Level.UNREAD: "unread",
    Level.DRAINED: "drained", Level.OFF: "off", Level.BUSY: "busy", Level.IDLE: "idle",
}  # fmt: skip


class Header(StaticText):
    """Drawn anew with each look; three lines, of which what matters least is left out first."""

    DEFAULT_CSS = "Header { height: 3; padding: 0 1; }"

    def __init__(self, palette: Palette, glyphs: Glyphs) -> None:
        super().__init__(fixed=True)
        self._palette = palette
        self._glyphs = glyphs

    def show(self, view: View) -> None:
        width = max(20, self.size.width - 2)
        lines = [
            join(first_line(view, self._palette), width),
            join(totals(view, self._palette, self._glyphs), width),
            join(sources(view, self._palette), width),
        ]
        self.put(Text("\n").join(lines))


Part = tuple[Text, int]
"""A piece of a line, and how soon it is left out: 0 never."""


def join(parts: list[Part], width: int) -> Text:
    """As many pieces as fit, two blanks between them."""
    kept = [part for part in parts if part[0].plain]
    while sum(part[0].cell_len + 3 for part in kept) - 3 > width and any(part[1] for part in kept):
        kept.remove(max((part for part in kept if part[1]), key=lambda part: part[1]))
    line = Text("   ").join([part[0] for part in kept])
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


def first_line(view: View, palette: Palette) -> list[Part]:
    """Name, mode, adapter, who else is here."""
    about = view.snap.about
    if view.gone:
        mode = Text(f" ENGINE GONE: {view.gone}; what you see is old ", palette["bad"])
    elif not view.live:
        mode = Text(" REPLAY: nothing here can act ", palette["warn"] + palette["cursor"])
    elif not view.can_act:
        mode = Text(" READ-ONLY ", palette["warn"] + palette["cursor"])
    else:
        mode = Text("LIVE", palette["ok"])
    parts: list[Part] = [
        (Text.assemble(("gputop ", palette["accent"]), (about.cluster if about else "…", palette["title"])), 0),
        (mode, 0),
        (Text(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(view.now)), palette["text"]), 1),
    ]
    if about is not None:
        parts.append((Text(f"Slurm by {about.adapter}", palette["dim"]), 4))
        if view.live:
            parts.append((Text(f"{len(view.snap.readers)} attached", palette["dim"]), 5))
        if about.trouble:
            parts.append((Text(about.trouble, palette["bad"]), 0))
    return parts


def totals(view: View, palette: Palette, glyphs: Glyphs) -> list[Part]:
    """Nodes by health, GPUs by use, power, jobs."""
    counts = dict.fromkeys(Level, 0)
    for one in view.health.values():
        counts[one.level] += 1
    nodes = Text()
    nodes.append(f"{len(view.health)} nodes", palette["title"])
    for level, count in counts.items():
        if count:
            nodes.append(f"  {glyphs.level[level]} {count} {LEVEL_WORDS[level]}", palette[STYLE[level]])
    return [(nodes, 0), (gpu_totals(view, palette), 1), (power(view, palette), 3), (jobs(view, palette), 2)]


def gpu_totals(view: View, palette: Palette) -> Text:
    """Busy, idle, failing, unknown: unknown are those nobody has read in time."""
    table = view.snap.gpu_table
    expected = sum(node.gpus for node in view.snap.nodes.values())
    fresh = view.gpus_fresh
    if not len(table):
        return Text(f"{expected} GPUs, none read yet", palette["unknown"])
    present = (table["present"].values == 1) & fresh
    util = table["util"]
    busy = int(np.sum(present & util.known() & (np.nan_to_num(util.values) > 0)))
    idle = int(np.sum(present & util.known() & (np.nan_to_num(util.values) == 0)))
    failing = int(np.sum((table["present"].values == 0) & fresh))
    unknown = max(expected, len(table)) - busy - idle - failing
    text = Text()
    text.append(f"{max(expected, len(table))} GPUs", palette["title"])
    for count, words, style in (
        (busy, "busy", "busy"),
        (idle, "idle", "dim"),
        (failing, "lost", "bad"),
        (unknown, "unread", "unknown"),
    ):
        if count:
            text.append(f"  {count} {words}", palette[style])
    return text


def power(view: View, palette: Palette) -> Text:
    """The sum of what was read in time, and of how many that is."""
    column = view.snap.gpu_table["power"]
    known = column.known() & view.gpus_fresh
    if not known.any():
        return Text("")
    total = float(column.values[known].sum())
    return Text(f"{watts(total)} of {int(known.sum())} GPUs read", palette["dim"])


def jobs(view: View, palette: Palette) -> Text:
    running = sum(job.running for job in view.snap.jobs.values())
    waiting = sum(job.tasks for job in view.snap.jobs.values() if job.pending)
    return Text.assemble((f"{running} jobs run", palette["title"]), (f"  {waiting} wait", palette["dim"]))


def sources(view: View, palette: Palette) -> list[Part]:
    """Each source with its age, and what this account may do."""
    parts: list[Part] = []
    up = sum(link.state is LinkState.UP for link in view.snap.links.values())
    for name, label in NAMES.items():
        source = view.snap.sources.get(name)
        if source is not None:
            extra = f" {up}/{len(view.snap.links)} up" if name == "probe" else ""
            parts.append((source_text(source, label + extra, view.now, palette), 0 if name != "slurm.site" else 6))
    found = view.snap.abilities
    if found is not None and view.can_act:
        words = {Ability.YES: "ok", Ability.NO: "warn", Ability.UNKNOWN: "unknown"}
        may = Text()
        may.append("may change ", palette["dim"])
        may.append(f"nodes: {found.nodes}", palette[words[found.nodes]])
        may.append(f"  others' jobs: {found.jobs}", palette[words[found.jobs]])
        parts.append((may, 3))
    return parts


def source_text(source: Source, label: str, now: float, palette: Palette) -> Text:
    """nodes 3s, or why not, in the colour of its age."""
    seconds = None if isinstance(source.read_at, Unknown) else now - source.read_at
    stale = source.stale(now)
    text = Text()
    text.append(f"{label} ", palette["dim"])
    text.append(f"{age(seconds)}{' STALE' if stale and seconds is not None else ''}", palette["bad" if stale else "ok"])
    if source.trouble and (stale or source.name != "probe"):
        text.append(f" {source.trouble[:60]}", palette["warn"])
    return text
