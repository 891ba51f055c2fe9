"""Every key of the screen, once: bindings, footer and help are made from this."""

from msgspec import Struct
from textual.binding import Binding

from gputop.model.actions import Kind


class Key(Struct, frozen=True, kw_only=True):
    """One key, or several that do the same."""

    id: str
    keys: str
    """As Textual names them, by comma."""
    show: str
    """As people name them."""
    label: str
    """For the footer."""
    help: str
    where: frozenset[str]
    """fleet, node, job, replay, card."""
    action: str
    acts: bool = False
    """Changes the cluster: not bound when read-only or in a replay."""
    dangerous: bool = False
    """Asks for a typed word."""
    footer: bool = True


def _act(key: str, kind: Kind, label: str, words: str, *, dangerous: bool = False) -> Key:
    return Key(
        id=f"act.{kind}",
        keys=key,
        show=key,
        label=label,
        help=words,
        where=frozenset({"fleet", "node" if kind.on_node else "job"}),
        action=f"act('{kind}')",
        acts=True,
        dangerous=dangerous,
    )


def _key(id: str, keys: str, show: str, label: str, words: str, where: str, action: str, *, footer: bool = True) -> Key:  # noqa: A002
    return Key(
        id=id,
        keys=keys,
        show=show,
        label=label,
        help=words,
        where=frozenset(where.split()),
        action=action,
        acts=id == "undo",
        footer=footer,
    )


ANY = "fleet node job"
KEYS: tuple[Key, ...] = (
    _key("open", "enter", "enter", "open", "open the selected node, job or action", "fleet", "open"),
    _key("back", "escape", "esc", "back", "go back", "node job", "back"),
    _act("d", Kind.DRAIN, "drain", "drain the node: no new jobs, running ones finish"),
    _act("e", Kind.RESUME, "resume", "resume the node: back into service"),
    _act("r", Kind.REQUEUE, "requeue", "requeue the job, without Slurm's wait"),
    _act("x", Kind.REQUEUE_EXCLUDING, "requeue without…", "requeue the job away from nodes you choose"),
    _act("h", Kind.HOLD, "hold", "hold the waiting job"),
    _act("l", Kind.RELEASE, "release", "release the held job"),
    _act("K", Kind.CANCEL, "cancel", "cancel the job; asks for a typed word", dangerous=True),
    _key("undo", "u", "u", "undo", "undo the newest action that can be undone", ANY, "undo"),
    _key("next", "tab", "tab", "next pane", "nodes, jobs, actions in turn", "fleet", "next_pane"),
    _key("nodes", "1", "1", "nodes", "the nodes", "fleet", "pane('nodes')", footer=False),
    _key("jobs", "2", "2", "jobs", "the jobs", "fleet", "pane('jobs')", footer=False),
    _key("actions", "3", "3", "actions", "what was done, and how it ended", "fleet", "pane('actions')", footer=False),
    _key("metric", "m", "m", "metric", "the heat map's next metric", "fleet", "metric"),
    _key("sort", "s", "s", "sort", "the table's next order", "fleet", "sort"),
    _key("filter", "slash", "/", "filter", "show only rows with this text; esc clears it", "fleet", "filter"),
    _key("pause", "space", "space", "pause", "pause or go on (replay)", "replay", "pause"),
    _key("earlier", "left", "left", "-30 s", "30 s back (replay)", "replay", "seek(-30)"),
    _key("later", "right", "right", "+30 s", "30 s on (replay)", "replay", "seek(30)"),
    _key(
        "much-earlier",
        "left_square_bracket",
        "[",
        "-5 min",
        "5 min back (replay)",
        "replay",
        "seek(-300)",
        footer=False,
    ),
    _key("much-later", "right_square_bracket", "]", "+5 min", "5 min on", "replay", "seek(300)", footer=False),
    _key("slower", "minus", "-", "slower", "half the speed (replay)", "replay", "speed(0.5)", footer=False),
    _key("faster", "plus,equals_sign", "+", "faster", "twice the speed (replay)", "replay", "speed(2)"),
    _key("help", "question_mark,f1", "?", "help", "this page", ANY, "help"),
    _key("quit", "q,ctrl+c", "q", "quit", "leave; the engine ends with its last reader", ANY, "quit_gputop"),
)


def bindings(where: str) -> list[Binding]:
    """Textual's bindings of one screen."""
    return [
        Binding(one, key.action, key.label, id=f"{key.id}.{n}", show=False, priority=key.id == "quit")
        for key in KEYS
        if where in key.where or "replay" in key.where
        for n, one in enumerate(key.keys.split(","))
    ]


def footer(where: str, *, can_act: bool, live: bool) -> list[Key]:
    """The keys that a footer names, in order."""
    return [
        key
        for key in KEYS
        if key.footer and (where in key.where or ("replay" in key.where and not live)) and (can_act or not key.acts)
    ]
