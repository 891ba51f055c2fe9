"""A healthy node as a snapshot, with readings changed one by one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gputop.detect.passes import Passed, detect
from gputop.detect.registry import choose
from gputop.model.columns import GPU, GpuId, HostId, PortId
from gputop.model.hosts import Host, KernelLine, KernelLog, Link, LinkState
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot, Source
from gputop.model.states import State

NOW = 1_800_000_000.0
BOOT = NOW - 86_400.0
WELL = {
    "present": 1, "temp": 60, "power": 600, "sm_clock": 1980, "util": 99, "mem_util": 40, "clock_reasons": 0,
    "hw_thermal_us": 0, "power_brake_us": 0, "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16,
    "ecc_unc": 0, "sram_threshold": 0, "remap_pending": 0, "remap_failed": 0, "retired_pending": 0,
    "recovery_action": 0, "fabric_state": 3, "nvlinks_up": 18, "nvlinks": 18,
}  # fmt: skip
HOST_WELL = {"clock_skew": 0.0, "blocked": 0.0, "disk_used": 30.0}


def snap(
    gpus: Mapping[int, Mapping[str, float]] | None = None,
    *,
    now: float = NOW,
    host: Mapping[str, float] | None = None,
    lines: tuple[str, ...] = (),
    port_state: float = 4,
    read_at: float | None = None,
    link: LinkState = LinkState.UP,
) -> Snapshot:
    """Node n1 with eight GPUs and a port; gpus: GPU -> readings that differ."""
    at = now if read_at is None else read_at
    empty = Snapshot(time=now)
    table = empty.gpu_table.with_ids({k: GpuId(node="n1", index=k, pci=f"0000:{k:02x}:00") for k in range(8)})
    values = {
        name: (np.array([float((gpus or {}).get(k, {}).get(name, well)) for k in range(8)]), np.zeros(8, np.uint8))
        for name, well in WELL.items()
    }
    assert set(values) <= {spec.name for spec in GPU}
    readings = {**HOST_WELL, "sampled_at": at, "gpus_read_at": at, **(host or {})}
    one = np.zeros(1, np.uint8)
    return replace(
        empty,
        sources={"probe": Source(name="probe", period=5.0, read_at=at)},
        nodes={"n1": Node(name="n1", state=State("idle"), gpus=8)},
        links={"n1": Link(state=link, since=NOW - 50, detail="")},
        hosts={"n1": Host(hostname="n1", boot_time=BOOT)},
        klogs={"n1": KernelLog(source="journalctl", lines=tuple(KernelLine(NOW - 60, text) for text in lines))},
        gpu_table=table.with_values(np.arange(8), values),
        host_table=empty.host_table.with_ids({0: HostId(node="n1")}).with_values(
            np.array([0]), {name: (np.array([value]), one) for name, value in readings.items()}
        ),
        port_table=empty.port_table.with_ids({0: PortId(node="n1", device="mlx5_0", port=1)}).with_values(
            np.array([0]), {"state": (np.array([port_state]), one)}
        ),
    )


def passes(*snaps: Snapshot, rules: Mapping[str, Mapping[str, float | bool]] | None = None) -> Passed:
    """All rules over one snapshot after the other, each with what the last left behind."""
    passed = Passed({}, {}, {})
    for one in snaps:
        seen = replace(one, findings=passed.findings, blinds=passed.blinds)
        passed = detect(seen, choose(rules or {}), passed.pasts, one.time)
    return passed


def codes(passed: Passed) -> list[str]:
    return sorted({one.rule for one in passed.findings.values()})
