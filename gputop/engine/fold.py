"""fold(state, event) -> (state, effects): the one place where the engine's state changes; no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

import msgspec

from gputop.engine.events import (
    AbilitiesRead,
    ActionChanged,
    BootTimesRead,
    EngineTroubled,
    Event,
    FactsArrived,
    Heartbeat,
    JobsRead,
    Judged,
    LayoutRead,
    NodesRead,
    ProposalChanged,
    ReaderJoined,
    ReaderLeft,
    ReadFailed,
    Recording,
    SiteRead,
    TasksRead,
)
from gputop.engine.fold_probe import fold_facts
from gputop.engine.fold_slurm import fold_boot_times, fold_jobs, fold_layout, fold_nodes, fold_site, fold_tasks
from gputop.engine.state import Effect, State
from gputop.model.actions import Action, Proposal, ProposalState

KEEP_ACTIONS = 200
"""Closed actions that frames carry; the ledger keeps all."""
KEEP_PROPOSALS_SECONDS = 600.0
"""A card that was dismissed or has gone stale is dropped so long after it expired."""

V = TypeVar("V")


def fold(state: State, event: Event, host_pattern: str) -> tuple[State, tuple[Effect, ...]]:
    """The next state, and what should be done about it."""
    snap = state.snap
    match event:
        case Heartbeat(now=now):
            kept = {k: p for k, p in snap.proposals.items() if not _outdated(p, now)}
            proposals = snap.proposals if len(kept) == len(snap.proposals) else kept
            return replace(state, snap=replace(snap, time=now, proposals=proposals)), ()
        case Judged(passed=passed):
            judged = replace(snap, findings=passed.findings, blinds=passed.blinds)
            return replace(state, snap=judged, pasts=passed.pasts), ()
        case FactsArrived(facts=facts):
            return fold_facts(state, facts), ()
        case NodesRead():
            return fold_nodes(state, event, host_pattern)
        case JobsRead():
            return fold_jobs(state, event)
        case TasksRead():
            return fold_tasks(state, event), ()
        case SiteRead():
            return fold_site(state, event), ()
        case LayoutRead():
            return fold_layout(state, event), ()
        case BootTimesRead():
            return fold_boot_times(state, event), ()
        case AbilitiesRead(abilities=abilities):
            return replace(state, snap=replace(snap, abilities=abilities)), ()
        case ReadFailed(source=name, trouble=trouble):
            source = msgspec.structs.replace(snap.sources[name], trouble=trouble)
            return replace(state, snap=replace(snap, sources=_put(snap.sources, name, source))), ()
        case ProposalChanged(proposal=proposal):
            return replace(state, snap=replace(snap, proposals=_put(snap.proposals, proposal.id, proposal))), ()
        case ActionChanged(action=action):
            actions = _bounded(_put(snap.actions, action.id, action))
            return replace(state, snap=replace(snap, actions=actions)), ()
        case ReaderJoined(id=reader_id, reader=reader):
            return replace(state, snap=replace(snap, readers=_put(snap.readers, reader_id, reader))), ()
        case ReaderLeft(id=reader_id):
            readers = {k: r for k, r in snap.readers.items() if k != reader_id}
            return replace(state, snap=replace(snap, readers=readers)), ()
        case EngineTroubled(words=words):
            about = None if snap.about is None else msgspec.structs.replace(snap.about, trouble=words)
            return replace(state, snap=replace(snap, about=about)), ()
        case Recording(path=path):
            about = None if snap.about is None else msgspec.structs.replace(snap.about, recording=path)
            return replace(state, snap=replace(snap, about=about)), ()
        case _:
            assert_never(event)


def _put(mapping: Mapping[str, V], key: str, value: V) -> dict[str, V]:
    return {**mapping, key: value}


def _outdated(proposal: Proposal, now: float) -> bool:
    return proposal.state is not ProposalState.OPEN and now > proposal.expires + KEEP_PROPOSALS_SECONDS


def _bounded(actions: dict[str, Action]) -> dict[str, Action]:
    closed = [key for key, action in actions.items() if not action.open]
    for key in closed[: max(0, len(closed) - KEEP_ACTIONS)]:
        del actions[key]
    return actions
