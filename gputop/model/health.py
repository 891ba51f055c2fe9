"""How a node is, from facts alone: what Slurm, the link and the GPUs say. No thresholds, no guesses."""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache

import numpy as np
from msgspec import Struct

from gputop.model.columns import GpuId
from gputop.model.findings import Finding, Severity, worst_of
from gputop.model.hosts import LinkState
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.model.table import Table
from gputop.model.text import plural


class Level(IntEnum):
    """Worst first."""

    DOWN = 0
    """Slurm has given it up."""
    FAILING = 1
    """A GPU is lost or asks for a repair, or the driver hangs."""
    DEGRADED = 2
    """It works, worse than it should."""
    UNREAD = 3
    """Nobody can look: the link is down, or what was read is old."""
    DRAINED = 4
    """Out of service on purpose, or on its way there."""
    OFF = 5
    """Powered down by Slurm."""
    BUSY = 6
    IDLE = 7


class Health(Struct, frozen=True):
    """One node's level, and why in a few words."""

    level: Level
    says: str = ""


_RECOVERY = {1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset"}


@lru_cache(maxsize=4)
def gpu_troubles(table: Table[GpuId]) -> Mapping[str, tuple[str, ...]]:
    """Node -> what its GPUs say is wrong, for nodes where something is."""
    found: dict[str, list[str]] = {}

    def note(column: str, mask_of: float, words: str) -> None:
        values = table[column]
        for row in np.flatnonzero((values.why == 0) & (values.values >= mask_of)):
            one = table.ids[row]
            says = words.format(gpu=one.index, value=values.values[row])
            if column == "recovery_action":
                says = f"GPU {one.index} asks for a {_RECOVERY.get(int(values.values[row]), 'repair')}"
            found.setdefault(one.node, []).append(says)

    present = table["present"]
    lost: dict[str, list[str]] = {}
    for row in np.flatnonzero((present.why == 0) & (present.values == 0)):
        one = table.ids[row]
        lost.setdefault(one.node, []).append(str(one.index) if one.index >= 0 else "?")
    for node, gpus in lost.items():
        unseen = all(gpu == "?" for gpu in gpus)
        found[node] = [f"{plural(len(gpus), 'GPU')} missing" if unseen else f"GPU {', '.join(gpus)} lost"]
    note("recovery_action", 1, "")
    note("remap_failed", 1, "GPU {gpu} row remap failed")
    note("ecc_unc", 1, "GPU {gpu} uncorrected ECC {value:.0f}")
    note("remap_pending", 1, "GPU {gpu} row remap pending")
    return {node: tuple(words) for node, words in found.items()}


def node_health(snap: Snapshot, node: Node, now: float, worst: Finding | None = None) -> Health:
    """The worst that is known of a node; worst is the worst that the rules found there."""
    state, reason = node.state, node.reason
    why = f": {reason.text}" if reason is not None else ""
    if state.down:
        return Health(Level.DOWN, f"Slurm says {state}{why}")
    if state.powered_down:
        return Health(Level.OFF, "powered down by Slurm")
    if state.silent and state.base == "idle" and not state.drain:
        return Health(Level.UNREAD, "Slurm hears no slurmd")
    host = snap.hosts.get(node.name)
    if host is not None and host.hang is not None:
        return Health(Level.FAILING, f"driver hung for {now - host.hang.since:.0f} s")
    if troubles := gpu_troubles(snap.gpu_table).get(node.name):
        return Health(Level.FAILING, "; ".join(troubles))
    fresh = worst if worst is not None and not worst.stale else None
    if fresh is not None and fresh.severity is Severity.FATAL:
        return Health(Level.FAILING, fresh.says)
    link = snap.links.get(node.name)
    if state.drain or state.has("fail"):
        who = f" by {reason.owner}" if reason is not None and reason.owner else ""
        return Health(Level.DRAINED, f"{'draining' if state.draining else 'drained'}{who}{why}")
    if link is None or link.state not in (LinkState.UP, LinkState.OFF):
        detail = f": {link.detail}" if link is not None and link.detail else ""
        return Health(Level.UNREAD, f"ssh {link.state if link is not None else 'not tried yet'}{detail}")
    age = gpu_age(snap, node.name, now)
    if node.gpus and (age is None or age > 2 * snap.sources["probe"].period):
        return Health(Level.UNREAD, "GPUs not read yet" if age is None else f"GPUs not read for {age:.0f} s")
    if fresh is not None and fresh.severity is Severity.DEGRADED:
        return Health(Level.DEGRADED, fresh.says)
    if state.base in ("allocated", "mixed") or state.has("completing"):
        return Health(Level.BUSY)
    return Health(Level.IDLE)


_BUSY, _IDLE = Health(Level.BUSY), Health(Level.IDLE)
_QUIET = {"idle": _IDLE, "allocated": _BUSY, "mixed": _BUSY}


def fleet_health(snap: Snapshot, now: float) -> dict[str, Health]:
    """node_health of every node; most are well, and that is found out quickly."""
    troubles, links, hosts = gpu_troubles(snap.gpu_table), snap.links, snap.hosts
    table = snap.host_table
    limit = 2 * snap.sources["probe"].period if "probe" in snap.sources else 0.0
    fresh: list[bool] = (now - table["gpus_read_at"].values <= limit).tolist()
    worst = worst_of(snap.findings)
    found: dict[str, Health] = {}
    for name, node in snap.nodes.items():
        state, link, host, row = node.state, links.get(name), hosts.get(name), table.index.get(name, -1)
        quiet = None if state.flags or name in troubles or name in worst else _QUIET.get(state.base)
        read = row >= 0 and fresh[row] and host is not None and host.hang is None
        if quiet is not None and read and link is not None and link.state is LinkState.UP:
            found[name] = quiet
        else:
            found[name] = node_health(snap, node, now, worst.get(name))
    return found


def gpu_age(snap: Snapshot, node: str, now: float) -> float | None:
    """Seconds since a node's GPUs were read; None when they never were."""
    row = snap.host_table.index.get(node, -1)
    at = snap.host_table.at(row, "gpus_read_at") if row >= 0 else None
    return now - at if isinstance(at, float) else None
