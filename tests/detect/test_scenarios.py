"""Shipped scenarios: each fault is found as what it is, and noise is no finding that matters."""

from typing import Any

import pytest

from gputop.demo.headless import play
from gputop.demo.scenario import load_scenario

pytestmark = pytest.mark.slow


def found(name: str) -> list[dict[str, Any]]:
    one = load_scenario(name)
    events: list[dict[str, Any]] = []
    play(one, nodes=max(one.least_nodes, 32), seed=1, tell=events.append)
    return [event for event in events if event["event"] == "finding" and event["what"] == "found"]


def test_each_hardware_fault_is_found_on_its_node_within_a_period_and_two_seconds() -> None:
    wanted = {
        "gpu0002": (30, "GPU001"), "gpu0009": (120, "GPU003"), "gpu0010": (200, "GPU004"), "gpu0011": (280, "GPU005"),
        "gpu0012": (360, "GPU005"), "gpu0013": (440, "GPU002"), "gpu0014": (520, "NET001"),
    }  # fmt: skip
    events = found("hardware")
    for node, (at, rule) in wanted.items():
        mine = [event for event in events if event["subject"].startswith(node)]
        assert rule in {event["rule"] for event in mine}, (node, mine)
        first = min(event["t"] for event in mine if event["rule"] == rule)
        assert at <= first <= at + 7, (node, first)


def test_slowdowns_and_hangs_are_found() -> None:
    rules = {(event["rule"], event["subject"][:7]) for event in found("hardware")}
    assert ("GPU008", "gpu0018") in rules
    assert ("GPU006", "gpu0019") in rules
    assert ("NET002", "gpu0016") in rules
    assert ("NET002", "gpu0017") not in rules


def test_nothing_that_matters_is_found_in_noise() -> None:
    assert [event for event in found("noise") if event["severity"] in ("fatal", "degraded")] == []
