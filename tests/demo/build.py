"""Small worlds for tests."""

from gputop.demo.changes import Event
from gputop.demo.headless import play
from gputop.demo.scenario import Scenario, parse_scenario
from gputop.demo.slurm.controller import Controller, Settings
from gputop.demo.slurm.records import NodeRecord
from gputop.demo.world import World

NOW = 1_800_000_000.0
HEAD = 'about = "a test"\nseconds = 600\nnodes = 8\nbusy = 0\n'
JOB = '[[jobs]]\nname = "train"\nnodes = 2\nhours = 50\nage_hours = 3\n'


def scenario(text: str = "", head: str = HEAD) -> Scenario:
    return parse_scenario(head + text, "test.toml")


def fault(kind: str, subject: str, at: float = 10.0, **more: object) -> str:
    def value(one: object) -> str:
        return repr(one).replace("'", '"') if not isinstance(one, tuple) else str(list(one)).replace("'", '"')

    lines = "".join(f"{key} = {value(one)}\n" for key, one in more.items())
    return f'[[faults]]\nat = {at}\nkind = "{kind}"\nsubject = "{subject}"\n{lines}'


def world(text: str = "", *, nodes: int = 8, seed: int = 1) -> World:
    return World(scenario(text), nodes=nodes, seed=seed, now=NOW)


def played(text: str, *, nodes: int = 8, seed: int = 1) -> list[Event]:
    """All events of a scenario in virtual time."""
    events: list[Event] = []
    play(scenario(text), nodes=nodes, seed=seed, tell=events.append)
    return events


def controller(nodes: int = 4, **settings: float) -> Controller:
    records = [
        NodeRecord(name=f"gpu{k + 1:04}", partitions=("train",), gpus=8, cpus=64, boot_time=NOW - 1e5)
        for k in range(nodes)
    ]
    return Controller(records, "train", NOW, Settings(**settings))  # type: ignore[arg-type]
