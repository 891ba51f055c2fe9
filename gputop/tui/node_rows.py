"""Nodes as table rows; pure."""

from gputop.model.health import Level
from gputop.model.hosts import LinkState
from gputop.model.nodes import Node
from gputop.model.text import plural
from gputop.tui.glyphs import STYLE, Glyphs
from gputop.tui.line_table import Cell, Column, Row
from gputop.tui.view import NodeSums, View
from gputop.tui.words import age as age_text
from gputop.tui.words import watts

COLUMNS = (
    Column("", 1),
    Column("NODE", 10),
    Column("SLURM", 13),
    Column("SSH", 11, drop=5),
    Column("GPUS", 5, right=True),
    Column("UTIL", 6, right=True),
    Column("POWER", 8, right=True, drop=3),
    Column("TEMP", 5, right=True),
    Column("MEMORY", 8, right=True, drop=4),
    Column("JOBS", 9, drop=2),
    Column("AGE", 5, right=True),
    Column("WHAT IS WRONG", 20, grow=True),
)
SHORT_LINK = {LinkState.DENIED: "denied"}
SORTS = ("trouble", "name", "util", "power", "temp", "age")


def node_keys(view: View, *, sort: str, only: str) -> list[str]:
    """Every node that matches, in the order asked for."""
    names = [name for name in view.snap.nodes if matches(view, name, only)]
    names.sort()
    if sort == "trouble":
        health = view.health
        names.sort(key=lambda name: min(health[name].level, Level.BUSY))
    elif sort != "name":
        names.sort(key=lambda name: _order(view, name, sort))
    return names


def _order(view: View, name: str, sort: str) -> float:
    if sort == "age":
        return -(view.ages(name)[0] or float("inf"))
    value = getattr(view.sums.of(name), sort, None)
    return -value if value is not None else float("inf")


def matches(view: View, name: str, only: str) -> bool:
    """Whether a node has the text somewhere a person would look for it."""
    if not only:
        return True
    node, link = view.snap.nodes[name], view.snap.links.get(name)
    jobs = view.jobs_on.get(name, ())
    texts = (name, str(node.state), *node.partitions, node.reason.text if node.reason else "", view.health[name].says)
    more = (*(job.id for job in jobs), *(job.user for job in jobs), str(link.state) if link else "")
    return any(only.lower() in text.lower() for text in (*texts, *more))


def node_row(view: View, node: Node, glyphs: Glyphs) -> Row:
    """One node's line."""
    name = node.name
    health = view.health[name]
    word = STYLE[health.level]
    sampled, read = view.ages(name)
    stale = view.gpus_stale(read)
    sums = view.sums.of(name)
    link = view.snap.links.get(name)
    link_word = "dim" if link is not None and link.state in (LinkState.UP, LinkState.OFF) else "unknown"
    return Row(
        name,
        (
            (glyphs.level[health.level], word),
            (name, "title" if health.level <= Level.UNREAD else "text"),
            (str(node.state), _state_word(node)),
            (SHORT_LINK.get(link.state, str(link.state)) if link else "waiting", link_word),
            _gpus(node, sums, stale=stale),
            _number(sums.util if sums else None, "{:.0f} %", stale=stale, seen=sums is not None),
            (watts(sums.power), "text") if sums and sums.power is not None and not stale else _missing(stale, sums),
            _number(sums.temp if sums else None, "{:.0f}°", stale=stale, seen=sums is not None),
            _memory(sums, stale=stale),
            (jobs_words(view, name), "text"),
            _age(view, sampled),
            (health.says, word),
        ),
    )


def _age(view: View, seconds: float | None) -> Cell:
    """What is fresh is all alike: a number that counts on in every line draws the eye, and costs a slow link."""
    if view.gpus_stale(seconds):
        return age_text(seconds), "stale"
    return f"<{2 * view.snap.sources['probe'].period:.0f}s", "dim"


def jobs_words(view: View, name: str) -> str:
    """The job, or the first and how many more."""
    jobs = view.jobs_on.get(name, [])
    if not jobs:
        return "-"
    return jobs[0].id if len(jobs) == 1 else f"{jobs[0].id} +{len(jobs) - 1}"


def _state_word(node: Node) -> str:
    if node.state.down or node.state.has("fail"):
        return "bad"
    if node.state.drain:
        return "warn"
    return "unknown" if node.state.silent or node.state.base == "unknown" else "text"


def _gpus(node: Node, sums: NodeSums | None, *, stale: bool) -> Cell:
    expected = max(node.gpus, sums.rows if sums else 0)
    if sums is None:
        return f"?/{expected}", "unknown" if expected else "dim"
    missing = sums.present < expected
    return f"{sums.present}/{expected}", "bad" if missing else "stale" if stale else "text"


def _missing(stale: bool, sums: NodeSums | None) -> Cell:
    return ("stale", "stale") if stale and sums is not None else ("?", "unknown")


def _number(value: float | None, form: str, *, stale: bool, seen: bool) -> Cell:
    if seen and stale:
        return "stale", "stale"
    return ("?", "unknown") if value is None else (form.format(value), "text")


def _memory(sums: NodeSums | None, *, stale: bool) -> Cell:
    if sums is None or stale or sums.mem_used is None or not sums.mem_total:
        return _missing(stale, sums)
    return f"{100 * sums.mem_used / sums.mem_total:.0f} %", "text"


def title(view: View, only: str, sort: str) -> str:
    """Over the table."""
    return f"{plural(len(view.snap.nodes), 'node')} by {sort}" + (f", only {only!r}" if only else "")
