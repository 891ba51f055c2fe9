"""The simulated Slurm prints for each history what a real one printed: golden files, recorded on the lab."""

import json
from pathlib import Path

import pytest

from gputop.demo.slurm.commands import Commands, Switch
from gputop.demo.slurm.controller import Controller, Settings
from gputop.demo.slurm.records import JobSpec, NodeRecord
from tests.demo.build import NOW
from tests.demo.histories import HISTORIES, Done, Play
from tests.demo.record import play_on_lab

GOLDEN = Path(__file__).parent / "golden"
NODES = 4
DEBUG = 2
"""Nodes that the lab has in a second partition."""


class SimulatedSide:
    """The simulated Slurm as a Side; time passes when a history waits."""

    def __init__(self) -> None:
        names = [f"gpu{k + 1:04}" for k in range(NODES)]
        records = [
            NodeRecord(
                name=name,
                partitions=("train", "debug") if k < DEBUG else ("train",),
                gpus=8,
                cpus=64,
                boot_time=NOW - 1e5,
            )
            for k, name in enumerate(names)
        ]
        # As the lab's slurm.conf has it.
        settings = Settings(slurmd_timeout=10.0, kill_wait=5.0, return_to_service=2)
        self.slurm = Controller(records, "train", NOW, settings)
        self._commands = Commands(self.slurm, [Switch("leaf01", tuple(names))])

    def submit(self, spec: JobSpec) -> str:
        return self.slurm.submit(spec).key.split("_")[0]

    def run(self, argv: tuple[str, ...]) -> Done:
        reply = self._commands.run(argv)
        return Done(reply.status, reply.stdout, reply.stderr)

    def wait(self, seconds: float) -> None:
        self.slurm.advance(self.slurm.now + seconds)

    def slurmd(self, node: str, *, up: bool) -> None:
        if up:
            self.slurm.slurmd_returns(node)
        else:
            self.slurm.slurmd_dies(node)

    def now(self) -> float:
        return self.slurm.now


@pytest.mark.parametrize("name", HISTORIES)
def test_the_simulated_slurm_prints_what_the_real_one_did(name: str) -> None:
    play = Play(SimulatedSide())
    HISTORIES[name](play)
    wanted = json.loads((GOLDEN / f"{name}.json").read_text())
    assert json.loads(json.dumps(play.notes)) == wanted


@pytest.mark.lab
@pytest.mark.parametrize("name", ["drain", "no_node_left"])
def test_the_real_slurm_still_prints_it(name: str) -> None:
    assert json.loads(json.dumps(play_on_lab(name))) == json.loads((GOLDEN / f"{name}.json").read_text())
