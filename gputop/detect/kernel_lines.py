"""Kernel logs of all nodes, parsed when they change, and what of them still counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gputop.detect.rule import Past, Sight
from gputop.model.hosts import KernelLine, KernelLog
from gputop.model.reading import Unknown


class Timed(Protocol):
    """A line that says something to a rule."""

    @property
    def at(self) -> float | None:
        """Epoch seconds by the node's clock; None where the line has no time."""
        ...


L = TypeVar("L", bound=Timed)


@dataclass(frozen=True)
class Parsed(Generic[L]):
    """Node -> the log that was parsed, and what was in it: logs change seldom, and parsing costs."""

    logs: dict[str, tuple[KernelLog, tuple[L, ...]]]


def parsed(sight: Sight, past: Past, parse: Callable[[tuple[KernelLine, ...]], tuple[L, ...]]) -> Parsed[L]:
    """Every node's log, of which only what is new is parsed."""
    before = past.logs if isinstance(past, Parsed) else {}
    logs = {}
    for node, log in sight.snap.klogs.items():
        old = before.get(node)
        logs[node] = old if old is not None and old[0] is log else (log, parse(log.lines))
    return Parsed(logs)


def counting(sight: Sight, node: str, lines: Sequence[L]) -> list[L]:
    """Lines newer than the boot and than the rule's `hours`; one without a time counts."""
    host = sight.snap.hosts.get(node)
    boot = None if host is None or isinstance(host.boot_time, Unknown) else host.boot_time
    oldest = sight.now - 3600 * sight.limits["hours"]
    return [line for line in lines if line.at is None or (line.at >= oldest and (boot is None or line.at >= boot - 1))]
