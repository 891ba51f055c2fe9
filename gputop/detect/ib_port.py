"""NET002: an InfiniBand port that is down for longer than a flap."""

from dataclasses import dataclass

import numpy as np

from gputop.detect.rule import Hit, Past, Rule, Sight, Threshold
from gputop.model.findings import Evidence, Hint, Need, Severity

ACTIVE = 4


@dataclass(frozen=True)
class Downs:
    """Port key -> since when it was seen down."""

    since: dict[str, float]


def check(sight: Sight, past: Past) -> tuple[list[Hit], Past]:
    table = sight.snap.port_table
    if not len(table):
        return [], past
    before = past.since if isinstance(past, Downs) else {}
    state = table["state"]
    with np.errstate(invalid="ignore"):
        down = state.known() & (state.values != ACTIVE)
    since = {table.ids[row].key: before.get(table.ids[row].key, sight.now) for row in np.flatnonzero(down)}
    limit = sight.limits["seconds"]
    hits = []
    for row in np.flatnonzero(down):
        one = table.ids[row]
        host = sight.snap.host_table.index.get(one.node, -1)
        if host < 0 or not sight.hosts_fresh[host] or sight.now - since[one.key] < limit:
            continue
        evidence = Evidence(reading="state", value=f"{state.values[row]:.0f}", limit=f"{ACTIVE} (active)", at=sight.now)
        says = f"port {one.device} is down"
        hits.append(Hit(subject=one.key, node=one.node, says=says, evidence=(evidence,), since=since[one.key]))
    return hits, Downs(since)


RULE = Rule(
    code="NET002",
    name="InfiniBand port down",
    severity=Severity.DEGRADED,
    hint=Hint.DRAIN,
    needs=(Need.HOST, Need.PORTS),
    check=check,
    sees="ports whose state is not active, for longer than a short flap",
    why="the node's share of every collective goes through the ports that are left",
    tune="lower seconds where ports never flap; a port that is not cabled belongs off in the BIOS or the driver",
    thresholds=(Threshold(name="seconds", value=240, unit="s", source="four minutes, as field tools use"),),
)
