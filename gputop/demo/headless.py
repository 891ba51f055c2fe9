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

    def publish(snap: Snapshot) -> str:
        nonlocal seen
        for event in changes(seen, snap, round(clock.now() - EPOCH, 2)):
            tell(event)
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
    )
    fleet = WorldFleet(world, clock, engine.deliver, PERIODS.probe)

    async def send(command: Command) -> None:
        engine.channel.take("operator", command)

    operator = Operator(clock, send, lambda: engine.snap, notice)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(engine.observe()), group.create_task(fleet.run())]
            told = 0
            while not world.over:
                await clock.sleep(1.0)
                world.advance(clock.now())
                for happened in world.diary[told:]:
                    told += 1
                    tell(_line(happened.at, happened.kind, happened.says))
                    if happened.reaction:
                        tasks.append(group.create_task(operator.react(happened)))
            for task in tasks:
                task.cancel()
    finally:
        ledger.close()


def _line(at: float, kind: str, says: str) -> Event:
    return {"t": round(at, 2), "event": "fault", "kind": kind, "says": says}
