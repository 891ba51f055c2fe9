"""Every GPU of the simulated cluster as columns, and the physics that moves them: power, heat, clocks, counters."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputop.probe import columns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

IDLE_WATTS = 70.0
FULL_WATTS = 645.0
"""H100 SXM: 70 W idle and 632 W loaded in captures, limit 700 W."""
IDLE_MHZ = 345
FULL_MHZ = 1980
WARM_UP = 25.0
"""Seconds in which a GPU comes two thirds nearer to its heat."""
MEMORY = 81_559
NVLINKS = 18

HW_SLOWDOWN, SW_POWER, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x4, 0x20, 0x40, 0x80

_STEADY = {
    "present": 1, "power_limit": 700, "sm_clock_max": FULL_MHZ, "mem_clock": 2619, "mem_total": MEMORY,
    "persistence": 1, "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16, "ecc_mode": 1,
    "fabric_state": 3, "nvlinks_up": NVLINKS, "nvlinks": NVLINKS,
}  # fmt: skip


@dataclass(frozen=True)
class Demand:
    """What the programs ask of the GPUs at one moment; one number for each GPU of the cluster."""

    busy: Floats
    """Share of the time in which it computes, 0 to 1; the rest of a job's time it waits for its peers."""
    spinning: npt.NDArray[np.bool_]
    """A kernel runs all the time, even where it only waits: utilisation is 100 % then."""
    memory: Floats
    """Share of its memory in use."""


class Hardware:
    """GPU k of node n is row n * per_node + k. Unknown cells have a reason in `why`."""

    def __init__(self, nodes: int, per_node: int, random: np.random.Generator) -> None:
        self.per_node = per_node
        count = nodes * per_node
        self._random = random
        self._at = {name: k for k, name in enumerate(columns.GPU)}
        self.cells: Ints = np.zeros((len(columns.GPU), count), np.int64)
        self.why: dict[tuple[int, str], str] = {}
        """(row, column) -> reason, where a reading cannot be had."""
        self.lost = np.zeros(count, bool)
        self.clock_cap = np.ones(count)
        """Share of the full clock that is left to it."""
        self.reasons: Ints = np.zeros(count, np.int64)
        """Slowdown bits of a fault."""
        self.slowed = np.ones(count)
        """Speed that it loses for reasons outside of it: host CPU, network."""
        self.extra_watts = np.zeros(count)
        self.heat = np.zeros(count)
        self._watts = np.full(count, IDLE_WATTS)
        self._appetite = random.normal(1.0, 0.012, count)
        self._resistance = random.normal(0.060, 0.003, count)
        self._ambient = np.repeat(random.normal(26.0, 1.5, nodes), per_node)
        self.heat[:] = self._ambient + self._resistance * IDLE_WATTS
        for name, value in _STEADY.items():
            self.cells[self._at[name]] = value

    def column(self, name: str) -> Ints:
        """One column, to be read or written."""
        cells: Ints = self.cells[self._at[name]]
        return cells

    def rows(self, node: int) -> slice:
        return slice(node * self.per_node, (node + 1) * self.per_node)

    @property
    def speed(self) -> Floats:
        """How fast each would go if it had not to wait for anybody; 1 is a healthy GPU."""
        return self.clock_cap * self.slowed

    def step(self, demand: Demand, seconds: float) -> None:
        """Lets the physics go on for so long."""
        random, count = self._random, len(self.lost)
        active = demand.spinning | (demand.busy > 0)
        load = np.where(demand.spinning, 0.16 + 0.84 * demand.busy, demand.busy)
        wanted = IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * load * self._appetite * self.clock_cap**1.7
        wanted = wanted + self.extra_watts
        noise = random.normal(0.0, 1.0, count) * np.where(active, 6.0, 0.4)
        self._watts += (wanted - self._watts) * min(1.0, seconds / 2.0)
        self.heat += (self._ambient + self._resistance * self._watts - self.heat) * min(1.0, seconds / WARM_UP)
        watts = np.minimum(self._watts + noise, 700.0)
        capped = watts > 690.0
        clock = np.where(active, FULL_MHZ * self.clock_cap, IDLE_MHZ)
        clock = np.where(active & capped, clock - 30, clock)
        self.column("power")[:] = np.rint(watts)
        self.column("temp")[:] = np.rint(self.heat)
        self.column("temp_mem")[:] = np.rint(self.heat + 7 + 9 * load)
        self.column("temp_margin")[:] = np.rint(87 - self.heat)
        self.column("sm_clock")[:] = np.rint(clock / 15) * 15
        self.column("util")[:] = np.where(
            demand.spinning, 100 - (random.random(count) < 0.15), np.rint(100 * demand.busy)
        )
        self.column("mem_util")[:] = np.rint(46 * demand.busy + random.normal(0, 0.8, count) * (demand.busy > 0.05))
        self.column("mem_util")[:] = np.maximum(self.column("mem_util"), 0)
        self.column("mem_used")[:] = np.where(demand.memory > 0, np.rint(demand.memory * MEMORY), 4)
        self._count_slowdowns(capped & active, seconds)

    def _count_slowdowns(self, capped: npt.NDArray[np.bool_], seconds: float) -> None:
        """The counters go on in microseconds while their bit is set."""
        idle = self.column("util") == 0
        self.column("clock_reasons")[:] = self.reasons | np.where(capped, SW_POWER, 0) | np.where(idle, 0x1, 0)
        micro = int(seconds * 1_000_000)
        self.column("hw_thermal_us")[:] += np.where(self.reasons & HW_THERMAL, micro, 0)
        self.column("power_brake_us")[:] += np.where(self.reasons & POWER_BRAKE, micro, 0)
        self.column("sw_thermal_us")[:] += np.where(self.reasons & SW_THERMAL, micro, 0)
        self.column("sw_power_us")[:] += np.where(capped, micro // 100, 0)

    def replaced(self, node: int) -> None:
        """Fresh GPUs in a node: nothing is left of what was wrong with them."""
        rows = self.rows(node)
        self.lost[rows] = False
        self.clock_cap[rows] = self.slowed[rows] = 1.0
        self.reasons[rows] = 0
        self.extra_watts[rows] = 0.0
        self.cells[:, rows] = 0
        for name, value in _STEADY.items():
            self.column(name)[rows] = value
        self.why = {key: why for key, why in self.why.items() if not rows.start <= key[0] < rows.stop}

    def readings(self, node: int) -> list[list[float | str | None]]:
        """One node's cells, GPU by GPU, in the order of the probe's columns."""
        rows = self.rows(node)
        table: list[list[float | str | None]] = self.cells[:, rows].T.tolist()
        for k, row in enumerate(table):
            if self.lost[rows.start + k]:
                row[:] = [0, *[columns.LOST] * (len(row) - 1)]
        for (row_number, name), why in self.why.items():
            if rows.start <= row_number < rows.stop:
                table[row_number - rows.start][self._at[name]] = why
        return table
