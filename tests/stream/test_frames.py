"""The laws of frames: a difference applied is the later snapshot, exactly, through bytes and all."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.model.errors import LogError
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import apply, decode, diff, encode, keyframe
from tests.stream.build import same, sessions


@given(sessions())
@settings(max_examples=150, deadline=None)
def test_differences_rebuild_every_snapshot(snaps: list[Snapshot]) -> None:
    before: Snapshot | None = None
    seen: Snapshot | None = None
    for seq, snap in enumerate(snaps):
        seen = apply(seen, decode(encode(diff(before, snap, seq))))
        assert same(seen, snap)
        before = snap


@given(sessions(4), sessions(4))
@settings(max_examples=50, deadline=None)
def test_a_keyframe_needs_nothing_and_forgets_everything(one: list[Snapshot], other: list[Snapshot]) -> None:
    frame = decode(encode(keyframe(one[-1], 1)))
    assert same(apply(None, frame), one[-1])
    assert same(apply(other[-1], frame), one[-1])


@given(sessions(3), st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_bytes_are_an_error_and_never_a_crash(snaps: list[Snapshot], data: st.DataObject) -> None:
    payload = bytearray(encode(keyframe(snaps[-1], 1)))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(LogError):
        apply(None, decode(bytes(payload)))


def test_a_difference_without_what_came_before_is_refused() -> None:
    with pytest.raises(LogError, match="needs the frames before"):
        apply(None, diff(Snapshot(), Snapshot(time=2.0), 5))
