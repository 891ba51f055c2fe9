"""A replay: the recorded tempo, paused, faster, anywhere; and it cannot act."""

import asyncio
from pathlib import Path

import pytest

from gputop.model.commands import Goodbye
from gputop.model.errors import EngineError
from gputop.model.snapshot import Snapshot
from gputop.stream.feed import ReplayFeed
from gputop.stream.frames import diff, encode
from gputop.stream.log_reader import SessionReader
from gputop.stream.session_log import LogFile


class Clock:
    """Sleeping moves it, at once."""

    def __init__(self) -> None:
        self.time = 5000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        if seconds < 3600:
            self.time += seconds


@pytest.fixture
def feed(tmp_path: Path) -> ReplayFeed:
    log = LogFile(tmp_path / "log", "t", "0", 100.0)
    before: Snapshot | None = None
    for k in range(20):
        snap = Snapshot(time=100.0 + k)
        log.append(encode(diff(None if k % 5 == 0 else before, snap, k)), snap.time, key=k % 5 == 0)
        before = snap
    log.close()
    return ReplayFeed(SessionReader(tmp_path / "log"), Clock())


async def times(feed: ReplayFeed, count: int) -> list[float]:
    found: list[float] = []
    frames = feed.frames()
    async for frame in frames:
        found.append(frame.time)
        if len(found) == count:
            break
    await frames.aclose()  # type: ignore[attr-defined]
    return found


async def test_frames_come_in_their_own_tempo(feed: ReplayFeed) -> None:
    clock = feed._clock
    began = clock.now()
    assert await times(feed, 5) == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert clock.now() - began == pytest.approx(4.0)


async def test_twice_the_speed_takes_half_the_time(feed: ReplayFeed) -> None:
    feed.set_speed(2)
    began = feed._clock.now()
    await times(feed, 5)
    assert feed._clock.now() - began == pytest.approx(2.0)


async def test_seeking_gives_a_whole_picture_of_that_time(feed: ReplayFeed) -> None:
    frames = feed.frames()
    await anext(frames)
    feed.seek(112.0)
    frame = await anext(frames)
    assert (frame.key, frame.time) == (True, 112.0)
    feed.seek(-1)
    assert (await anext(frames)).time == 100.0
    await frames.aclose()  # type: ignore[attr-defined]


async def test_a_paused_replay_stands_still(feed: ReplayFeed) -> None:
    frames = feed.frames()
    await anext(frames)
    feed.pause()
    at = feed.position
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(frames), 0.1)
    assert feed.position == at


async def test_a_replay_cannot_act(feed: ReplayFeed) -> None:
    assert not feed.live
    with pytest.raises(EngineError, match="cannot act"):
        await feed.send(Goodbye())
