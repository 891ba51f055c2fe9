"""Hostlists by ClusterShell's NodeSet: expanded for us, folded for people."""

import re

from ClusterShell.NodeSet import NodeSet, NodeSetException

from gputop.model.errors import SourceError

MAX_NODES = 65_536
_PLAIN = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
_LIST = re.compile(r"^[A-Za-z0-9_.,\[\]-]*$")
_RANGE = re.compile(r"(\d+)-(\d+)")


def expand(text: str) -> tuple[str, ...]:
    """The node names of a hostlist in its order; empty for Slurm's words for none."""
    text = text.strip()
    if text in ("", "(null)", "None", "N/A", "None assigned", "n/a"):
        return ()
    if _PLAIN.match(text):
        return (text,)
    if not _LIST.match(text):
        raise SourceError("hostlist", f"not a hostlist: {text[:60]!r}")
    size = 1
    for low, high in _RANGE.findall(text):
        if len(high) > 9 or len(low) > 9:
            raise SourceError("hostlist", f"range too long: {low}-{high}")
        size *= max(1, int(high) - int(low) + 1)
        if size > MAX_NODES:
            raise SourceError("hostlist", f"more than {MAX_NODES} nodes: {text[:60]!r}")
    try:
        return tuple(NodeSet(text))
    except (NodeSetException, ValueError) as error:
        raise SourceError("hostlist", f"not a hostlist: {text[:60]!r}") from error


def fold(names: tuple[str, ...]) -> str:
    """The short form, gpu[0001-0003]."""
    try:
        return str(NodeSet.fromlist(names))
    except NodeSetException:
        return ",".join(names)
