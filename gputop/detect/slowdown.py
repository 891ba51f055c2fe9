"""GPU006: hardware slows the GPU, seen by counters, which also catch bursts between two samples."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold
from gputop.model.findings import Evidence, Hint, Need, Severity

CAUSES = {"hw_thermal_us": "heat", "power_brake_us": "the power brake"}
HW_BITS = 0x8 | 0x40 | 0x80
"""HW slowdown, HW thermal, power brake."""


@dataclass(frozen=True)
class Rising:
    """By node: when its GPUs were last read; by GPU row: counters then, and passes in a row in which one rose."""

    read_at: npt.NDArray[np.float64]
    counters: dict[str, npt.NDArray[np.float64]]
    rises: dict[str, npt.NDArray[np.int64]]


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    table = sight.gpus
    read_at = _read_at(sight)
    before = past if isinstance(past, Rising) else Rising(np.empty(0), {}, {})
    known = len(before.read_at)
    counters, rises = {}, {}
    for column in CAUSES:
        now = table[column].values
        old = np.full(len(now), np.nan)
        count = np.zeros(len(now), np.int64)
        if column in before.counters:
            old[:known], count[:known] = before.counters[column], before.rises[column]
        new_pass = np.ones(len(now), np.bool_)
        new_pass[:known] = read_at[:known] != before.read_at
        with np.errstate(invalid="ignore"):
            rose = now > old
        counters[column] = np.where(new_pass, now, old)
        rises[column] = np.where(new_pass, np.where(rose, count + 1, 0), count)
    needed = int(sight.limits["passes"])
    hits = []
    for column, cause in CAUSES.items():
        for row in np.flatnonzero(sight.gpus_fresh & (rises[column] >= needed)):
            one = table.ids[row]
            clock = table.at(int(row), "sm_clock")
            at = float(read_at[row])
            evidence = (
                Evidence(
                    reading=column, value=f"{counters[column][row]:.0f} and rising", limit="standing still", at=at
                ),
                Evidence(reading="sm_clock", value=str(clock), limit="for comparison", at=at),
            )
            says = f"GPU {one.index} is slowed by {cause}"
            hits.append(Hit(subject=f"{one.key}/{column}", node=one.node, says=says, evidence=evidence))
    return hits, Rising(read_at, counters, rises)


def _read_at(sight: Sight) -> npt.NDArray[np.float64]:
    """Of each GPU, when it was last read."""
    table, hosts = sight.gpus, sight.snap.host_table
    if not len(table) or not len(hosts):
        return np.full(len(table), np.nan)
    rows = np.array([hosts.index.get(name, -1) for name in table.by_node], np.intp)
    at = np.where(rows >= 0, hosts["gpus_read_at"].values[rows], np.nan)
    return np.asarray(at[table.node_of], np.float64)


RULE = Rule(
    code="GPU006",
    name="hardware slowdown",
    severity=Severity.DEGRADED,
    hint=Hint.DRAIN,
    needs=(Need.GPUS,),
    check=check,
    sees="NVML's counters of time slowed by heat or the power brake, rising in several readings in a row",
    why="one slow GPU slows every GPU of a synchronous job; the cause is cooling or power, not the program",
    tune="raise passes where short bursts at job start are normal; the software power cap is normal and not counted",
    thresholds=(Threshold(name="passes", value=3, unit="readings in a row", source="judgement"),),
)
