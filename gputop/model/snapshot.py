"""Everything known about the cluster at one moment; what frames carry and every reader rebuilds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from gputop.model import columns
from gputop.model.actions import Action, Proposal
from gputop.model.calls import Abilities
from gputop.model.columns import GpuId, HostId, PortId
from gputop.model.findings import Blind, Finding
from gputop.model.hosts import Host, KernelLog, Link, ProcessList
from gputop.model.jobs import Job, JobLayout
from gputop.model.nodes import Node
from gputop.model.reading import Reading, Unknown, Why
from gputop.model.site import Partition, Reservation, Switch
from gputop.model.table import Table, empty_table


class Source(Struct, frozen=True, kw_only=True):
    """One thing we ask regularly, and how that goes."""

    name: str
    """slurm.nodes, slurm.jobs, slurm.site, probe."""
    period: float
    """Seconds between reads; older than two periods is stale."""
    read_at: Reading[float] = Unknown(Why.NOT_READ)
    """Epoch seconds of the last good read."""
    trouble: str = ""
    """What the last try ran into; "" when it went well."""

    def stale(self, now: float) -> bool:
        """Whether what came from it is too old to be called live."""
        return isinstance(self.read_at, Unknown) or now - self.read_at > 2 * self.period


class Reader(Struct, frozen=True, kw_only=True):
    """Somebody attached to the engine."""

    name: str
    since: float


class About(Struct, frozen=True, kw_only=True):
    """The engine and its cluster."""

    cluster: str
    version: str
    read_only: bool = False
    adapter: str = "commands"
    """How Slurm is asked, and from where."""
    started: float = 0.0
    account: str = ""
    pid: int = 0
    recording: str = ""
    """Path of the session log; "" when none can be written."""
    trouble: str = ""
    """What is wrong with the engine itself, such as a full disk."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """Immutable; a change gives a new one that shares what is unchanged. Mappings are never written to."""

    time: float = 0.0
    """The engine's clock when this was true."""
    about: About | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    layouts: Mapping[str, JobLayout] = field(default_factory=dict)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    switches: Mapping[str, Switch] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    klogs: Mapping[str, KernelLog] = field(default_factory=dict)
    processes: Mapping[str, ProcessList] = field(default_factory=dict)
    abilities: Abilities | None = None
    proposals: Mapping[str, Proposal] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    findings: Mapping[str, Finding] = field(default_factory=dict)
    blinds: Mapping[str, Blind] = field(default_factory=dict)
    readers: Mapping[str, Reader] = field(default_factory=dict)
    gpu_table: Table[GpuId] = field(default_factory=lambda: empty_table(columns.GPU))
    host_table: Table[HostId] = field(default_factory=lambda: empty_table(columns.HOST))
    port_table: Table[PortId] = field(default_factory=lambda: empty_table(columns.PORT))


MAPPINGS: dict[str, type] = {
    "sources": Source,
    "nodes": Node,
    "jobs": Job,
    "layouts": JobLayout,
    "partitions": Partition,
    "reservations": Reservation,
    "switches": Switch,
    "links": Link,
    "hosts": Host,
    "klogs": KernelLog,
    "processes": ProcessList,
    "proposals": Proposal,
    "actions": Action,
    "findings": Finding,
    "blinds": Blind,
    "readers": Reader,
}
"""Field of Snapshot -> type of its records; what a frame diffs record by record."""

TABLES = ("gpu_table", "host_table", "port_table")
"""Fields of Snapshot that are columns."""
