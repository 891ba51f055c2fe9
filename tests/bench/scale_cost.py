"""What an engine costs on simulated clusters of several sizes: real SSH servers, the simulator on the same machine."""

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from gputop.demo.live import Demo, engine_pid
from gputop.demo.scenario import load_scenario
from gputop.detect.passes import detect
from gputop.detect.registry import choose
from gputop.engine.launch import attach_or_start
from gputop.model.actions import Action, Intent, Kind
from gputop.model.commands import Approve, Propose
from gputop.model.health import gpu_troubles
from gputop.model.hosts import LinkState
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import apply
from gputop.stream.socket import Connection
from tests.bench.engine_cost import cpu, kib

SETTLE = 15.0
STEADY = 30.0

Figures = dict[str, float | str]


class Watcher:
    """Follows an engine, and remembers what it got."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.snap = Snapshot()
        self.frames = 0
        self.bytes = 0
        self.lost: dict[str, float] = {}
        """Node -> the engine's time at which a frame first showed that it lost a GPU."""
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for frame, payload in self.connection.payloads():
            self.snap = apply(self.snap if self.snap.time else None, frame)
            self.frames, self.bytes = self.frames + 1, self.bytes + len(payload)
            for name in gpu_troubles(self.snap.gpu_table):
                self.lost.setdefault(name, self.snap.time)
            self._news.set()

    async def until(self, check: Callable[[Snapshot], bool], seconds: float) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not check(self.snap):
                self._news.clear()
                await self._news.wait()

    async def act(self, intent: Intent, card: str) -> Action:
        """Proposes and approves; answers with the closed action."""
        await self.connection.send(Propose(id=card, intent=intent))
        await self.until(lambda s: card in s.proposals, 15)
        await self.connection.send(Approve(proposal=card))
        await self.until(lambda s: card in s.actions and not s.actions[card].open, 60)
        return self.snap.actions[card]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.connection.close()


def as_on_a_real_cluster(demo: Demo, more: str = "") -> None:
    """The usual periods, whatever the size; small demos are read more often."""
    kept = [line for line in demo.config.read_text().splitlines(keepends=True) if "period" not in line]
    demo.config.write_text("".join(kept) + more)


def read_nodes(snap: Snapshot) -> int:
    """Nodes whose GPUs have been read."""
    known = snap.host_table["gpus_read_at"].known()
    return int(known.sum())


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("state/*/log/*"))


LOST = str(Path(__file__).parent / "lost.toml")


def fault_to_frame(demo: Demo, watcher: Watcher) -> Figures:
    """Seconds from a GPU that is lost until a reader of the engine sees it."""
    times = [
        watcher.lost[fault.subject.split("/")[0]] - demo.began - fault.at
        for fault in load_scenario(LOST).faults
        if fault.subject.split("/")[0] in watcher.lost
    ]
    if not times:
        return {}
    says = f"{statistics.median(times):.1f} / {max(times):.1f} ({len(times)} of 10 seen)"
    return {"lost GPU to frame, median / worst s (budget 7: a period and 2)": says}


async def scale_figures(nodes: int, scenario: str = LOST, share: float = 1.0) -> Figures:
    """One size; share: of the nodes, how many can be read at all."""
    began = time.monotonic()
    demo = await asyncio.to_thread(Demo.start, scenario, nodes=nodes, seed=1)
    as_on_a_real_cluster(demo)
    figures: Figures = {"simulator up, s": round(time.monotonic() - began, 1)}
    try:
        began = time.monotonic()
        watcher = Watcher(await attach_or_start(demo.chosen, demo.config, read_only=False))
        await watcher.until(lambda s: len(s.nodes) == nodes, 30)
        figures["engine start to Slurm's view, s (budget 1)"] = round(time.monotonic() - began, 2)
        await watcher.until(lambda s: read_nodes(s) >= int(nodes * share), 120)
        figures["engine start to every readable node, s (budget 12)"] = round(time.monotonic() - began, 2)
        figures["nodes read"] = read_nodes(watcher.snap)
        pid = engine_pid(demo.folder)
        figures["engine CPU until then, s"] = round(cpu(pid), 2)
        figures.update(await _steady(demo, watcher, pid))
        figures.update(await _actions(watcher))
        if scenario == LOST:
            await asyncio.sleep(max(0.0, demo.began + 95 - watcher.snap.time))
            figures.update(fault_to_frame(demo, watcher))
        figures["one pass of all rules, median / worst ms (budget 50)"] = _pass(watcher.snap)
        figures["links"] = ", ".join(f"{count} {state}" for state, count in sorted(_links(watcher.snap).items()))
        await watcher.close()
    finally:
        await asyncio.to_thread(demo.close)
    return figures


def _pass(snap: Snapshot) -> str:
    """The rules over what the cluster looks like, in this process; the first pass parses logs and is counted."""
    rules = choose({})
    pasts: dict[str, object] = {}
    times = []
    for _ in range(20):
        began = time.perf_counter()
        pasts = dict(detect(snap, rules, pasts, snap.time).pasts)
        times.append(1000 * (time.perf_counter() - began))
    return f"{statistics.median(times):.1f} / {max(times):.1f}"


def _links(snap: Snapshot) -> dict[LinkState, int]:
    found: dict[LinkState, int] = {}
    for link in snap.links.values():
        found[link.state] = found.get(link.state, 0) + 1
    return found


async def _steady(demo: Demo, watcher: Watcher, pid: int) -> Figures:
    await asyncio.sleep(SETTLE)
    before = cpu(pid), cpu(demo.pid), watcher.frames, watcher.bytes, log_bytes(demo.folder)
    began = time.monotonic()
    await asyncio.sleep(STEADY)
    passed = time.monotonic() - began
    after = cpu(pid), cpu(demo.pid), watcher.frames, watcher.bytes, log_bytes(demo.folder)
    rate = [(b - a) / passed for a, b in zip(before, after, strict=True)]
    return {
        "engine, steady at 5 s, % of a core (budget 25 at 2,048)": round(100 * rate[0], 1),
        "engine, resident MB (budget 300 at 2,048)": round(kib(pid, "status", "VmRSS") / 1024),
        "simulator, % of a core": round(100 * rate[1], 1),
        "frames a second": round(rate[2], 1),
        "KB a second to a reader": round(rate[3] / 1000, 1),
        "session log a day, GB (budget 2 at 2,048)": round(rate[4] * 86_400 / 1e9, 2),
    }


async def _actions(watcher: Watcher) -> Figures:
    figures: Figures = {}
    job = next(job.id for job in watcher.snap.jobs.values() if job.running and job.requeueable)
    for number, intent in enumerate(
        (
            Intent(kind=Kind.DRAIN, target="gpu0002"),
            Intent(kind=Kind.RESUME, target="gpu0002"),
            Intent(kind=Kind.REQUEUE, target=job),
        )
    ):
        action = await watcher.act(intent, f"bench-{os.getpid()}-{number}")
        accepted = next((step.at for step in action.steps if step.phase == "accepted"), None)
        first = "never" if accepted is None else f"{accepted - action.asked_at:.2f}"
        last = f"{action.closed_at - action.asked_at:.2f}" if action.closed_at else "never"
        figures[f"{intent.kind}: key to accepted / confirmed, s (budget 1 / 5)"] = (
            f"{first} / {last} ({action.outcome})"
        )
    return figures
