"""Scenarios in virtual time: the same bytes each time, right reactions confirmed, and nothing done on noise."""

import json
import subprocess
import sys
from typing import Any

import pytest

from gputop.demo.headless import play
from gputop.demo.scenario import load_scenario
from tests.demo.build import JOB, fault, played


def shipped(name: str, seed: int = 1) -> list[dict[str, Any]]:
    one = load_scenario(name)
    events: list[dict[str, Any]] = []
    play(one, nodes=max(one.least_nodes, 32), seed=seed, tell=events.append)
    return events


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guided", "hardware", "controller"])
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    first, second = (json.dumps(shipped(name)) for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize(("name", "actions"), [("hardware", 10), ("stragglers", 3), ("jobs", 3), ("guided", 5)])
def test_the_right_reactions_end_confirmed(name: str, actions: int) -> None:
    ends = [event for event in shipped(name) if event["event"] == "action" and event["outcome"] != "asked"]
    assert [event["outcome"] for event in ends] == ["confirmed"] * actions, ends


def test_nothing_is_done_where_nothing_is_broken() -> None:
    assert not [event for event in shipped("noise") if event["event"] in ("action", "health")]


def test_a_lost_gpu_is_seen_within_a_period() -> None:
    events = played(JOB + fault("gpu-lost", "job:train/1/3", at=12.0))
    seen = next(event for event in events if event["event"] == "health")
    assert (seen["node"], seen["says"]) == ("gpu0002", "GPU 3 lost")
    assert 0 <= seen["t"] - 12.0 <= 5.0 + 2.0


def test_a_controller_that_is_down_makes_nothing_disappear() -> None:
    events = shipped("controller")
    troubles = {event["trouble"] for event in events if event["event"] == "source"}
    assert "sinfo: answered without a single node: not believed" in troubles
    assert not [event for event in events if event["event"] in ("node", "action")]


def test_a_drain_that_a_frozen_controller_took_is_not_sent_again() -> None:
    text = (
        JOB
        + fault("throttle", "gpu0005/1", at=20.0, reaction=("drain",))
        + fault("slurmctld-frozen", "slurmctld", at=44.0, lasts=30.0)
    )
    ends = [event for event in played(text) if event["event"] == "action" and event["outcome"] != "asked"]
    nodes = [event["state"] for event in played(text) if event["event"] == "node"]
    assert [event["target"] for event in ends] in ([], ["gpu0005"])
    assert nodes in ([], ["up+drain"])


def test_a_listener_that_is_gone_ends_it_without_a_fault() -> None:
    command = f"{sys.executable} -m gputop.cli demo --headless --scenario noise --nodes 16 | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["event"] == "job"
    assert done.stderr == ""
