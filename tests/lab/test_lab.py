"""The lab itself: what it stands for works, two of them do not meet, and nothing of it is left."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.accounts import OPERATOR, OUTSIDER, OWNER
from tests.lab.faults import FAULTS
from tests.lab.lab import Lab
from tests.lab.needs import missing
from tests.lab.processes import parents

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]


def ssh(lab: Lab, person: str, node: str, command: str) -> "subprocess.CompletedProcess[str]":
    config = lab.home(person) / ".ssh/config"
    return lab.run_as(person, ["ssh", "-F", str(config), node, command])


def test_slurm_sees_sixteen_idle_nodes_and_a_job_runs_as_its_owner(lab: Lab) -> None:
    assert lab.slurm.all_idle()
    job = lab.submit("--gpus-per-node=1", wrap="sleep 60")
    assert lab.job(job, "UserId").startswith(OWNER)


def test_a_node_is_a_host_of_its_own(lab: Lab) -> None:
    assert ssh(lab, OPERATOR, "gpu0003", "hostname").stdout == "gpu0003\n"
    assert ssh(lab, OPERATOR, "gpu0003", "cat /sys/class/infiniband/mlx5_0/ports/1/state").stdout == "4: ACTIVE\n"
    boots = {ssh(lab, OPERATOR, name, "cat /proc/sys/kernel/random/boot_id").stdout for name in ("gpu0001", "gpu0002")}
    assert len(boots) == 2
    assert not Path("/usr/bin/nvidia-smi").exists()


def test_the_journal_is_for_those_who_may_read_it(lab: Lab) -> None:
    assert "NVRM" in ssh(lab, OPERATOR, "gpu0001", "journalctl -k -n 5").stdout
    refused = ssh(lab, OUTSIDER, "gpu0001", "journalctl -k -n 5")
    assert "insufficient permissions" in refused.stderr
    assert "not permitted" in ssh(lab, OUTSIDER, "gpu0001", "dmesg").stderr


def test_nvidia_smi_behaves_as_the_real_one_at_its_edges(lab: Lab) -> None:
    ask = "nvidia-smi --query-gpu={} --format=csv,noheader,nounits"
    assert len(ssh(lab, OPERATOR, "gpu0004", ask.format("index,uuid")).stdout.splitlines()) == 8
    unknown = ssh(lab, OPERATOR, "gpu0004", ask.format("index,nonsense"))
    assert (unknown.returncode, unknown.stdout.split("\n")[0]) == (2, 'Field "nonsense" is not a valid field to query.')
    FAULTS["gpu-lost"](lab, "gpu0004", 3)
    whole = ssh(lab, OPERATOR, "gpu0004", ask.format("index"))
    assert whole.returncode == 15
    assert "Unable to determine the device handle" in whole.stdout
    assert ssh(lab, OPERATOR, "gpu0004", ask.format("index") + " -i 2").stdout == "2\n"


def test_two_labs_at_once_do_not_meet_and_nothing_is_left_of_one(lab: Lab) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    with Lab(2) as other:
        other.start()
        assert other.slurm.cluster
        other.submit("--gpus-per-node=8")
        assert ssh(other, OPERATOR, "gpu0002", "hostname").stdout == "gpu0002\n"
        base = other.base
    assert not base.exists()
    assert Path("/proc/self/mounts").read_text() == mounts
    left = []
    for pid in parents():
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if str(base).encode() in text:
            left.append(pid)
    assert left == []
    assert lab.slurm.all_idle()


def test_a_machine_that_can_run_no_lab_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert "needs root" in missing()
