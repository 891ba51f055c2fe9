"""Scenarios: what goes wrong on a simulated cluster, when, and what the right reaction is. TOML, checked on reading."""

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from gputop.demo.faults import KINDS
from gputop.demo.subjects import SubjectError, parse_subject
from gputop.model.errors import ConfigError

Seconds = Annotated[float, Meta(ge=0)]
Reaction = Literal["drain", "resume", "requeue", "requeue-excluding", "hold"]
GUIDED = "guided"
_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,40}$")


class ScenarioJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that the scenario needs, under [[jobs]]."""

    name: str
    user: str = "alice"
    at: Seconds = 0.0
    """When it is submitted; those of 0 run already when one looks first."""
    nodes: Annotated[int, Meta(ge=1)] = 1
    gpus: Annotated[int, Meta(ge=0, le=8)] = 8
    """GPUs on each node."""
    hours: Annotated[float, Meta(gt=0)] = 24.0
    """How long it would run."""
    age_hours: Annotated[float, Meta(ge=0)] = 0.0
    """How long it has been running when the scenario begins."""
    array: str = ""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    checkpoint_minutes: Annotated[float, Meta(gt=0)] = 30.0
    requeue: bool = True
    partition: str = ""


class ScenarioFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that happens, under [[faults]]."""

    at: Seconds
    kind: str
    subject: str
    """gpu0007, gpu0007/3 (a GPU), gpu0007/mlx5_2 (a port), job:NAME, job:NAME/2 (its third node), job:NAME/2/5, leaf02,
    5% (of the nodes), idle, all, slurmctld."""
    strength: float | None = None
    """What it means is said with each kind; None is the kind's own."""
    lasts: Seconds = 0.0
    """Seconds until it is over; 0 is until somebody repairs it."""
    text: str = ""
    """For kinds with words: the reason of a drain, the class of a crash."""
    reaction: tuple[Reaction, ...] = ()
    """What the right reaction is, in order; nothing for what should be left alone."""


class GuideStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line that tells what to press next, under [[guide]]."""

    say: str
    after: Seconds = 0.0
    """It is not said before that time of the scenario."""
    node: str = ""
    job: str = ""
    """By name."""
    until: Literal["drained", "in service", "restarted", "held", "read"] = "read"
    """When it is done: the node drains, or is back in service; the job ran again, or is held; or it was there for
    `reads` seconds."""
    reads: Seconds = 15.0


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    about: str
    seconds: Annotated[float, Meta(gt=0)]
    """How long it goes."""
    nodes: Annotated[int, Meta(ge=1, le=9999)] = 64
    """The size of the cluster where none is asked for."""
    least_nodes: Annotated[int, Meta(ge=1)] = 1
    busy: Annotated[float, Meta(ge=0, le=1)] = 0.9
    """The share of the nodes that other jobs keep busy."""
    jobs: tuple[ScenarioJob, ...] = ()
    faults: tuple[ScenarioFault, ...] = ()
    guide: tuple[GuideStep, ...] = ()
    name: str = field(default="")
    """Not in the file: the file's name."""


def shipped() -> dict[str, str]:
    """Name -> text of the scenarios that come with gputop."""
    folder = resources.files("gputop.demo") / "scenarios"
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda one: one.name)
        if entry.name.endswith(".toml")
    }


def load_scenario(name: str) -> Scenario:
    """A shipped one by its name, or a file; raises ConfigError that names file, key and what was expected."""
    own = shipped()
    if name in own:
        return parse_scenario(own[name], name)
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"no scenario {name!r}: give a file, or one of {', '.join(own)}")
    try:
        return parse_scenario(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read: {error}") from error


def parse_scenario(text: str, where: str) -> Scenario:
    """Reads and checks; where names the text in errors."""
    try:
        scenario = msgspec.convert({"name": Path(where).stem, **tomllib.loads(text)}, Scenario)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from error
    except msgspec.ValidationError as error:
        what, _, key = str(error).partition(" - at ")
        raise ConfigError(f"{where}: {key.strip('`').removeprefix('$.')}: {what[:1].lower()}{what[1:]}") from error
    for number, fault in enumerate(scenario.faults):
        _check_fault(fault, f"{where}: faults[{number}]")
    return scenario


def _check_fault(fault: ScenarioFault, where: str) -> None:
    kind = KINDS.get(fault.kind)
    if kind is None:
        raise ConfigError(f"{where}.kind: no kind {fault.kind!r}; there is: {', '.join(sorted(KINDS))}")
    try:
        subject = parse_subject(fault.subject)
    except SubjectError as error:
        raise ConfigError(f"{where}.subject: {error}") from error
    if not subject.can_be(kind.about):
        raise ConfigError(f"{where}.subject: {fault.kind} happens to a {kind.about}; got {fault.subject!r}")
    if kind.words and fault.text and fault.text not in kind.words:
        raise ConfigError(f"{where}.text: expected one of {', '.join(kind.words)}; got {fault.text!r}")
