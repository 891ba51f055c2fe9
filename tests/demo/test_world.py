"""The simulated world: the same seed gives the same day, each kind of fault shows, and physics stay believable."""

import json

import numpy as np
import pytest

from gputop.demo import messages
from gputop.demo.faults import KINDS
from gputop.demo.machines import Reach
from gputop.demo.world import World
from gputop.model.errors import ConfigError
from gputop.probe import columns
from tests.demo.build import JOB, NOW, fault, scenario, world


def cell(one: World, node: int, gpu: int, column: str) -> object:
    return one.hardware.readings(node)[gpu][columns.GPU.index(column)]


def everything(one: World) -> str:
    said = [messages.sample(one, node, 1, 5.0) for node in range(len(one.names))]
    asked = one.run(("squeue", "-O", "JobID:|,State:|,NodeList:|,StartTime:|,Name:|")).stdout
    return json.dumps([said, asked, [str(happened) for happened in one.diary]])


def test_the_same_seed_gives_the_same_day_and_another_gives_another() -> None:
    days = []
    for seed in (1, 1, 2):
        one = World(scenario(JOB, head='about = ""\nseconds = 600\nbusy = 0.8\n'), nodes=32, seed=seed, now=NOW)
        one.advance(NOW + 500)
        days.append(everything(one))
    assert days[0] == days[1]
    assert days[0] != days[2]


def test_how_time_is_cut_changes_nothing() -> None:
    text = JOB + fault("throttle", "job:train/1/2", at=33.0)
    once, often = world(text), world(text)
    once.advance(NOW + 120)
    for k in range(1, 1201):
        often.advance(NOW + k / 10)
    assert everything(once) == everything(often)


def test_idle_and_loaded_gpus_look_like_captures_of_real_ones() -> None:
    one = world(JOB)
    one.advance(NOW + 300)
    power, temp = one.hardware.column("power"), one.hardware.column("temp")
    busy, idle = one.hardware.column("util") > 90, one.hardware.column("util") == 0
    assert busy.sum() == 16
    assert 600 < np.median(power[busy]) < 660
    assert 60 < np.median(power[idle]) < 80
    assert 55 < np.median(temp[busy]) < 72
    assert 24 < np.median(temp[idle]) < 36
    assert set(one.hardware.column("sm_clock")[idle].tolist()) == {345}
    assert one.hardware.column("sm_clock")[busy].min() >= 1900


def test_peers_of_a_slow_gpu_wait_for_it_and_draw_less() -> None:
    one = world(JOB + fault("slow-clock", "job:train/1/2", strength=0.6))
    one.advance(NOW + 120)
    power = one.hardware.column("power")[:16].astype(float)
    slow = power[8 + 2]
    peers = np.delete(power, 8 + 2)
    assert np.median(peers) < 560
    assert one.hardware.column("util")[:16].min() >= 99
    assert cell(one, 1, 2, "sm_clock") == 1185
    assert slow < 400


def test_a_hung_job_spins_at_low_power() -> None:
    one = world(JOB + fault("job-hang", "job:train"))
    one.advance(NOW + 120)
    assert one.hardware.column("util")[:16].min() >= 99
    assert one.hardware.column("power")[:16].max() < 230
    assert one.hardware.column("mem_util")[:16].max() == 0


def test_a_lost_gpu_is_unread_in_every_cell_and_kills_its_job() -> None:
    one = world(JOB + fault("gpu-lost", "job:train/1/3"))
    one.advance(NOW + 60)
    row = one.hardware.readings(1)[3]
    assert row[0] == 0
    assert set(row[1:]) == {columns.LOST}
    assert "Xid (PCI:0000:61:00): 79" in one.machines[1].lines[-1][1]
    assert one.slurm.jobs["1001"].state == "FAILED"


def test_repair_brings_a_node_back_with_a_new_boot() -> None:
    one = world(fault("gpu-lost", "gpu0002/3") + fault("repair", "gpu0002", at=30.0, strength=20))
    one.advance(NOW + 40)
    assert one.machines[1].reach is Reach.SILENT
    one.advance(NOW + 60)
    assert cell(one, 1, 3, "present") == 1
    assert one.machines[1].boot_time == NOW + 50
    assert one.slurm.nodes["gpu0002"].reason == "Node unexpectedly rebooted"


def test_shares_are_drawn_from_nodes_that_are_well() -> None:
    text = fault("node-dead", "25%", at=0.0) + fault("pam-denied", "25%", at=0.0) + fault("driver-hang", "50%", at=0.0)
    one = world(text, nodes=8)
    one.advance(NOW + 1)
    struck = [set(happened.nodes) for happened in one.diary]
    assert [len(names) for names in struck] == [2, 2, 4]
    assert not struck[0] & struck[1] | struck[1] & struck[2] | struck[0] & struck[2]


def test_a_fault_whose_subject_is_gone_is_passed_over_and_said() -> None:
    one = world(fault("job-hang", "job:nobody") + fault("gpu-lost", "gpu0099/1"))
    one.advance(NOW + 20)
    assert [happened.says for happened in one.diary] == [
        "passed over: no job nobody runs",
        "passed over: no gpu0099 on this cluster",
    ]


def test_a_cluster_that_is_too_small_is_refused() -> None:
    small = scenario("", head='about = ""\nseconds = 60\nleast_nodes = 9\n')
    with pytest.raises(ConfigError, match="needs at least 9 nodes; got 8"):
        World(small, nodes=8, seed=1, now=NOW)


SUBJECTS = {"gpu": "job:train/1/3", "node": "job:train/1", "port": "job:train/1/mlx5_2", "job": "job:train"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_what_can_be_read_and_is_over_when_it_should_be(kind: str) -> None:
    about = KINDS[kind].about
    subject = SUBJECTS.get(about, about)
    quiet, struck = world(JOB), world(JOB + fault(kind, subject, lasts=120.0))
    differs = False
    for second in range(1, 400):
        quiet.advance(NOW + second)
        struck.advance(NOW + second)
        if second < 10:
            assert everything(quiet) == everything(struck)
        differs = differs or seen(quiet) != seen(struck)
    assert differs
    assert struck.diary[0].kind == kind
    if KINDS[kind].end is not None:
        assert struck.diary[1].kind == f"end of {kind}"
        assert all(machine.reach is Reach.UP for machine in struck.machines)
        assert struck.commands.trouble == ""


def seen(one: World) -> str:
    """What an engine could read, the noise of physics left out."""
    quick = ("present", "clock_reasons", "ecc_unc", "remap_pending", "remap_failed", "recovery_action", "pcie_width")
    cells = [one.hardware.column(name).tolist() for name in (*quick, "nvlinks_up", "sm_clock")]
    hosts = [
        (m.reach, m.skew, m.driver, m.hung_since, m.blocked, m.disk_used, m.extra_load, len(m.lines))
        for m in one.machines
    ]
    jobs = [(job.state, load.hung, load.lazy) for key, job in one.slurm.jobs.items() if (load := one.loads.get(key))]
    states = one.run(("sinfo", "-O", "NodeList:|,StateComplete:|,Reason:|"))
    return json.dumps(
        [
            cells,
            hosts,
            jobs,
            [states.stdout, states.stderr, states.seconds],
            one.ports.state.tolist(),
            one.ports.symbol_errors.tolist(),
            one.hardware.lost.tolist(),
        ]
    )
