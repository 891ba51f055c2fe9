"""What Slurm says is taken over, remembered where Slurm forgets, and not believed when it cannot be."""

import msgspec

from gputop.engine.events import ActionChanged, BootTimesRead, JobsRead, LayoutRead, NodesRead, ReadFailed, SiteRead
from gputop.engine.fold import fold
from gputop.engine.state import Follow, ReadLayouts, State
from gputop.model.actions import Action, Intent, Kind, Outcome, Phase
from gputop.model.calls import Site
from gputop.model.hosts import LinkState
from gputop.model.jobs import JobLayout
from gputop.model.reading import Unknown, Why
from gputop.model.site import Switch
from tests.engine.build import NOW, job, node, start


def with_nodes(*states: str) -> State:
    nodes = tuple(node(f"gpu{k:04}", state) for k, state in enumerate(states, 1))
    return fold(start(), NodesRead(at=NOW, nodes=nodes), "{node}")[0]


def test_the_first_read_of_nodes_says_which_hosts_to_follow_by_the_pattern() -> None:
    _, effects = fold(start(), NodesRead(at=NOW, nodes=(node(),)), "{node}.cluster")
    assert effects == (Follow(hosts=(("gpu0001", "gpu0001.cluster"),)),)


def test_the_same_nodes_again_ask_for_nothing() -> None:
    state = with_nodes("idle")
    _, effects = fold(state, NodesRead(at=NOW + 10, nodes=(node(),)), "{node}")
    assert effects == ()


def test_a_powered_down_node_is_not_polled_and_its_link_is_off() -> None:
    state, effects = fold(start(), NodesRead(at=NOW, nodes=(node(state="idle+powered_down"),)), "{node}")
    assert effects == ()
    assert state.snap.links["gpu0001"].state is LinkState.OFF


def test_unchanged_records_stay_the_same_object_so_that_frames_stay_small() -> None:
    state = with_nodes("idle", "idle")
    after, _ = fold(state, NodesRead(at=NOW + 10, nodes=(node(), node("gpu0002", "mixed"))), "{node}")
    assert after.snap.nodes["gpu0001"] is state.snap.nodes["gpu0001"]
    assert after.snap.nodes["gpu0002"] is not state.snap.nodes["gpu0002"]


def test_where_a_job_ran_is_remembered_after_a_requeue() -> None:
    state, _ = fold(with_nodes("allocated"), JobsRead(at=NOW, jobs=(job(),)), "{node}")
    state, _ = fold(state, JobsRead(at=NOW + 10, jobs=(job(state="pending", nodes=()),)), "{node}")
    assert state.snap.jobs["7"].nodes == ()
    assert state.snap.jobs["7"].last_nodes == ("gpu0001",)


def test_an_empty_queue_on_a_busy_cluster_is_not_believed() -> None:
    state, _ = fold(with_nodes("allocated"), JobsRead(at=NOW, jobs=(job(),)), "{node}")
    state, _ = fold(state, JobsRead(at=NOW + 10, jobs=()), "{node}")
    assert "7" in state.snap.jobs
    assert state.snap.sources["slurm.jobs"].read_at == NOW
    assert "not believed" in state.snap.sources["slurm.jobs"].trouble


def test_an_empty_queue_on_an_idle_cluster_is_an_empty_queue() -> None:
    state, _ = fold(with_nodes("idle"), JobsRead(at=NOW, jobs=()), "{node}")
    assert state.snap.sources["slurm.jobs"].read_at == NOW


def test_a_failed_read_keeps_what_was_known_and_lets_it_age() -> None:
    state, _ = fold(with_nodes("idle"), ReadFailed(source="slurm.nodes", trouble="timed out"), "{node}")
    assert "gpu0001" in state.snap.nodes
    source = state.snap.sources["slurm.nodes"]
    assert (source.read_at, source.trouble) == (NOW, "timed out")
    assert not source.stale(NOW + 20)
    assert source.stale(NOW + 21)


