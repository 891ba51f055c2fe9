"""Cells into columns: reasons stay reasons, short rows are not read to their end, and probes may order as they like."""

from hypothesis import given
from hypothesis import strategies as st

from gputop.engine.cells import Batch
from gputop.model.columns import HOST, HostId
from gputop.model.reading import Unknown, Why
from gputop.model.sample import Cell
from gputop.model.table import Table, empty_table

NAMES = tuple(spec.name for spec in HOST)
CELLS = st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e6), st.sampled_from(["~lost", "~denied", "?", "7"]))


def table(rows: int) -> Table[HostId]:
    empty: Table[HostId] = empty_table(HOST)
    return empty.with_ids({k: HostId(node=f"n{k}") for k in range(rows)})


def expected(cell: Cell, scale: float) -> object:
    if cell is None:
        return Unknown(Why.NOT_READ)
    if isinstance(cell, str):
        return Unknown({"~lost": Why.LOST, "~denied": Why.DENIED}.get(cell, Why.ERROR))
    return round(float(cell) * scale) / scale


@given(st.lists(st.lists(CELLS, min_size=0, max_size=len(NAMES)), min_size=1, max_size=6))
def test_each_cell_arrives_as_what_it_was(rows: list[list[Cell]]) -> None:
    batch = Batch(NAMES)
    for row, cells in enumerate(rows):
        batch.add(row, NAMES, tuple(cells))
    into = batch.into(table(len(rows)))
    for row, cells in enumerate(rows):
        for k, spec in enumerate(HOST):
            found = into.at(row, spec.name)
            wanted = expected(cells[k] if k < len(cells) else None, spec.scale)
            if isinstance(wanted, Unknown):
                assert isinstance(found, Unknown)
                assert found.why is wanted.why
            else:
                assert found == wanted


def test_columns_are_found_by_name_and_the_first_of_two_counts() -> None:
    batch = Batch(NAMES)
    batch.add(0, ("mine", "load", "cpus", "load"), (1, 2, 3, 4))
    into = batch.into(table(1))
    assert (into.at(0, "load"), into.at(0, "cpus")) == (2.0, 3.0)
    assert into.at(0, "zombies") == Unknown(Why.NOT_READ)
