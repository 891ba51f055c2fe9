"""The session log: whole, cut or damaged, it gives back exactly what was written, or a prefix of it."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.model.errors import LogError
from gputop.model.snapshot import Snapshot
from gputop.stream.export import export, info
from gputop.stream.frames import Frame, apply, diff, encode
from gputop.stream.log_reader import SessionReader
from gputop.stream.session_log import FlightRecorder, LogFile
from tests.stream.build import same, sessions

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, snaps: list[Snapshot]) -> list[Frame]:
    path.unlink(missing_ok=True)
    log = LogFile(path, "test", "0", snaps[0].time)
    before: Snapshot | None = None
    frames = []
    for seq, snap in enumerate(snaps):
        frames.append(diff(None if seq % 4 == 0 else before, snap, seq))
        log.append(encode(frames[-1]), snap.time, key=frames[-1].key)
        before = snap
    log.close()
    return frames


@given(sessions(12))
@QUICK
def test_what_was_written_is_read_back(tmp_path: Path, snaps: list[Snapshot]) -> None:
    frames = write(tmp_path / "log", snaps)
    reader = SessionReader(tmp_path / "log")
    assert [frame.seq for frame in reader.frames()] == [frame.seq for frame in frames]
    assert reader.complete
    for snap in snaps:
        assert same(reader.snapshot_at(snap.time), snap)


@given(sessions(12), st.floats(0, 1))
@QUICK
def test_a_log_cut_at_any_byte_replays_up_to_the_cut(tmp_path: Path, snaps: list[Snapshot], part: float) -> None:
    write(tmp_path / "log", snaps)
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])
    try:
        reader = SessionReader(tmp_path / "cut")
    except LogError:
        return
    state: Snapshot | None = None
    for at, frame in enumerate(reader.frames()):
        state = apply(state, frame)
        assert same(state, snaps[at])


@given(sessions(8), st.data())
@QUICK
def test_a_flipped_byte_gives_a_true_prefix_or_an_error(
    tmp_path: Path, snaps: list[Snapshot], data: st.DataObject
) -> None:
    write(tmp_path / "log", snaps)
    whole = bytearray((tmp_path / "log").read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / "bad").write_bytes(whole)
    try:
        reader = SessionReader(tmp_path / "bad")
        seqs = [frame.seq for frame in reader.frames()]
    except LogError:
        return
    assert seqs == list(range(len(seqs)))


def test_a_block_whose_checksum_does_not_fit_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "log", [Snapshot(time=1.0), Snapshot(time=9.0)])
    (first, *_) = SessionReader(tmp_path / "log").blocks
    whole = bytearray((tmp_path / "log").read_bytes())
    whole[first.offset + 4] ^= 1
    (tmp_path / "bad").write_bytes(whole)
    reader = SessionReader(tmp_path / "bad")
    assert list(reader.frames()) == []
    assert f"the block at byte {first.offset} is damaged" in reader.trouble


def test_a_log_is_private_and_never_written_through_a_link_or_over_a_file(tmp_path: Path) -> None:
    write(tmp_path / "log", [Snapshot(time=1.0)])
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    with pytest.raises(LogError, match="is there already"):
        LogFile(tmp_path / "log", "test", "0", 1.0)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LogError):
        LogFile(tmp_path / "link", "test", "0", 1.0)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_is_no_log_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(os.urandom(500))
    with pytest.raises(LogError, match="not a gputop session log"):
        SessionReader(tmp_path / "other")


def test_the_recorder_turns_over_and_deletes_only_its_own_oldest(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path, cluster="t", version="0", file_bytes=2_000, keep_bytes=8_000)
    (tmp_path / "mine.txt").write_text("x" * 9_000)
    for k in range(400):
        at = 1_800_000_000.0 + k
        recorder.append(encode(diff(None, Snapshot(time=at), k)) + os.urandom(100), at, key=recorder.wants_key(at))
    recorder.close()
    logs = [one for one in tmp_path.iterdir() if one.suffix == ".gtlog"]
    assert recorder.trouble == ""
    assert len(logs) > 1
    assert sum(one.stat().st_size for one in logs) < 12_000
    assert (tmp_path / "mine.txt").exists()


def test_a_recorder_that_cannot_write_says_so_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    recorder = FlightRecorder(tmp_path / "file", cluster="t", version="0", file_bytes=10_000, keep_bytes=100_000)
    recorder.append(b"x", 1.0, key=True)
    assert "not recording" in recorder.trouble


def test_a_log_that_is_still_written_can_be_read(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", "test", "0", 1.0)
    log.append(encode(diff(None, Snapshot(time=1.0), 0)), 1.0, key=True)
    log.flush()
    reader = SessionReader(tmp_path / "log")
    assert not reader.complete
    assert [frame.seq for frame in reader.frames()] == [0]
    log.close()


@given(sessions(6))
@QUICK
def test_info_and_export_cover_every_frame(tmp_path: Path, snaps: list[Snapshot]) -> None:
    write(tmp_path / "log", snaps)
    assert info(tmp_path / "log").frames == len(snaps)
    assert len(list(export(tmp_path / "log"))) == len(snaps) + 1
