"""nvidia-smi --query-gpu on a simulated node, for what people run by hand or with clush."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputop.demo.kernel import bus
from gputop.demo.messages import uuid

if TYPE_CHECKING:
    from gputop.demo.world import World

_FIELDS = {
    "temperature.gpu": "temp", "power.draw": "power", "power.limit": "power_limit", "clocks.current.sm": "sm_clock",
    "clocks.sm": "sm_clock", "utilization.gpu": "util", "utilization.memory": "mem_util", "memory.used": "mem_used",
    "memory.total": "mem_total", "ecc.errors.uncorrected.volatile.total": "ecc_unc",
    "pcie.link.width.current": "pcie_width", "pcie.link.gen.current": "pcie_gen",
}  # fmt: skip
_QUERY = re.compile(r"^nvidia-smi +--query-gpu=(\S+)(?: +--format=(\S+))?$")


def answer(world: "World", node: int, command: str) -> tuple[int, str] | None:
    """(exit status, output); None for a command that is not such a query."""
    found = _QUERY.match(command.strip())
    if found is None:
        return None
    fields, options = found[1].split(","), (found[2] or "").split(",")
    machine, hardware = world.machines[node], world.hardware
    texts: dict[str, Callable[[int], str]] = {
        "index": str,
        "uuid": lambda gpu: uuid(node, gpu),
        "pci.bus_id": lambda gpu: f"0000{bus(gpu).upper()}.0",
        "name": lambda _gpu: "NVIDIA H100 80GB HBM3",
        "driver_version": lambda _gpu: machine.driver,
        **{
            field: lambda gpu, column=column: str(hardware.column(column)[hardware.rows(node)][gpu])  # type: ignore[misc]
            for field, column in _FIELDS.items()
        },
    }
    for field in fields:
        if field not in texts:
            return 2, f'Field "{field}" is not a valid field to query.\n'
    lost = [gpu for gpu in range(hardware.per_node) if hardware.lost[hardware.rows(node)][gpu]]
    if lost:
        where = bus(lost[0]).upper()
        return 15, f"Unable to determine the device handle for GPU0000{where}.0: Unknown Error\n"
    head = [] if "noheader" in options else [", ".join(fields)]
    lines = [", ".join(texts[field](gpu) for field in fields) for gpu in range(hardware.per_node)]
    return 0, "\n".join([*head, *lines]) + "\n"
