"""The lab's own look at Slurm: GPUs and links work where a job has them, and a node told to reboot does so."""

import re
import subprocess
import threading
from collections.abc import Callable, Mapping

from tests.lab.needs import program
from tests.lab.nodes import LabNode
from tests.lab.processes import collect, orphan_zombies
from tests.lab.slurm import LabSlurm

_INDICES = re.compile(r"IDX:([0-9,-]+)")

WORDS = 6_000_000_000
"""What a busy GPU's port carries in a second, in units of four bytes: 24 GB/s."""


class Load:
    """A thread that looks at Slurm every second."""

    def __init__(self, slurm: LabSlurm, nodes: Mapping[str, LabNode], reboot: Callable[[str], None]) -> None:
        self._slurm = slurm
        self._nodes = nodes
        self._reboot = reboot
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="lab load")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(15)

    def _run(self) -> None:
        dead: set[int] = set()
        while not self._over.wait(1.0):
            before, dead = dead, orphan_zombies()
            collect(before & dead)
            for asked in (self._slurm.base / "reboots").iterdir():
                asked.unlink()
                self._reboot(asked.name)
            try:
                done = subprocess.run(
                    [program("sinfo"), "-h", "-N", "-p", "train", "-O", "NodeList:60,GresUsed:200"],
                    capture_output=True,
                    text=True,
                    env=self._slurm.env,
                    timeout=12,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                continue
            for line in done.stdout.splitlines():
                name, _, used = line.partition(" ")
                if name in self._nodes:
                    busy = indices(used)
                    self._nodes[name].put({f"gpu.{k}.load": "1" if k in busy else None for k in range(8)})
                    for k in busy:
                        self._nodes[name].move_data(k, WORDS)


def indices(used: str) -> set[int]:
    """GPU indices in GresUsed."""
    found = _INDICES.search(used)
    busy: set[int] = set()
    for part in found.group(1).split(",") if found else ():
        low, _, high = part.partition("-")
        if low.isdigit():
            busy.update(range(int(low), int(high or low) + 1))
    return busy