def test_gpu_indices_are_asked_once_for_a_job_on_part_of_a_node() -> None:
    state = with_nodes("mixed")
    part = job(gpus=2)
    state, effects = fold(state, JobsRead(at=NOW, jobs=(part, job("8", gpus=8))), "{node}")
    assert effects == (ReadLayouts(jobs=("7",)),)
    state, _ = fold(state, LayoutRead(job="7", layout=None), "{node}")
    _, effects = fold(state, JobsRead(at=NOW + 10, jobs=(part,)), "{node}")
    assert effects == ()


def test_at_most_five_layouts_are_asked_for_in_a_cycle() -> None:
    jobs = tuple(job(str(k), gpus=1) for k in range(1, 8))
    state, effects = fold(with_nodes("mixed"), JobsRead(at=NOW, jobs=jobs), "{node}")
    assert effects == (ReadLayouts(jobs=("1", "2", "3", "4", "5")),)
    _, effects = fold(state, JobsRead(at=NOW + 10, jobs=jobs), "{node}")
    assert effects == (ReadLayouts(jobs=("6", "7")),)


def test_layouts_of_jobs_that_are_gone_are_dropped() -> None:
    state, _ = fold(with_nodes("mixed"), JobsRead(at=NOW, jobs=(job(gpus=2),)), "{node}")
    layout = JobLayout(job="7", start_time=NOW - 60, gpus=(("gpu0001", (0, 1)),))
    state, _ = fold(state, LayoutRead(job="7", layout=layout), "{node}")
    state, _ = fold(state, JobsRead(at=NOW + 10, jobs=(job("9"),)), "{node}")
    assert not state.snap.layouts
    assert not state.layouts_asked


def test_nodes_learn_their_leaf_switch() -> None:
    site = Site(
        partitions=(),
        reservations=(),
        switches=(
            Switch(name="spine", level=1, nodes=("gpu0001", "gpu0002")),
            Switch(name="leaf1", level=0, nodes=("gpu0001",)),
        ),
    )
    state, _ = fold(with_nodes("idle", "idle"), SiteRead(at=NOW, site=site), "{node}")
    assert state.snap.nodes["gpu0001"].switch == "leaf1"


def test_a_boot_time_from_slurm_fills_in_where_no_probe_told() -> None:
    state, _ = fold(with_nodes("idle"), BootTimesRead(at=NOW, times=(("gpu0001", NOW - 500),)), "{node}")
    assert state.snap.nodes["gpu0001"].boot_time == NOW - 500
    again, _ = fold(state, NodesRead(at=NOW + 10, nodes=(node(),)), "{node}")
    assert again.snap.nodes["gpu0001"].boot_time == NOW - 500


def test_an_unknown_exclude_list_does_not_erase_a_known_one() -> None:
    known = msgspec.structs.replace(job(state="pending", nodes=()), excluded=("gpu0003",))
    state, _ = fold(with_nodes("idle"), JobsRead(at=NOW, jobs=(known,)), "{node}")
    state, _ = fold(state, JobsRead(at=NOW + 10, jobs=(job(state="pending", nodes=()),)), "{node}")
    assert state.snap.jobs["7"].excluded == ("gpu0003",)


def test_sources_never_read_are_stale() -> None:
    state = start()
    assert all(source.stale(NOW) and source.read_at == Unknown(Why.NOT_READ) for source in state.snap.sources.values())


def test_where_a_requeued_job_runs_is_a_later_observation() -> None:
    done = Action(
        id="a",
        intent=Intent(kind=Kind.REQUEUE, target="7"),
        by="ann",
        asked_at=NOW,
        phase=Phase.CLOSED,
        outcome=Outcome.CONFIRMED,
    )
    state, _ = fold(with_nodes("idle"), ActionChanged(done), "{node}")
    state, _ = fold(state, JobsRead(at=NOW, jobs=(job(state="pending", nodes=()),)), "{node}")
    assert state.snap.actions["a"].follow_up == ""
    state, _ = fold(state, JobsRead(at=NOW + 10, jobs=(job(nodes=("gpu0002",)),)), "{node}")
    assert state.snap.actions["a"].follow_up == "runs on gpu0002"
