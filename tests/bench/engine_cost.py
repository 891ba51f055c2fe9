"""What an engine and its probes cost on a lab, and how soon things are seen and done."""

import asyncio
import os
import statistics
import subprocess
import time
from pathlib import Path

from gputop.model.actions import Action, Intent, Kind
from gputop.model.snapshot import Snapshot
from tests.lab.accounts import OPERATOR
from tests.lab.follow import Follower, configure, connect, start_engine
from tests.lab.lab import Lab

STEADY = 30.0
PERIOD = 5.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / TICKS


def kib(pid: int, file: str, key: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(key + ":")), 0)


def all_read(snap: Snapshot, count: int) -> bool:
    return len(snap.gpu_table) == 8 * count


async def measure(count: int) -> dict[str, float | str]:
    """One lab of so many nodes."""
    began = time.monotonic()
    with Lab(count) as lab:
        lab.start()
        figures: dict[str, float | str] = {"lab up, s": round(time.monotonic() - began, 1)}
        for person in ("root", OPERATOR):
            configure(lab.home(person), person, f"[clusters.{lab.slurm.cluster}]\nperiod = {PERIOD}\n")
        began = time.monotonic()
        process = start_engine(lab, OPERATOR)
        follower = await connect(lab, OPERATOR)
        try:
            await follower.until("Slurm", lambda s: len(s.nodes) == count, 30)
            figures["engine start to Slurm's view, s (budget 1)"] = round(time.monotonic() - began, 2)
            await follower.until("all nodes", lambda s: all_read(s, count), 120)
            figures["engine start to every GPU of every node, s"] = round(time.monotonic() - began, 2)
            figures.update(await _steady(lab, follower, process))
        finally:
            await follower.close()
            process.wait(20)
        process = start_engine(lab)
        follower = await connect(lab)
        try:
            await follower.until("Slurm", lambda s: len(s.nodes) == count, 30)
            figures.update(await _actions(lab, follower))
        finally:
            await follower.close()
            process.wait(20)
    return figures


async def _steady(lab: Lab, follower: Follower, process: "subprocess.Popen[bytes]") -> dict[str, float | str]:
    await asyncio.sleep(10)
    lab.rest()
    probes = [pid for node in list(lab.nodes.values())[:8] for pid in node.probes()]
    lab.ask("sdiag", "--reset")
    engine_before, probes_before, frames_before = cpu(process.pid), sum(map(cpu, probes)), len(follower.frames)
    began = time.monotonic()
    await asyncio.sleep(STEADY)
    passed = time.monotonic() - began
    engine_cpu = (cpu(process.pid) - engine_before) / passed
    probe_cpu = (sum(map(cpu, probes)) - probes_before) / passed / 8
    pss = [kib(pid, "smaps_rollup", "Pss") for pid in probes]
    snap = follower.snap
    calls = [v for row in range(len(snap.host_table)) if isinstance(v := snap.host_table.at(row, "nvml_calls"), float)]
    rpcs = [line for line in lab.ask("sdiag").splitlines() if "REQUEST_" in line and "count:" in line]
    asked = sum(int(line.split("count:")[1].split()[0]) for line in rpcs if "INFO" in line)
    return {
        f"engine, steady at {PERIOD:.0f} s, % of a core (budget 25 at 2,048)": round(100 * engine_cpu, 1),
        "engine, resident MB (budget 300 at 2,048)": round(kib(process.pid, "status", "VmRSS") / 1024),
        "frames a second": round((len(follower.frames) - frames_before) / passed, 1),
        "probe with its child, % of a core (budget 0.3)": round(100 * probe_cpu, 2),
        "probe with its child, PSS MB (budget 45; sharing pages with its likes here)": round(sum(pss) / 8 / 1024, 1),
        "NVML calls a sample (median, of 8 GPUs)": statistics.median(calls) if calls else "none read",
        "reading RPCs of Slurm in 10 s (budget 4)": round(asked / passed * 10, 1),
    }


async def _actions(lab: Lab, follower: Follower) -> dict[str, float | str]:
    job = lab.submit("--gpus-per-node=8")
    await follower.until("the job", lambda s: job in s.jobs and s.jobs[job].running, 60)
    figures: dict[str, float | str] = {}
    for intent in (
        Intent(kind=Kind.DRAIN, target="gpu0002"),
        Intent(kind=Kind.RESUME, target="gpu0002"),
        Intent(kind=Kind.REQUEUE, target=job),
    ):
        action = await follower.act(intent)
        figures[f"{intent.kind}: key to accepted / confirmed, s (budget 1 / 5)"] = _times(action)
    return figures


def _times(action: Action) -> str:
    accepted = next((step.at for step in action.steps if step.phase == "accepted"), None)
    first = "never" if accepted is None else f"{accepted - action.asked_at:.2f}"
    last = f"{action.closed_at - action.asked_at:.2f}" if action.closed_at else "never"
    return f"{first} / {last} ({action.outcome})"
