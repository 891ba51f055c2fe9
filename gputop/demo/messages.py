"""What the probe on a simulated host says: the messages of `gputop/probe/`, filled with simulated readings."""

from typing import TYPE_CHECKING, Any

from gputop.demo.kernel import bus
from gputop.demo.machines import CPUS, DRIVER, MEMORY_MIB, PORTS, jitter
from gputop.probe import columns

if TYPE_CHECKING:
    from gputop.demo.world import World

NVML_CALLS = 112
STUCK_PERIODS = 2
PORTS_EVERY = 2
PROCESSES_EVERY = 12
"""Samples between two reads, as the probe does it."""

Message = dict[str, Any]


def hello(world: "World", node: int) -> Message:
    machine = world.machines[node]
    return {
        "type": "hello",
        "version": 1,
        "hostname": machine.name,
        "user": "root",
        "python": "3.10.12",
        "kernel": "5.15.0-131-generic",
        "boot_id": f"{node:08x}-{machine.boot:04x}-4000-8000-000000000000",
        "boot_time": machine.boot_time + machine.skew,
        "gpu_columns": columns.GPU,
        "port_columns": columns.PORT,
        "host_columns": columns.HOST,
        "mode": "probe",
    }


def driver(world: "World", node: int) -> Message:
    machine = world.machines[node]
    return {"type": "driver", "driver": machine.driver, "cuda": DRIVER[1], "nvml": f"13.{machine.driver}", "detail": ""}


def kernel(world: "World", node: int, sent: int | None) -> Message | None:
    """Lines that are new since so many were sent; None when there are none. A session that sent none yet gets all."""
    machine = world.machines[node]
    if sent is not None and sent >= machine.logged:
        return None
    fresh = len(machine.lines) if sent is None else min(machine.logged - sent, len(machine.lines))
    lines = machine.lines[len(machine.lines) - fresh :]
    return {
        "type": "kernel",
        "source": "journalctl",
        "why": "",
        "detail": "",
        "reset": sent is None,
        "lines": [[round(at, 3), text] for at, text in lines],
        "dropped": 0,
    }


def sample(world: "World", node: int, seq: int, period: float) -> Message:
    """A hang is said, as by the probe, once the unanswered pass is two periods old."""
    machine = world.machines[node]
    mono = world.now - machine.boot_time
    hung = machine.hung_since > 0
    said = hung and world.now - machine.hung_since > STUCK_PERIODS * period
    message: Message = {
        "type": "sample",
        "seq": seq,
        "mono": round(mono, 3),
        "wall": round(world.now + machine.skew, 3),
        "host": _host(world, node, hung=hung),
        "ports": None,
        "gpus": None,
        "gpus_mono": None,
        "hung_since": round(machine.hung_since - machine.boot_time, 3) if said else None,
        "processes": None,
    }
    if seq % PORTS_EVERY == 1:
        message["ports"] = [_port(world, node, port) for port in range(PORTS)]
    if not hung:
        message["gpus"] = [_gpu(node, k, cells) for k, cells in enumerate(world.hardware.readings(node))]
        message["gpus_mono"] = round(mono - 0.02, 3)
        if seq % PROCESSES_EVERY == 1:
            message["processes"] = _processes(world, node)
    return message


def _gpu(node: int, index: int, cells: list[float | str | None]) -> Message:
    return {
        "index": index,
        "uuid": uuid(node, index),
        "pci": bus(index),
        "name": "NVIDIA H100 80GB HBM3",
        "serial": f"16523{node:05}{index:02}",
        "vbios": "96.00.CF.00.01",
        "cells": cells,
    }


def uuid(node: int, index: int) -> str:
    return f"GPU-{node:08x}-{index:04x}-4d5e-9a7b-{(node * 8 + index) * 2_654_435_761 % (1 << 48):012x}"


def _port(world: "World", node: int, port: int) -> Message:
    return {
        "device": f"mlx5_{port}",
        "port": 1,
        "link_layer": "InfiniBand",
        "netdev": f"ib{port}",
        "cells": world.ports.cells(world.port_row(node, port)),
    }


def _host(world: "World", node: int, *, hung: bool) -> list[float | str | None]:
    """In the order of the probe's columns."""
    machine = world.machines[node]
    noise = jitter(node, int(world.now) // 5)
    jobs = world.jobs_on(node)
    load = 1.5 + 22.0 * bool(jobs) + machine.extra_load + machine.blocked + 2 * noise
    busy = min(100.0, 100 * load / CPUS)
    used = 60_000 + 410_000 * bool(jobs)
    return [
        round(load, 1), CPUS, round(busy), MEMORY_MIB, MEMORY_MIB - used, 0, machine.blocked, 0,
        machine.disk_used, 4.0, columns.TIMED_OUT if hung else round(14 + 3 * noise), NVML_CALLS,
        round((world.now - world.began) * 0.6),
    ]  # fmt: skip


def _processes(world: "World", node: int) -> list[Message]:
    found = []
    for job in world.jobs_on(node):
        for gpu in world.slurm.nodes[world.names[node]].jobs[job.key]:
            memory = int(world.hardware.column("mem_used")[world.hardware.rows(node)][gpu])
            found.append(
                {
                    "gpu": uuid(node, gpu),
                    "pid": 48_000 + gpu,
                    "name": "python3",
                    "user": job.spec.user,
                    "memory_mib": memory,
                }
            )
    return found
