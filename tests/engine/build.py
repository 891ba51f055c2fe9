"""Builders with defaults for the engine's tests; one fixed NOW."""

from gputop.engine.state import State
from gputop.model.columns import GPU, PORT
from gputop.model.facts import Heard
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.sample import Cell, GpuRow, Hello, Message, Sample
from gputop.model.snapshot import About, Snapshot, Source
from gputop.model.states import State as SlurmState

NOW = 1_800_000_000.0
GPU_NAMES = tuple(spec.name for spec in GPU)
HOST_NAMES = ("load", "mem_total")
PORT_NAMES = tuple(spec.name for spec in PORT)


def start() -> State:
    """An engine that has read nothing yet."""
    sources = {
        name: Source(name=name, period=period)
        for name, period in (("slurm.nodes", 10.0), ("slurm.jobs", 10.0), ("slurm.site", 300.0), ("probe", 5.0))
    }
    return State(snap=Snapshot(time=NOW, about=About(cluster="test", version="0"), sources=sources))


def node(name: str = "gpu0001", state: str = "idle", gpus: int = 8) -> Node:
    base, *flags = state.split("+")
    return Node(name=name, state=SlurmState(base, frozenset(flags)), gpus=gpus, partitions=("train",))


def job(job_id: str = "7", state: str = "running", nodes: tuple[str, ...] = ("gpu0001",), gpus: int = 8) -> Job:
    return Job(id=job_id, raw_id=job_id, state=SlurmState(state), nodes=nodes, gpus=gpus, start_time=NOW - 60)


def hello(**more: object) -> Hello:
    facts: dict[str, object] = {
        "version": 1,
        "hostname": "gpu0001",
        "user": "op",
        "boot_id": "boot-a",
        "boot_time": NOW - 86_400,
        "gpu_columns": GPU_NAMES,
        "host_columns": HOST_NAMES,
        "port_columns": PORT_NAMES,
    }
    return Hello(**{**facts, **more})  # type: ignore[arg-type]


def gpu_row(index: int, **cells: Cell) -> GpuRow:
    """A GPU whose cells are the ones named; present unless said otherwise, the rest not read."""
    filled: dict[str, Cell] = {"present": 1.0, **cells}
    return GpuRow(
        index=index,
        uuid=f"GPU-{index}",
        pci=f"0000:{index:02x}:00",
        name="H100",
        cells=tuple(filled.get(name) for name in GPU_NAMES),
    )


def sample(seq: int = 1, mono: float = 100.0, gpus: tuple[GpuRow, ...] | None = None, **more: object) -> Sample:
    facts: dict[str, object] = {
        "seq": seq,
        "mono": mono,
        "wall": NOW,
        "host": (1.5, 1000.0),
        "gpus": gpus,
        "gpus_mono": None if gpus is None else mono,
    }
    return Sample(**{**facts, **more})  # type: ignore[arg-type]


def heard(message: Message, name: str = "gpu0001", at: float = NOW, offset: float = NOW - 100.0) -> Heard:
    return Heard(node=name, message=message, at=at, offset=offset)
