"""What a screen is drawn from: the snapshot, the time it is looked at, and how it came."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gputop.model.columns import GpuId
from gputop.model.health import Health, fleet_health
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.model.table import Floats, Table


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


class Sums:
    """Every node's GPUs together, as columns; a node's own numbers are put together when they are asked for."""

    def __init__(self, table: Table[GpuId]) -> None:
        self._place = {name: k for k, name in enumerate(table.by_node)}
        number, size = table.node_of, len(table.by_node)
        self._rows = np.bincount(number, minlength=size)
        self._present = np.bincount(number, weights=table["present"].values == 1, minlength=size)

        def total(column: str) -> tuple[Floats, Floats]:
            known = table[column].known()
            weights = np.where(known, table[column].values, 0.0)
            sums = np.asarray(np.bincount(number, weights, size), np.float64)
            return sums, np.asarray(np.bincount(number, known.astype(float), size), np.float64)

        with np.errstate(invalid="ignore"):
            util, util_read = total("util")
            self.util = util / util_read
            power, power_read = total("power")
            self.power = np.where(power_read > 0, power, np.nan)
            used, used_read = total("mem_used")
            self.mem_used = np.where(used_read > 0, used, np.nan)
            self.mem_total = total("mem_total")[0]
        temps = table["temp"]
        hottest = np.full(size, -np.inf)
        np.maximum.at(hottest, number, np.where(temps.known(), temps.values, -np.inf))
        self.temp = np.where(np.isfinite(hottest), hottest, np.nan)

    def of(self, name: str) -> NodeSums | None:
        """One node; None for one whose GPUs nobody has seen."""
        k = self._place.get(name)
        if k is None:
            return None
        used = _value(self.mem_used[k])
        return NodeSums(
            rows=int(self._rows[k]),
            present=int(self._present[k]),
            util=_value(self.util[k]),
            power=_value(self.power[k]),
            temp=_value(self.temp[k]),
            mem_used=used,
            mem_total=float(self.mem_total[k]) if used is not None else None,
        )


def _value(number: np.float64) -> float | None:
    return None if np.isnan(number) else float(number)


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
        return fleet_health(self.snap, self.now)

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
    def sums(self) -> Sums:
        return Sums(self.snap.gpu_table)

    def gpus_stale(self, age: float | None) -> bool:
        """Whether GPUs read so long ago may not be shown as live."""
        return age is None or age > 2 * self.snap.sources["probe"].period

    def ages(self, name: str) -> tuple[float | None, float | None]:
        """Age of a node's last sample, and of its last GPU reading; None for never."""
        table = self.snap.host_table
        row = table.index.get(name, -1)
        if row < 0:
            return None, None
        sampled, read = table["sampled_at"].values[row], table["gpus_read_at"].values[row]
        return _age(self.now, float(sampled)), _age(self.now, float(read))

    @cached_property
    def gpus_fresh(self) -> npt.NDArray[np.bool_]:
        """Of each GPU, whether its node's GPUs were read in time."""
        table, hosts = self.snap.gpu_table, self.snap.host_table
        if not len(table) or not len(hosts):
            return np.zeros(len(table), np.bool_)
        rows = np.array([hosts.index.get(name, -1) for name in table.by_node], np.intp)
        ages = self.now - hosts["gpus_read_at"].values[rows]
        fresh = (rows >= 0) & (ages <= 2 * self.snap.sources["probe"].period)
        return np.asarray(fresh[table.node_of], np.bool_)


def _age(now: float, at: float) -> float | None:
    return None if np.isnan(at) else max(0.0, now - at)
