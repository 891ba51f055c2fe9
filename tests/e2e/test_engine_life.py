"""Who starts and ends an engine, and what a session leaves behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.model.snapshot import Snapshot
from gputop.stream.frames import apply
from gputop.stream.log_reader import SessionReader
from tests.lab.accounts import OPERATOR
from tests.lab.follow import configure, connect, engine, start_engine
from tests.lab.lab import Lab
from tests.lab.processes import wait_for
from tests.stream.build import same

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
GPUTOP = os.path.join(os.path.dirname(sys.executable), "gputop")


def log_info(lab: Lab, path: Path) -> dict[str, object]:
    """What gputop says of a log."""
    found: dict[str, object] = json.loads(lab.run_as("root", [GPUTOP, "log", "info", str(path), "--json"]).stdout)
    return found


def alive(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


async def test_a_second_engine_is_refused_a_vanished_reader_is_waited_for_and_a_clean_quit_ends_it(lab: Lab) -> None:
    configure(lab.home("root"), "root", f"[clusters.{lab.slurm.cluster}]\nperiod = 2\n")
    first = start_engine(lab)
    follower = await connect(lab)
    second = start_engine(lab)
    assert second.wait(20) != 0
    assert "already runs" in (lab.base / "engine.log").read_text()
    await follower.vanish()
    await asyncio.sleep(3)
    assert alive(first), (lab.base / "engine.log").read_text()[-2000:]
    again = await connect(lab)
    await again.until("the picture", lambda s: len(s.nodes) == 16)
    await again.until("itself alone among the readers", lambda s: len(s.readers) == 1)
    await again.close()
    assert first.wait(20) == 0


async def test_what_is_seen_live_and_what_was_recorded_agree_at_every_frame(lab: Lab) -> None:
    states: dict[int, Snapshot] = {}
    async with engine(lab) as follower:
        snap: Snapshot | None = None
        await follower.until("the picture", lambda s: len(s.gpu_table) == 128, 30)
        await asyncio.sleep(6)
        for frame in follower.frames:
            snap = apply(snap, frame)
            states[frame.seq] = snap
        about = follower.snap.about
        assert about is not None
        recording = about.recording
    reader = SessionReader(type(lab.base)(recording))
    seen: Snapshot | None = None
    compared = 0
    for frame in reader.frames():
        seen = apply(seen, frame)
        if frame.seq in states:
            assert same(seen, states[frame.seq])
            compared += 1
    assert compared > 10
    assert reader.complete


def test_snapshot_act_doctor_and_log_from_a_foreign_home(lab: Lab) -> None:
    done = lab.run_as(OPERATOR, [GPUTOP, "snapshot", "--json"])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["format"] == "gputop-snapshot/1"
    assert len(document["nodes"]) == 16
    assert sum(len(node["gpus"]) for node in document["nodes"]) == 128
    power = document["nodes"][0]["gpus"][0]["readings"]["power"]
    assert isinstance(power, int | float)
    done = lab.run_as(OPERATOR, [GPUTOP, "doctor"])
    assert done.returncode == 0, done.stdout
    assert "only root and SlurmUser" in done.stdout
    done = lab.run_as("root", [GPUTOP, "act", "drain", "gpu0013", "--json"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["outcome"] == "confirmed"
    assert lab.node_state("gpu0013") == "IDLE+DRAIN"
    done = lab.run_as("root", [GPUTOP, "act", "drain", "gpu0013"])
    assert done.returncode == 3
    assert "already" in done.stdout
    done = lab.run_as("root", [GPUTOP, "act", "resume", "gpu0013"])
    said = "".join(path.read_text() for path in lab.home("root").glob(".local/state/gputop/*/engine.log"))
    assert done.returncode == 0, done.stdout + done.stderr + said[-3000:]
    logs = sorted((lab.home("root") / ".local/state/gputop").glob("*/log/*.gtlog"))
    wait_for("the engine to close its log", lambda: log_info(lab, logs[-1])["complete"] is True)
    assert log_info(lab, logs[-1])["nodes"] == 16
    done = lab.run_as("root", [GPUTOP, "log", "export", str(logs[-1])])
    assert all(json.loads(line) for line in done.stdout.splitlines())


async def test_an_action_that_was_cut_off_is_settled_by_reading_the_world(lab: Lab) -> None:
    from gputop.model.actions import Intent, Kind, Outcome

    configure(lab.home("root"), "root", f"[clusters.{lab.slurm.cluster}]\nperiod = 2\nslurm_period = 2\n")
    process = start_engine(lab)
    follower = await connect(lab)
    await follower.until("Slurm", lambda s: len(s.nodes) == 16)
    card = await follower.propose(Intent(kind=Kind.DRAIN, target="gpu0014"))
    await follower.approve(card)
    await follower.until("the reservation", lambda s: card.id in s.actions)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    await follower.vanish()
    process = start_engine(lab)
    again = await connect(lab)
    snap = await again.until("the settled action", lambda s: card.id in s.actions and not s.actions[card.id].open, 40)
    drained = "DRAIN" in lab.node_state("gpu0014")
    outcome = snap.actions[card.id].outcome
    assert outcome in ((Outcome.CONFIRMED,) if drained else (Outcome.REFUSED, Outcome.UNKNOWN)), snap.actions[
        card.id
    ].says
    await again.close()
    process.wait(20)
