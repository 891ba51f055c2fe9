"""A scenario in virtual time: the real engine on the simulated cluster, and its events as they happen."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from gputop.demo.changes import Event, changes
from gputop.demo.in_process import WorldCommands, WorldFleet
from gputop.demo.operator import NOTICE_SECONDS, Operator
from gputop.demo.scenario import Scenario
from gputop.demo.virtual import VirtualClock, run
from gputop.demo.world import World
from gputop.detect.registry import choose
from gputop.engine.engine import Engine
from gputop.engine.periods import Periods
from gputop.model.commands import Command
from gputop.model.snapshot import About, Snapshot
from gputop.recover.ledger import Ledger
from gputop.sources.slurm.commands import SlurmCommands

EPOCH = 1_800_000_000.0
"""When a virtual day begins; the same for every run."""
PERIODS = Periods(probe=5.0, slurm=10.0, site=300.0)

Tell = Callable[[Event], None]


def play(scenario: Scenario, *, nodes: int, seed: int, tell: Tell, notice: float = NOTICE_SECONDS) -> None:
    """Runs to the scenario's end; every fault, change and decision is told with its second.

    notice: seconds from a fault until the scripted operator reacts.
    """
    world = World(scenario, nodes=nodes, seed=seed, now=EPOCH)
    with tempfile.TemporaryDirectory(prefix="gputop-demo-") as folder:
        run(_play(world, Path(folder), tell, notice))


async def _play(world: World, folder: Path, tell: Tell, notice: float) -> None:
    clock = VirtualClock(EPOCH)
    ledger = Ledger(folder / "ledger.sqlite")
    seen = Snapshot()

    waiting: list[Event] = []

    def publish(snap: Snapshot) -> str:
        nonlocal seen
        waiting.extend(changes(seen, snap, round(clock.now() - EPOCH, 2)))
        seen = snap
        return ""

    engine = Engine(
        about=About(cluster="demo", version="demo", adapter="commands, login", started=EPOCH),
        periods=PERIODS,
        host_pattern="{node}",
        clock=clock,
        scheduler=SlurmCommands(WorldCommands(world, clock), prefix=(), clock=clock),
        follow=lambda hosts: fleet.follow(hosts),
        publish=publish,
        ledger=ledger,
        rules=choose({}),
    )
    fleet = WorldFleet(world, clock, engine.deliver, PERIODS.probe)

    async def send(command: Command) -> None:
        engine.channel.take("operator", command)

    operator = Operator(clock, send, lambda: engine.snap, notice)
    tasks = [asyncio.create_task(engine.observe()), asyncio.create_task(fleet.run())]
    told = 0
    try:
        while not world.over:
            await clock.sleep(1.0)
            world.advance(clock.now())
            for happened in world.diary[told:]:
                waiting.append(_line(happened.at, happened.kind, happened.says))
                if happened.reaction:
                    tasks.append(asyncio.create_task(operator.react(happened)))
            told = len(world.diary)
            for task in tasks:
                if task.done():
                    task.result()
            # Told from here, so that a listener that is gone ends the play and not a task of the engine's.
            for event in sorted(waiting, key=lambda one: float(one["t"])):
                tell(event)
            waiting.clear()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        ledger.close()


def _line(at: float, kind: str, says: str) -> Event:
    return {"t": round(at, 2), "event": "fault", "kind": kind, "says": says}
