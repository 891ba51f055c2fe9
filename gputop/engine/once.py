"""One observation of everything, without an engine that stays."""

import asyncio
from collections.abc import Callable

from gputop.engine.events import Event, FactsArrived
from gputop.engine.fold import fold
from gputop.engine.parts import Parts
from gputop.engine.periods import Periods, first_state
from gputop.engine.readers import SlurmReader
from gputop.engine.state import Follow, ReadLayouts
from gputop.model.clock import Clock
from gputop.model.facts import Fact
from gputop.model.hosts import LinkState
from gputop.model.reading import Unknown
from gputop.model.snapshot import About, Snapshot

PATIENCE = 25.0
"""Seconds after which whatever has not answered is reported as it is."""
_UNDECIDED = (LinkState.WAITING, LinkState.CONNECTING)


async def observe_once(
    parts: Parts,
    about: About,
    periods: Periods,
    host_pattern: str,
    clock: Clock,
    done: Callable[[Snapshot], bool] | None = None,
) -> Snapshot:
    """Reads Slurm and every node once, and returns when each has answered, failed, or run out of time."""
    state = first_state(about, periods, clock.now())
    queue: list[Event] = []
    facts: list[Fact] = []
    reader = SlurmReader(parts.scheduler, clock, queue.append, lambda: state.snap)
    reading = asyncio.gather(reader.cycle(), reader.slow_cycle())
    layouts: list[asyncio.Future[None]] = []
    deadline = clock.now() + PATIENCE
    try:
        while True:
            await clock.sleep(0.05)
            if facts:
                queue.append(FactsArrived(tuple(facts)))
                facts.clear()
            while queue:
                state, effects = fold(state, queue.pop(0), host_pattern)
                for effect in effects:
                    match effect:
                        case Follow(hosts=hosts):
                            parts.fleet(facts.append).follow(dict(hosts))
                        case ReadLayouts(jobs=jobs):
                            layouts.append(asyncio.ensure_future(reader.layouts(jobs)))
            finished = reading.done() and all(one.done() for one in layouts)
            if clock.now() > deadline or (finished and not facts and (done or complete)(state.snap)):
                return state.snap
    finally:
        reading.cancel()
        await asyncio.gather(reading, *layouts, return_exceptions=True)
        await parts.close()


def complete(snap: Snapshot) -> bool:
    """Whether every node's answer that can be had is there."""
    return all(_answered(snap, name) for name, node in snap.nodes.items() if not node.state.powered_down)


def _answered(snap: Snapshot, name: str) -> bool:
    link = snap.links.get(name)
    if link is None or link.state in _UNDECIDED:
        return False
    if link.state is not LinkState.UP:
        return True
    host, row = snap.hosts.get(name), snap.host_table.index.get(name, -1)
    if host is None or row < 0 or name not in snap.klogs:
        return False
    no_driver = isinstance(host.driver, Unknown) and bool(host.driver.detail)
    read = not isinstance(snap.host_table.at(row, "gpus_read_at"), Unknown)
    return read or no_driver or host.hang is not None or snap.nodes[name].gpus == 0
