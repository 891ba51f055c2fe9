"""Rows of a table: however it grew, it is as if it had been made at once."""

from hypothesis import given
from hypothesis import strategies as st

from gputop.model.columns import GPU, GpuId
from gputop.model.table import Table, empty_table

NODES = st.sampled_from(["a", "b", "c"])


def one(node: str, slot: int) -> GpuId:
    return GpuId(node=node, index=slot, pci=f"{slot:02}")


@given(st.lists(st.lists(NODES, max_size=4), max_size=5), st.lists(st.tuples(st.integers(0, 30), NODES), max_size=4))
def test_growing_by_steps_is_growing_at_once(steps: list[list[str]], swaps: list[tuple[int, str]]) -> None:
    grown: Table[GpuId] = empty_table(GPU)
    for step in steps:
        start = len(grown)
        grown = grown.with_ids({start + k: one(node, start + k) for k, node in enumerate(step)})
    for row, node in swaps:
        if row < len(grown):
            grown = grown.with_ids({row: one(node, 100 + row)})
    empty: Table[GpuId] = empty_table(GPU)
    made = empty.with_ids(dict(enumerate(grown.ids)))
    assert grown.ids == made.ids
    assert grown.index == made.index
    assert grown.by_node == made.by_node
    assert {n: {int(grown.node_of[r]) for r in rows} for n, rows in grown.by_node.items()} == {
        n: {k} for k, n in enumerate(grown.by_node)
    }
    assert grown.node_of.tolist() == made.node_of.tolist() or list(grown.by_node) != list(made.by_node)
