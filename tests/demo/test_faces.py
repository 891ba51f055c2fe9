"""One scenario on both faces, real SSH with a real engine process and virtual time: the same happens on both."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.demo.changes import changes
from gputop.demo.headless import play
from gputop.demo.live import Demo, engine_pid
from gputop.demo.operator import Operator
from gputop.demo.scenario import load_scenario
from gputop.demo.world import World
from gputop.engine.clock import SystemClock
from gputop.engine.launch import EngineFeed
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import apply
from tests.demo.build import JOB, fault

SCENARIO = (
    'about = "both faces"\nseconds = 40\nnodes = 6\nbusy = 0\n'
    + JOB
    + fault("gpu-lost", "job:train/1/3", at=4.0, reaction=("drain", "requeue-excluding"))
    + fault("foreign-drain", "gpu0006", at=5.0, text="INC7 ram")
    + fault("ssh-dead", "gpu0005", at=6.0)
    + fault("pam-denied", "gpu0003", at=6.5)
    + fault("ecc", "gpu0004/2", at=7.0)
)
NOTICE = 6.0


def sort_of(event: dict[str, Any]) -> tuple[str, ...]:
    """An event without times and words that hold one; what a slower look may miss is left out."""
    kept = {key: str(value) for key, value in event.items() if key not in ("t", "says")}
    return tuple(f"{key}={value}" for key, value in sorted(kept.items()))


def comparable(events: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    passing = ("completing", "pending")
    kept = [e for e in events if e["event"] != "fault" and e.get("state") not in passing]
    return {sort_of(e) for e in kept if e["event"] != "source"}


async def over_ssh(path: Path) -> list[dict[str, Any]]:
    demo = await asyncio.to_thread(Demo.start, str(path), nodes=6, seed=1)
    feed = EngineFeed(demo.chosen, demo.config, read_only=False, record=None)
    events: list[dict[str, Any]] = []
    snap = Snapshot()
    joined = asyncio.Event()

    async def listen() -> None:
        nonlocal snap
        async for frame in feed.frames():
            before, snap = snap, apply(snap if snap.time else None, frame)
            events.extend(changes(before, snap, snap.time))
            joined.set()

    listening = asyncio.create_task(listen())
    try:
        await asyncio.wait_for(joined.wait(), 30)
        clock = SystemClock()
        operator = Operator(clock, feed.send, lambda: snap, NOTICE)
        # The same diary as the simulator's: same scenario, same seed.
        world = World(load_scenario(str(path)), nodes=6, seed=1, now=demo.began)
        world.advance(demo.began + 30)
        reactions = [
            asyncio.create_task(later(operator, one, demo.began, clock)) for one in world.diary if one.reaction
        ]
        await asyncio.wait_for(asyncio.gather(*reactions), 60)
        await asyncio.wait_for(runs_again(lambda: snap), 30)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await feed.close()
        await asyncio.to_thread(demo.close)
    assert not demo.folder.exists()
    assert not engine_pid(demo.folder)
    return events


async def runs_again(snap: Callable[[], Snapshot]) -> None:
    while not any(job.running and job.restarts for job in snap().jobs.values()):
        await asyncio.sleep(0.2)


async def later(operator: Operator, happened: Any, began: float, clock: SystemClock) -> None:
    await asyncio.sleep(max(0.0, began + happened.at - clock.now()))
    await operator.react(happened)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*subprocess.*still running:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
async def test_both_faces_show_the_same(tmp_path: Path) -> None:
    path = tmp_path / "both.toml"
    path.write_text(SCENARIO)
    virtual: list[dict[str, Any]] = []
    await asyncio.to_thread(play, load_scenario(str(path)), nodes=6, seed=1, tell=virtual.append, notice=NOTICE)
    real = await over_ssh(path)
    assert comparable(real) == comparable(virtual)
    outcomes = {(e["action"], e["outcome"]) for e in virtual if e["event"] == "action"}
    assert ("drain", "confirmed") in outcomes
    assert ("requeue-excluding", "confirmed") in outcomes
