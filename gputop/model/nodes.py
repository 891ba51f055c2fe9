"""A node as Slurm describes it."""

from msgspec import Struct

from gputop.model.reading import Reading, Unknown, Why
from gputop.model.states import State

OUR_PREFIX = "gputop["
"""Reasons that start so are ours, and only those are ever undone without a typed word."""


class Reason(Struct, frozen=True, kw_only=True):
    """Why a node is out of service, who said so, and when."""

    text: str
    owner: str
    """User name, or "" where Slurm names nobody."""
    at: Reading[float]
    """Epoch seconds."""

    @property
    def ours(self) -> bool:
        return self.text.startswith(OUR_PREFIX)


class Node(Struct, frozen=True, kw_only=True):
    """One node of the cluster in Slurm's view."""

    name: str
    state: State
    partitions: tuple[str, ...] = ()
    gpus: int = 0
    """GPUs configured in GRES; 0 is a node without any."""
    gpu_type: str = ""
    gpus_allocated: Reading[int] = Unknown(Why.NOT_READ)
    """From GresUsed; Slurm says 0 while a job is still completing."""
    reason: Reason | None = None
    """None where the state has no use for one."""
    version: str = ""
    """slurmd release."""
    boot_time: Reading[float] = Unknown(Why.NOT_READ)
    """Epoch seconds, from the probe or from scontrol show node."""
    switch: str = ""
    """Leaf switch in Slurm's topology; "" where the site has none."""
