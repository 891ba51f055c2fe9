"""What changed between two snapshots, as events that people and scripts can read; pure."""

from collections.abc import Iterator
from typing import Any

from gputop.model.findings import Finding
from gputop.model.health import Level, fleet_health
from gputop.model.hosts import LinkState
from gputop.model.snapshot import Snapshot
from gputop.model.states import State

Event = dict[str, Any]
_SETTLED = frozenset(LinkState) - {LinkState.CONNECTING, LinkState.WAITING}


def changes(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    """In a fixed order; at: the time that the events carry."""
    yield from _sources(before, after, at)
    yield from _nodes(before, after, at)
    yield from _links(before, after, at)
    yield from _findings(before, after, at)
    yield from _health(before, after, at)
    yield from _jobs(before, after, at)
    yield from _actions(before, after, at)


def _sources(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    for name, source in after.sources.items():
        old = before.sources.get(name)
        if name != "probe" and source.trouble != (old.trouble if old is not None else ""):
            yield {"t": at, "event": "source", "source": name, "trouble": source.trouble}


def _service(state: State) -> str:
    """A node's state without what every job start changes."""
    base = "up" if state.base in ("idle", "mixed", "allocated") else state.base
    return "+".join([base, *sorted(state.flags - {"completing", "planned"})])


def _nodes(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    if before.nodes is after.nodes:
        return
    for name, node in after.nodes.items():
        old = before.nodes.get(name)
        state = _service(node.state)
        if (old is None and state != "up") or (old is not None and _service(old.state) != state):
            reason = node.reason.text if node.reason is not None else ""
            yield {"t": at, "event": "node", "node": name, "state": state, "reason": reason}


def _links(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    if before.links is after.links:
        return
    for name, link in after.links.items():
        old = before.links.get(name)
        known = old is not None and old.state in _SETTLED
        if link.state in _SETTLED and (old is None or old.state is not link.state):
            if link.state is LinkState.UP and not known:
                continue
            yield {"t": at, "event": "link", "node": name, "state": str(link.state)}


def _findings(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    if before.findings is after.findings:
        return
    for key, one in after.findings.items():
        if key not in before.findings:
            yield _finding("found", one, at)
    for key, one in before.findings.items():
        if key not in after.findings:
            yield _finding("no longer", one, at)


def _finding(what: str, one: Finding, at: float) -> Event:
    return {
        "t": at,
        "event": "finding",
        "what": what,
        "rule": one.rule,
        "subject": one.subject,
        "severity": one.severity.name.lower(),
        "says": one.says,
    }


def _health(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    old, new = fleet_health(before, before.time), fleet_health(after, after.time)
    for name, health in new.items():
        if health.level not in (Level.DOWN, Level.FAILING, Level.DEGRADED):
            continue
        if name not in old or old[name].level is not health.level:
            yield {"t": at, "event": "health", "node": name, "level": health.level.name.lower(), "says": health.says}


def _jobs(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    if before.jobs is after.jobs:
        return
    for key, job in after.jobs.items():
        old = before.jobs.get(key)
        if old is None or old.state.base != job.state.base or old.restarts != job.restarts:
            yield {
                "t": at,
                "event": "job",
                "job": key,
                "name": job.name,
                "state": job.state.base,
                "restarts": job.restarts,
            }


def _actions(before: Snapshot, after: Snapshot, at: float) -> Iterator[Event]:
    if before.actions is after.actions:
        return
    for key, action in after.actions.items():
        old = before.actions.get(key)
        asked, closed = old is None, action.outcome is not None and (old is None or old.outcome is None)
        if asked or closed:
            yield {
                "t": at,
                "event": "action",
                "action": str(action.intent.kind),
                "target": action.intent.target,
                "outcome": str(action.outcome) if action.outcome is not None else "asked",
                "says": action.says,
            }
