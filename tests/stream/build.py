"""Random snapshots, each a little different from the last, and what it means that two agree."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gputop.model.columns import GpuId, HostId
from gputop.model.jobs import Job
from gputop.model.nodes import Node, Reason
from gputop.model.reading import CODE_OF, Unknown, Why
from gputop.model.snapshot import MAPPINGS, TABLES, About, Snapshot, Source
from gputop.model.states import State
from gputop.model.table import Codes, Floats, Table

NAMES = ("gpu0001", "gpu0002", "gpu0003")
CELLS = st.one_of(
    st.integers(-(2**31), 2**53).map(float),
    st.floats(-1000, 10_000, allow_nan=False),
    st.sampled_from(list(Why)),
)


@st.composite
def steps(draw: st.DrawFn, before: Snapshot) -> Snapshot:
    """A later snapshot."""
    after = replace(before, time=before.time + draw(st.floats(0.1, 10).map(lambda x: round(x, 3))))
    if after.about is None or draw(st.booleans()):
        about = About(cluster="test", version="0", trouble=draw(st.text(max_size=5)))
        after = replace(after, about=about, sources={"probe": Source(name="probe", period=5.0, read_at=after.time)})
    if draw(st.booleans()):
        nodes = {name: draw(nodes_of(name)) for name in draw(st.sets(st.sampled_from(NAMES)))}
        after = replace(after, nodes=nodes)
    if draw(st.booleans()):
        jobs = {
            key: Job(id=key, raw_id=key, name=draw(st.text(max_size=8)), state=State("running")) for key in ("1", "2")
        }
        after = replace(after, jobs=jobs)
    return replace(after, gpu_table=draw(_tables(after)), host_table=_hosts(after, draw(CELLS)))


@st.composite
def nodes_of(draw: st.DrawFn, name: str) -> Node:
    reason = draw(
        st.none()
        | st.builds(
            Reason, text=st.text(max_size=5), owner=st.just("root"), at=st.just(1.5) | st.just(Unknown(Why.ERROR))
        )
    )
    state = State(draw(st.sampled_from(("idle", "mixed"))), draw(st.frozensets(st.sampled_from(("drain", "planned")))))
    return Node(name=name, state=state, gpus=draw(st.integers(0, 8)), reason=reason)


def _hosts(snap: Snapshot, cell: float | Why) -> Table[HostId]:
    table = snap.host_table
    if "gpu0001" not in table.index:
        table = table.with_ids({len(table): HostId(node="gpu0001")})
    return table.with_values(np.array([0]), {"load": _cells([cell])})


@st.composite
def _tables(draw: st.DrawFn, snap: Snapshot) -> Table[GpuId]:
    table = snap.gpu_table
    more = draw(st.integers(0, 2))
    new = {
        len(table) + k: GpuId(node=NAMES[0], index=len(table) + k, pci=f"0000:{len(table) + k:02x}:00")
        for k in range(more)
    }
    table = table.with_ids(new)
    if len(table) and draw(st.booleans()):
        rows = sorted(draw(st.sets(st.integers(0, len(table) - 1), min_size=1)))
        for column in draw(st.sets(st.sampled_from(("temp", "power", "ecc_cor", "present")))):
            cells = [draw(CELLS) for _ in rows]
            table = table.with_values(np.array(rows), {column: _cells(cells)})
    return table


def _cells(cells: Sequence[float | Why]) -> tuple[Floats, Codes]:
    values = np.array([np.nan if isinstance(cell, Why) else cell for cell in cells])
    why = np.array([CODE_OF[cell] if isinstance(cell, Why) else 0 for cell in cells], np.uint8)
    return values, why


@st.composite
def sessions(draw: st.DrawFn, longest: int = 8) -> list[Snapshot]:
    """A run of snapshots."""
    snaps: list[Snapshot] = []
    last = Snapshot(time=1_800_000_000.0)
    for _ in range(draw(st.integers(1, longest))):
        last = draw(steps(last))
        snaps.append(last)
    return snaps


def same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots say the same in every field."""
    mappings = all(dict(getattr(one, name)) == dict(getattr(other, name)) for name in MAPPINGS)
    tables = all(getattr(one, name).same(getattr(other, name)) for name in TABLES)
    return mappings and tables and (one.time, one.about, one.abilities) == (other.time, other.about, other.abilities)
