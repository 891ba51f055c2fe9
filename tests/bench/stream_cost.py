"""What frames and the session log cost at size: random walks over a fleet, through diff, encode, apply and zstd."""

import time
from dataclasses import replace

import numpy as np
import zstandard

from gputop.model.columns import GPU, GpuId, HostId
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import apply, decode, diff, encode, keyframe

TICKS = 40
SECONDS = 0.5
PERIOD = 5.0


def fleet(nodes: int) -> Snapshot:
    """Everything known and quiet."""
    names = [f"gpu{k:04}" for k in range(nodes)]
    snap = Snapshot(time=1_800_000_000.0)
    ids = {
        8 * k + g: GpuId(node=name, index=g, uuid=f"GPU-{k:08}-{g}", pci=f"0000:{g:02x}:00")
        for k, name in enumerate(names)
        for g in range(8)
    }
    gpus = snap.gpu_table.with_ids(ids)
    rows, known = np.arange(len(gpus)), np.zeros(len(gpus), np.uint8)
    gpus = gpus.with_values(rows, {spec.name: (np.full(len(gpus), 1.0), known) for spec in GPU})
    hosts = snap.host_table.with_ids({k: HostId(node=name) for k, name in enumerate(names)})
    return replace(snap, gpu_table=gpus, host_table=hosts)


def later(snap: Snapshot, tick: int, nodes: int, random: np.random.Generator) -> Snapshot:
    """The next half second: a tenth of the nodes report, their GPUs a little different."""
    some = np.arange(tick % 10, nodes, 10)
    rows = (some[:, None] * 8 + np.arange(8)).ravel()
    zeros = np.zeros(len(rows), np.uint8)
    values = {
        "temp": (np.round(60 + 5 * random.standard_normal(len(rows))), zeros),
        "power": (np.round(600 + 40 * random.standard_normal(len(rows))), zeros),
        "util": (np.round(95 + 3 * random.standard_normal(len(rows))), zeros),
        "mem_util": (np.round(45 + 5 * random.standard_normal(len(rows))), zeros),
        "temp_margin": (np.round(25 + 5 * random.standard_normal(len(rows))), zeros),
        "temp_mem": (np.round(70 + 3 * random.standard_normal(len(rows))), zeros),
        "sm_clock": (np.where(random.random(len(rows)) < 0.9, 1980.0, 1965.0), zeros),
        "sw_power_us": (np.floor(1e9 + tick * 1e5 + 1e4 * random.random(len(rows))), zeros),
    }
    now = snap.time + SECONDS
    few = np.zeros(len(some), np.uint8)
    at = np.full(len(some), now)
    hosts = snap.host_table.with_values(
        some,
        {
            "sampled_at": (at - random.random(len(some)) * 0.5, few),
            "gpus_read_at": (at - random.random(len(some)) * 0.5, few),
            "load": (8 + random.standard_normal(len(some)), few),
            "cpu_busy": (10 + random.standard_normal(len(some)), few),
            "mem_available": (np.round(1e6 + 1e3 * random.standard_normal(len(some))), few),
            "nvml_ms": (np.round(12 + random.standard_normal(len(some))), few),
        },
    )
    return replace(snap, time=now, gpu_table=snap.gpu_table.with_values(rows, values), host_table=hosts)


def stream_figures(nodes: int) -> dict[str, float | str]:
    """Milliseconds a frame, bytes, and gigabytes a day."""
    random = np.random.default_rng(1)
    snap = fleet(nodes)
    reader = apply(None, keyframe(snap, 0))
    whole = encode(keyframe(snap, 0))
    making = reading = 0.0
    raw = []
    for tick in range(TICKS):
        after = later(snap, tick, nodes, random)
        began = time.perf_counter()
        payload = encode(diff(snap, after, tick))
        making += time.perf_counter() - began
        began = time.perf_counter()
        reader = apply(reader, decode(payload))
        reading += time.perf_counter() - began
        raw.append(payload)
        snap = after
    blocks = [b"".join(raw[k : k + 4]) for k in range(0, TICKS, 4)]
    packed = sum(len(zstandard.ZstdCompressor(level=3).compress(block)) for block in blocks)
    key_packed = len(zstandard.ZstdCompressor(level=3).compress(whole))
    day = packed / (TICKS * SECONDS) * 86_400 + key_packed * 288
    return {
        "diff and encode a frame of a tenth of the nodes, ms": round(1000 * making / TICKS, 2),
        "decode and apply it, ms": round(1000 * reading / TICKS, 2),
        "frame, bytes (mean)": round(sum(map(len, raw)) / TICKS),
        "keyframe, bytes / packed": f"{len(whole)} / {key_packed}",
        f"session log a day at {PERIOD:.0f} s, GB (budget 2; walks made up)": round(day / 1e9, 2),
    }
