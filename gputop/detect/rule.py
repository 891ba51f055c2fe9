"""What a rule is, and what it sees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gputop.model.columns import GpuId
from gputop.model.findings import Evidence, Hint, Need, Severity
from gputop.model.reading import Unknown
from gputop.model.snapshot import Snapshot
from gputop.model.table import Column, Table

Past = object
"""What a rule keeps from pass to pass; None at first. Each rule knows its own."""
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


class Threshold(Struct, frozen=True, kw_only=True):
    """A number that a site may change."""

    name: str
    value: float
    unit: str
    source: str
    """Where the number comes from."""


class Hit(Struct, frozen=True, kw_only=True):
    """A subject for which a rule holds now."""

    subject: str
    node: str
    says: str
    evidence: tuple[Evidence, ...] = ()
    severity: Severity | None = None
    """Where it differs from the rule's."""
    hint: Hint | None = None
    since: float | None = None
    """Where the evidence says it better than the first time it was looked at."""


@dataclass(frozen=True)
class Sight:
    """What a pass sees: one snapshot, the time, and the rule's thresholds."""

    snap: Snapshot
    now: float
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def gpus(self) -> Table[GpuId]:
        return self.snap.gpu_table

    @cached_property
    def gpus_fresh(self) -> Bools:
        """Of each GPU, whether it was read within two periods."""
        table, hosts = self.snap.gpu_table, self.snap.host_table
        if not len(table) or not len(hosts):
            return np.zeros(len(table), np.bool_)
        rows = np.array([hosts.index.get(name, -1) for name in table.by_node], np.intp)
        ages = self.now - hosts["gpus_read_at"].values[rows]
        return np.asarray(((rows >= 0) & (ages <= self.patience))[table.node_of], np.bool_)

    @cached_property
    def hosts_fresh(self) -> Bools:
        """Of each host, whether it was sampled within two periods."""
        ages = self.now - self.snap.host_table["sampled_at"].values
        return np.asarray(ages <= self.patience, np.bool_)

    @property
    def patience(self) -> float:
        """Seconds after which a reading counts for nothing."""
        return 2 * self.snap.sources["probe"].period

    def gpu_rows(self, column: str, holds: Callable[[npt.NDArray[np.float64]], Bools]) -> Rows:
        """Rows of fresh GPUs whose reading of a column is known and holds."""
        found = self.gpus[column]
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self.gpus_fresh & found.known() & holds(found.values))

    def read_at(self, node: str) -> float:
        """When a node's GPUs were last read."""
        hosts = self.snap.host_table
        return float(hosts["gpus_read_at"].values[hosts.index[node]])


Check = Callable[[Sight, Past], tuple[list[Hit], Past]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One detector."""

    code: str
    name: str
    severity: Severity
    hint: Hint
    needs: tuple[Need, ...]
    check: Check
    sees: str
    """What it looks at, in a sentence."""
    why: str
    """Why it matters."""
    tune: str = ""
    """When a site would change it."""
    thresholds: tuple[Threshold, ...] = ()


def shown(column: Column, row: int, form: str = "{:.0f}") -> str:
    """A reading as text."""
    value = column.at(row)
    return str(value) if isinstance(value, Unknown) else form.format(value)


def gpu_hit(sight: Sight, row: int, says: str, column: str, limit: str, **more: object) -> Hit:
    """A hit on one GPU with one reading as its evidence."""
    one = sight.gpus.ids[row]
    evidence = Evidence(reading=column, value=shown(sight.gpus[column], row), limit=limit, at=sight.read_at(one.node))
    return Hit(subject=one.key, node=one.node, says=f"GPU {one.index} {says}", evidence=(evidence,), **more)  # type: ignore[arg-type]
