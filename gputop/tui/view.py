"""What a screen is drawn from: the snapshot, the time it is looked at, and how it came."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gputop.model.health import Health, node_health
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.model.table import Floats


@dataclass(frozen=True)
class NodeSums:
    """One node's GPUs together."""

    rows: int
    present: int
    util: float | None
    """Mean over the GPUs that were read; None for none."""
    power: float | None
    temp: float | None
    """The hottest."""
    mem_used: float | None
    mem_total: float | None


@dataclass(frozen=True)
class View:
    """One moment; everything derived from it is worked out once, when first asked for."""

    snap: Snapshot
    now: float
    """The stream's time as of this look: it goes on while frames do not come, and stands in a paused replay."""
    live: bool = True
    can_act: bool = True
    gone: str = ""
    """Why no frames come any more; "" while they do."""

    @cached_property
    def health(self) -> dict[str, Health]:
        return {name: node_health(self.snap, node, self.now) for name, node in self.snap.nodes.items()}

    @cached_property
    def jobs_on(self) -> dict[str, list[Job]]:
        """Node -> jobs that run or complete there."""
        found: dict[str, list[Job]] = {}
        for job in self.snap.jobs.values():
            if job.running or job.completing:
                for name in job.nodes:
                    found.setdefault(name, []).append(job)
        return found

    @cached_property
    def sums(self) -> dict[str, NodeSums]:
        """Node -> its GPUs together."""
        table = self.snap.gpu_table
        if not len(table):
            return {}
        names = list(table.by_node)
        number = np.empty(len(table), np.intp)
        for k, name in enumerate(names):
            number[list(table.by_node[name])] = k
        size = len(names)
        counts = np.bincount(number, minlength=size)
        present = np.bincount(number, weights=np.nan_to_num(table["present"].values) == 1, minlength=size)

        def total(column: str) -> tuple[Floats, Floats]:
            known = table[column].known()
            weights = np.where(known, np.nan_to_num(table[column].values), 0.0)
            sums = np.asarray(np.bincount(number, weights, size), np.float64)
            return sums, np.asarray(np.bincount(number, known.astype(float), size), np.float64)

        util, util_n = total("util")
        power, power_n = total("power")
        used, used_n = total("mem_used")
        room, _ = total("mem_total")
        hottest = np.full(size, -np.inf)
        temps = table["temp"]
        np.maximum.at(hottest, number, np.where(temps.known(), np.nan_to_num(temps.values), -np.inf))
        return {
            name: NodeSums(
                rows=int(counts[k]),
                present=int(present[k]),
                util=util[k] / util_n[k] if util_n[k] else None,
                power=float(power[k]) if power_n[k] else None,
                temp=float(hottest[k]) if np.isfinite(hottest[k]) else None,
                mem_used=float(used[k]) if used_n[k] else None,
                mem_total=float(room[k]) if used_n[k] else None,
            )
            for k, name in enumerate(names)
        }

    def gpus_stale(self, age: float | None) -> bool:
        """Whether GPUs read so long ago may not be shown as live."""
        return age is None or age > 2 * self.snap.sources["probe"].period

    @cached_property
    def ages(self) -> dict[str, tuple[float | None, float | None]]:
        """Node -> (age of its last sample, age of its last GPU reading)."""
        table = self.snap.host_table
        if not len(table):
            return {}
        sampled, read = table["sampled_at"].values, table["gpus_read_at"].values
        return {
            one.node: (_age(self.now, float(sampled[row])), _age(self.now, float(read[row])))
            for row, one in enumerate(table.ids)
        }


def _age(now: float, at: float) -> float | None:
    return None if np.isnan(at) else max(0.0, now - at)
