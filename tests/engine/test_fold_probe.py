"""What probes say becomes columns: lost is lost, unread ages, and one node's trouble touches no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.engine.events import FactsArrived, NodesRead
from gputop.engine.fold import fold
from gputop.engine.state import State
from gputop.model.facts import Fact, LinkChanged
from gputop.model.hosts import Link, LinkState
from gputop.model.reading import Unknown, Why
from gputop.model.sample import Driver, KernelLines
from tests.engine.build import GPU_NAMES, NOW, gpu_row, heard, hello, node, sample, start


def folded(state: State, *facts: Fact) -> State:
    return fold(state, FactsArrived(facts), "{node}")[0]


def with_eight() -> State:
    state, _ = fold(start(), NodesRead(at=NOW, nodes=(node(),)), "{node}")
    gpus = tuple(gpu_row(k, temp=40.0 + k, power=70.0) for k in range(8))
    return folded(state, heard(hello()), heard(sample(gpus=gpus)))


def test_a_sample_becomes_eight_rows() -> None:
    snap = with_eight().snap
    assert [snap.gpu_table.at(row, "temp") for row in snap.gpu_table.rows_of("gpu0001")] == [40.0 + k for k in range(8)]
    assert snap.host_table.at(0, "load") == 1.5
    assert snap.host_table.at(0, "sampled_at") == NOW


def test_a_gpu_that_is_no_longer_listed_is_a_row_that_says_lost_while_its_peers_go_on() -> None:
    gpus = tuple(gpu_row(k, temp=50.0) for k in range(8) if k != 3)
    table = folded(with_eight(), heard(sample(seq=2, mono=105.0, gpus=gpus))).snap.gpu_table
    lost = table.index["gpu0001/0000:03:00"]
    assert table.at(lost, "present") == 0
    assert table.at(lost, "temp") == Unknown(Why.LOST)
    assert [table.at(row, "temp") for row in table.rows_of("gpu0001") if row != lost] == [50.0] * 7


def test_a_gpu_that_slurm_expects_and_nobody_saw_is_a_row_of_its_own() -> None:
    state, _ = fold(start(), NodesRead(at=NOW, nodes=(node(),)), "{node}")
    gpus = tuple(gpu_row(k) for k in range(7))
    table = folded(state, heard(hello()), heard(sample(gpus=gpus))).snap.gpu_table
    assert len(table) == 8
    assert table.ids[7].index < 0
    assert table.at(7, "present") == 0
    assert table.at(7, "power") == Unknown(Why.LOST)


def test_the_expected_row_is_taken_over_when_the_gpu_shows_up() -> None:
    state, _ = fold(start(), NodesRead(at=NOW, nodes=(node(),)), "{node}")
    state = folded(state, heard(hello()), heard(sample(gpus=tuple(gpu_row(k) for k in range(7)))))
    table = folded(state, heard(sample(seq=2, gpus=tuple(gpu_row(k) for k in range(8))))).snap.gpu_table
    assert len(table) == 8
    assert {one.index for one in table.ids} == set(range(8))


def test_a_period_without_nvml_leaves_gpus_to_age_while_the_host_goes_on() -> None:
    before = with_eight()
    after = folded(before, heard(sample(seq=2, mono=105.0, gpus=None, hung_since=101.0), at=NOW + 5)).snap
    assert after.host_table.at(0, "sampled_at") == NOW + 5
    assert after.host_table.at(0, "gpus_read_at") == NOW
    assert after.gpu_table.same(before.snap.gpu_table)
    hang = after.hosts["gpu0001"].hang
    assert hang is not None
    assert hang.since == NOW + 1


def test_a_hang_that_is_over_is_no_longer_shown() -> None:
    state = folded(with_eight(), heard(sample(seq=2, mono=105.0, hung_since=101.0)))
    state = folded(state, heard(sample(seq=3, mono=110.0, gpus=tuple(gpu_row(k) for k in range(8)))))
    assert state.snap.hosts["gpu0001"].hang is None


def test_a_sample_that_was_frozen_on_its_way_is_as_old_as_it_is() -> None:
    late = folded(with_eight(), heard(sample(seq=2, mono=105.0), at=NOW + 300))
    assert late.snap.host_table.at(0, "sampled_at") == NOW + 5


@given(
    st.sampled_from(GPU_NAMES[1:]),
    st.sampled_from(["~not_supported", "~denied", "~lost", "~timed_out", "~error", "~never heard of", "", "0", None]),
)
def test_no_reason_ever_becomes_a_number(column: str, cell: str | None) -> None:
    state, _ = fold(start(), NodesRead(at=NOW, nodes=(node(gpus=1),)), "{node}")
    table = folded(state, heard(hello()), heard(sample(gpus=(gpu_row(0, **{column: cell}),)))).snap.gpu_table
    assert isinstance(table.at(0, column), Unknown)


def test_an_unreadable_kernel_log_says_so_and_lines_are_kept_when_it_is_readable() -> None:
    state = folded(with_eight(), heard(KernelLines(why="~denied", detail="not in group adm")))
    assert state.snap.klogs["gpu0001"].source == Unknown(Why.DENIED, "not in group adm")
    state = folded(state, heard(KernelLines(source="journalctl", reset=True, lines=((NOW, "NVRM: \x1b[31mXid"),))))
    assert [line.text for line in state.snap.klogs["gpu0001"].lines] == ["NVRM: Xid"]


def test_a_driver_that_cannot_be_used_says_why() -> None:
    state = folded(with_eight(), heard(Driver(driver="~error", detail="driver and library differ: needs a reboot")))
    assert state.snap.hosts["gpu0001"].driver == Unknown(Why.ERROR, "driver and library differ: needs a reboot")


def test_one_link_down_changes_no_other_node() -> None:
    state, _ = fold(with_eight(), NodesRead(at=NOW, nodes=(node(), node("gpu0002"))), "{node}")
    down = LinkChanged(node="gpu0002", link=Link(state=LinkState.TIMEOUT, since=NOW, detail="silent for 11 s"))
    after = folded(state, down).snap
    assert after.links["gpu0002"].state is LinkState.TIMEOUT
    assert after.gpu_table.same(state.snap.gpu_table)
    assert after.host_table.same(state.snap.host_table)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "rows renamed in the same slot"])
def test_a_card_that_was_swapped_takes_the_slot_with_its_own_uuid(order: tuple[int, int]) -> None:
    state = with_eight()
    new = gpu_row(order[0])
    swapped = type(new)(index=0, uuid="GPU-new", pci="0000:00:00", cells=new.cells)
    rows = (swapped, *(gpu_row(k) for k in range(1, 8)))
    table = folded(state, heard(sample(seq=2, gpus=rows))).snap.gpu_table
    assert len(table) == 8
    assert table.ids[table.index["gpu0001/0000:00:00"]].uuid == "GPU-new"
