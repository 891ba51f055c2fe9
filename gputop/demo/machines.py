"""The simulated hosts around the GPUs: reachability, clocks, load, disks, drivers, InfiniBand ports, kernel logs."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from gputop.demo.hardware import Floats, Ints

PORTS = 8
CPUS = 192
MEMORY_MIB = 2_063_000
DRIVER = ("590.48.01", "13.1")
"""Driver release, and the CUDA version that it supports."""
LINE_RATE = 400
KEEP_LINES = 200


class Reach(StrEnum):
    """How a host answers whoever comes by SSH."""

    UP = "up"
    REFUSED = "refused"
    """Nobody listens on the port."""
    SILENT = "silent"
    """Packets arrive and nothing comes back."""
    DENIED = "denied"
    """The key is right, and a policy lets nobody in who has no job there."""


@dataclass(kw_only=True)
class Machine:
    """One host."""

    name: str
    boot_time: float
    boot: int = 1
    """Counts its boots."""
    reach: Reach = Reach.UP
    skew: float = 0.0
    """Its clock less the right time."""
    driver: str = DRIVER[0]
    hung_since: float = 0.0
    """When its driver stopped answering; 0 while it answers."""
    blocked: int = 0
    disk_used: float = 31.0
    extra_load: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)
    """The newest of the kernel's log since the boot: (epoch seconds, text)."""
    logged: int = 0
    """Lines since the boot."""

    def log(self, at: float, text: str) -> None:
        """The kernel writes a line, by its own clock."""
        self.lines.append((at + self.skew, text))
        self.logged += 1
        del self.lines[:-KEEP_LINES]


class Ports:
    """The InfiniBand ports of all hosts; port p of node n is row n * PORTS + p."""

    def __init__(self, nodes: int, random: np.random.Generator) -> None:
        count = nodes * PORTS
        self._random = random
        self.state: Ints = np.full(count, 4, np.int64)
        self.rate: Ints = np.full(count, LINE_RATE, np.int64)
        self.downs: Ints = np.zeros(count, np.int64)
        self.symbol_errors: Ints = np.zeros(count, np.int64)
        self.moved: Floats = np.zeros(count)
        """Data received, in units of 4 bytes; about as much is sent."""

    def step(self, busy: Floats, seconds: float) -> None:
        """busy: how hard each node's GPUs compute, 0 to 1; synchronous training moves about 30 GB/s a port."""
        per_port = np.repeat(busy, PORTS) * 30e9 / 4 * seconds
        self.moved += np.where(self.state == 4, per_port * self._random.normal(1.0, 0.03, len(per_port)), 0.0)

    def set_down(self, row: int) -> None:
        if self.state[row] == 4:
            self.state[row] = 1
            self.downs[row] = min(255, self.downs[row] + 1)

    def set_up(self, row: int) -> None:
        self.state[row] = 4

    def cells(self, row: int) -> list[float | str | None]:
        """In the order of the probe's columns."""
        up = self.state[row] == 4
        moved = int(self.moved[row])
        return [
            int(self.state[row]), 5 if up else 2, int(self.rate[row]) if up else 10, int(self.downs[row]),
            0, int(self.symbol_errors[row]), 0, 0, 0, 0, moved, moved,
        ]  # fmt: skip


def jitter(node: int, second: int) -> float:
    """A small noise in -0.5 to 0.5 that needs no state."""
    return ((node * 7_919 + second * 104_729) % 1009) / 1009 - 0.5
