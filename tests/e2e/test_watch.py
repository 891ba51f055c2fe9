"""The lab watched by a real engine: what breaks is shown as what it is, and nothing else gets older."""

import asyncio
import time

import pytest

from gputop.model.hosts import LinkState
from gputop.model.reading import Unknown, Why
from gputop.model.snapshot import Snapshot
from tests.lab.accounts import OPERATOR, OUTSIDER
from tests.lab.fixtures import NO_PYTHON
from tests.lab.follow import PERIOD, Follower, engine
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


def all_read(snap: Snapshot) -> bool:
    """Every node has eight GPUs, read."""
    return len(snap.nodes) == 16 and all(len(snap.gpu_table.rows_of(name)) == 8 for name in snap.nodes)


def age(snap: Snapshot, node: str, column: str) -> float:
    value = snap.host_table.at(snap.host_table.index[node], column)
    assert isinstance(value, float)
    return snap.time - value


async def everything(follower: Follower) -> Snapshot:
    return await follower.until("all nodes read", all_read, 30)


async def test_an_operator_sees_every_gpu_and_the_kernel_log(lab: Lab) -> None:
    lab.nodes["gpu0002"].log("NVRM: Xid (PCI:0000:0a:00): 48, pid=1, name=python3, DBE (double bit error) ECC Error")
    async with engine(lab, OPERATOR) as follower:
        snap = await everything(follower)
        await follower.until("the kernel log", lambda s: "gpu0002" in s.klogs and bool(s.klogs["gpu0002"].lines))
        assert follower.snap.klogs["gpu0002"].source == "journalctl"
        assert "Xid" in follower.snap.klogs["gpu0002"].lines[-1].text
        one = snap.gpu_table.ids[snap.gpu_table.rows_of("gpu0003")[0]]
        assert one.uuid.startswith("GPU-")
        assert one.pci == "0000:0a:00"
        assert len(snap.port_table.rows_of("gpu0003")) == 8
        assert follower.snap.hosts["gpu0003"].hostname == "gpu0003"


async def test_who_may_not_read_the_kernel_log_is_told_so(lab: Lab) -> None:
    async with engine(lab, OUTSIDER) as follower:
        await everything(follower)
        snap = await follower.until("the kernel log's refusal", lambda s: "gpu0001" in s.klogs)
        source = snap.klogs["gpu0001"].source
        assert isinstance(source, Unknown)
        assert source.why is Why.DENIED


