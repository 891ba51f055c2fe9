"""HOST001 to HOST003: a full disk, a wrong clock, and processes that wait for ever."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gputop.detect.rule import Check, Hit, Past, Rule, Sight, Threshold
from gputop.model.findings import Evidence, Hint, Need, Severity


def over(column: str, limit_name: str, words: Callable[[float], str]) -> Check:
    """A check: a host's reading is at or over a limit, in size."""

    def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
        table = sight.snap.host_table
        limit = sight.limits[limit_name]
        found = table[column]
        values: npt.NDArray[np.float64] = np.abs(found.values)
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(sight.hosts_fresh & found.known() & (values >= limit))
        hits = []
        for row in rows:
            value = float(found.values[row])
            evidence = Evidence(
                reading=column, value=f"{value:.1f}", limit=f"below {limit:g}",
                at=float(table["sampled_at"].values[row]),
            )  # fmt: skip
            name = table.ids[row].node
            hits.append(Hit(subject=name, node=name, says=words(value), evidence=(evidence,)))
        return hits, past

    return check


DISK = Rule(
    code="HOST001",
    name="disk full",
    severity=Severity.DEGRADED,
    hint=Hint.PERSON,
    needs=(Need.HOST,),
    check=over("disk_used", "percent", lambda value: f"the root file system is {value:.0f} % full"),
    sees="the share of the root file system that is in use",
    why="prologs, logs and containers fail in odd ways on a full disk",
    thresholds=(Threshold(name="percent", value=95, unit="%", source="between field tools' 85 and 99"),),
)
CLOCK = Rule(
    code="HOST002",
    name="clock skew",
    severity=Severity.WARN,
    hint=Hint.PERSON,
    needs=(Need.HOST,),
    check=over(
        "clock_skew", "seconds", lambda value: f"its clock is {abs(value):.0f} s {'ahead' if value > 0 else 'behind'}"
    ),
    sees="the node's clock against ours, at each sample",
    why="munge refuses credentials from a clock that is minutes off, and logs cannot be put in order",
    thresholds=(Threshold(name="seconds", value=30, unit="s", source="a tenth of munge's default of 300 s"),),
)
BLOCKED = Rule(
    code="HOST003",
    name="processes blocked",
    severity=Severity.WARN,
    hint=Hint.WATCH,
    needs=(Need.HOST,),
    check=over("blocked", "processes", lambda value: f"{value:.0f} processes wait in the kernel"),
    sees="processes in uninterruptible sleep (state D)",
    why="they wait for a disk, a mount or a driver that does not answer, and cannot be killed",
    tune="raise processes on nodes with much local I/O",
    thresholds=(Threshold(name="processes", value=4, unit="processes", source="judgement"),),
)
