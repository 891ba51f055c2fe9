"""Whom a fault of a scenario strikes: parsed once, resolved when it strikes."""

import re
from dataclasses import dataclass
from typing import Literal

About = Literal["gpu", "node", "port", "job", "slurmctld"]
_PATH = re.compile(r"^([A-Za-z0-9_.-]+)(?:/(\d|mlx5_\d))?$")
_SHARE = re.compile(r"^(\d+(?:\.\d+)?)%$")
_JOB = re.compile(r"^job:([^/]+)(?:/(\d+))?(?:/(\d|mlx5_\d))?$")


class SubjectError(ValueError):
    """A subject that nobody understands, or that is not there."""


@dataclass(frozen=True)
class Selector:
    """A subject as it is written."""

    text: str
    name: str = ""
    """A node, a leaf switch, idle, all, or slurmctld."""
    share: float = 0.0
    """Or so many percent of the nodes, of those that are well."""
    job: str = ""
    place: int | None = None
    """Which of the job's nodes, from 0."""
    part: str = ""
    """A GPU's index or a port's device."""

    def can_be(self, about: About) -> bool:
        """Whether it can name such a thing; a node stands for all its GPUs and ports, a job for its first node."""
        if (about == "slurmctld") != (self.name == "slurmctld"):
            return False
        if about == "job":
            return bool(self.job) and self.place is None
        if about == "port":
            return not self.part.isdigit()
        if about == "gpu":
            return not self.part.startswith("mlx5")
        return not self.part


@dataclass(frozen=True)
class Subject:
    """What it is at the moment it strikes."""

    nodes: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    """Indices on each of the nodes."""
    ports: tuple[int, ...] = ()
    job: str = ""
    """Key of the job."""
    says: str = ""


def parse_subject(text: str) -> Selector:
    """Raises SubjectError."""
    if found := _JOB.match(text):
        name, place, part = found.groups()
        return Selector(text, job=name, place=None if place is None else int(place), part=part or "")
    if found := _SHARE.match(text):
        return Selector(text, share=float(found[1]))
    if found := _PATH.match(text):
        return Selector(text, name=found[1], part=found[2] or "")
    raise SubjectError(
        f"expected a node, node/GPU, node/mlx5_N, job:NAME, job:NAME/PLACE, a leaf switch, N%, idle, all or slurmctld; "
        f"got {text!r}"
    )