async def test_a_node_without_python_is_read_by_nvidia_smi(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        snap = await everything(follower)
        assert snap.links[NO_PYTHON].mode == "nvidia-smi"
        row = snap.gpu_table.rows_of(NO_PYTHON)[3]
        assert isinstance(snap.gpu_table.at(row, "power"), float)
        lab.nodes[NO_PYTHON].set(gpu_3_lost=1)
        await follower.until("the lost GPU", lambda s: s.gpu_table.at(row, "present") == 0)
        others = [one for one in snap.gpu_table.rows_of(NO_PYTHON) if one != row]
        assert all(follower.snap.gpu_table.at(one, "present") == 1 for one in others)


async def test_nodes_are_reached_through_a_bastion(lab: Lab) -> None:
    async with engine(lab, OPERATOR, jump=True) as follower:
        await everything(follower)
        assert all(link.state is LinkState.UP for link in follower.snap.links.values())


async def test_slurm_is_read_and_asked_through_a_login_node(lab: Lab) -> None:
    async with engine(lab, "root", more='login = "login"') as follower:
        snap = await everything(follower)
        assert snap.about is not None
        assert snap.about.adapter == "commands, login"


async def test_killed_and_frozen_nodes_take_their_own_state_and_no_other_cell_gets_older(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        await everything(follower)
        lab.nodes["gpu0004"].kill_listener()
        lab.nodes["gpu0004"].kill_sessions()
        lab.nodes["gpu0005"].freeze()
        began = time.monotonic()
        await follower.until("gpu0004's own state", lambda s: s.links["gpu0004"].state is not LinkState.UP, 2 * PERIOD)
        await follower.until(
            "gpu0005's own state", lambda s: s.links["gpu0005"].state is not LinkState.UP, 2 * PERIOD + 1
        )
        print(f"killed and frozen shown after {time.monotonic() - began:.1f} s at a period of {PERIOD:.0f} s")
        await asyncio.sleep(3 * PERIOD)
        snap = follower.snap
        assert snap.links["gpu0004"].state in (LinkState.REFUSED, LinkState.WAITING, LinkState.CONNECTING)
        assert snap.links["gpu0005"].state in (LinkState.TIMEOUT, LinkState.CONNECTING)
        healthy = [name for name in snap.nodes if name not in ("gpu0004", "gpu0005", NO_PYTHON)]
        assert max(age(snap, name, "gpus_read_at") for name in healthy) < 2 * PERIOD
        lab.nodes["gpu0004"].start_sshd()
        lab.nodes["gpu0004"].wait_sshd()
        lab.nodes["gpu0005"].thaw()
        await follower.until(
            "both back", lambda s: all(s.links[n].state is LinkState.UP for n in ("gpu0004", "gpu0005")), 60
        )


async def test_a_running_probe_outlives_its_listener(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        await everything(follower)
        lab.nodes["gpu0006"].kill_listener()
        await asyncio.sleep(3 * PERIOD)
        assert follower.snap.links["gpu0006"].state is LinkState.UP
        assert age(follower.snap, "gpu0006", "gpus_read_at") < 2 * PERIOD
        lab.nodes["gpu0006"].start_sshd()
        lab.nodes["gpu0006"].wait_sshd()


async def test_a_lost_gpu_is_a_row_that_says_lost_while_seven_go_on(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        snap = await everything(follower)
        row = snap.gpu_table.index["gpu0007/0000:90:00"]
        lab.nodes["gpu0007"].set(gpu_5_lost=1)
        await follower.until("the lost GPU", lambda s: s.gpu_table.at(row, "present") == 0)
        assert follower.snap.gpu_table.at(row, "temp") == Unknown(Why.LOST)
        others = [one for one in follower.snap.gpu_table.rows_of("gpu0007") if one != row]
        assert all(isinstance(follower.snap.gpu_table.at(one, "temp"), float) for one in others)
        lab.nodes["gpu0007"].set(gpu_5_lost=None)
        await follower.until("it back", lambda s: s.gpu_table.at(row, "present") == 1)


async def test_a_hung_driver_is_unread_then_hung_and_never_has_a_second_child(lab: Lab) -> None:
    node = lab.nodes["gpu0008"]
    async with engine(lab, OPERATOR) as follower:
        await everything(follower)
        assert len(node.probes()) == 2
        node.set(hang=1)
        await follower.until("the hang", lambda s: s.hosts["gpu0008"].hang is not None, 6 * PERIOD)
        assert age(follower.snap, "gpu0008", "gpus_read_at") > 2 * PERIOD
        assert age(follower.snap, "gpu0008", "sampled_at") < 2 * PERIOD
        for _ in range(3):
            node.kill_sessions()
            await follower.until("a new session", lambda s: s.links["gpu0008"].state is not LinkState.UP)
            await follower.until("the node again", lambda s: s.links["gpu0008"].state is LinkState.UP, 40)
            await asyncio.sleep(PERIOD)
            assert len(node.probes()) <= 2
        node.set(hang=None)
        await follower.until(
            "an answer", lambda s: s.hosts["gpu0008"].hang is None and age(s, "gpu0008", "gpus_read_at") < 4
        )


async def test_a_changed_host_key_and_a_policy_are_named(lab: Lab) -> None:
    changed, denied = lab.nodes["gpu0009"], lab.nodes["gpu0010"]
    for node in (changed, denied):
        node.kill_listener()
    changed.new_host_key()
    denied.deny_logins(deny=True)
    for node in (changed, denied):
        node.start_sshd()
        node.wait_sshd()
    try:
        async with engine(lab, OPERATOR) as follower:
            await follower.until(
                "both states",
                lambda s: (
                    s.links.keys() >= {"gpu0009", "gpu0010"}
                    and s.links["gpu0009"].state is LinkState.HOST_KEY
                    and s.links["gpu0010"].state is LinkState.DENIED
                ),
                30,
            )
            assert "pam_slurm_adopt" in follower.snap.links["gpu0010"].detail
    finally:
        denied.deny_logins(deny=False)
        lab.write_ssh_config()


async def test_a_stopped_slurmd_shows_what_slurm_says(lab: Lab) -> None:
    async with engine(lab, OPERATOR) as follower:
        await everything(follower)
        lab.slurm.stop_slurmd("gpu0011")
        await follower.until(
            "Slurm's word", lambda s: s.nodes["gpu0011"].state.silent or s.nodes["gpu0011"].state.down, 60
        )
        lab.slurm.start_slurmd("gpu0011")
        await follower.until("its return", lambda s: str(s.nodes["gpu0011"].state) == "idle", 60)


async def test_values_move_while_a_job_runs_and_hostile_names_stay_text(lab: Lab) -> None:
    name = "evil\nJobId=9 JobState=FAILED|\x1b[31m\x1f\x1e[red]x[/red]" + "x" * 900
    job = lab.submit("--gpus-per-node=8", "-J", name)
    async with engine(lab, OPERATOR) as follower:
        await follower.until("the job", lambda s: job in s.jobs and s.jobs[job].running)
        assert "\x1b" not in follower.snap.jobs[job].name
        assert "[red]x[/red]" in follower.snap.jobs[job].name
        node = follower.snap.jobs[job].nodes[0]
        await follower.until(
            "load",
            lambda s: any(
                s.gpu_table.at(r, "util") not in (0.0,) and isinstance(s.gpu_table.at(r, "util"), float)
                for r in s.gpu_table.rows_of(node)
            ),
        )
        row = follower.snap.gpu_table.rows_of(node)[0]
        seen = set()
        for _ in range(4):
            seen.add(follower.snap.gpu_table.at(row, "power"))
            await asyncio.sleep(PERIOD)
        assert len(seen) > 1
