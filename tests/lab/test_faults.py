"""Each fault does what it says, as a person or a program on the node sees it, and its end ends it."""

import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from tests.lab.accounts import OPERATOR, OUTSIDER
from tests.lab.faults import FAULTS
from tests.lab.lab import Lab
from tests.lab.processes import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

NODE = "gpu0005"
SRAM = "(lambda s: setattr(s, 'version', nvmlEccSramErrorStatus_v1) or byref(s))(c_nvmlEccSramErrorStatus_v1_t())"
SOURCE = Path(pynvml.__file__).read_text()
TRY = """
def say(call, *more):
    try:
        return call(*more)
    except NVMLError as error:
        return type(error).__name__
nvmlInit()
gpus = [say(nvmlDeviceGetHandleByIndex, k) for k in range(nvmlDeviceGetCount())]
"""


def ssh(lab: Lab, command: str, person: str = OPERATOR, node: str = NODE, **more: object) -> tuple[int, str, str]:
    argv = ["ssh", "-F", str(lab.home(person) / ".ssh/config"), node, command]
    done = lab.run_as(person, argv, **more)
    return done.returncode, done.stdout, done.stderr


def nvml(lab: Lab, *expressions: str, command: str = "python3 -") -> list[str]:
    """What expressions over `gpus` say on the node, with no more there than its own Python."""
    script = SOURCE + TRY + "".join(f"print({one})\n" for one in expressions)
    status, said, errors = ssh(lab, command, input=script)
    assert status == 0, errors
    return said.splitlines()


def one(call: str, *more: str, gpu: int = 3) -> str:
    return f"say({', '.join((call, f'gpus[{gpu}]', *more))})"


def field(name: str, gpu: int = 3) -> str:
    return f"(lambda v: (v.nvmlReturn, v.value.ullVal))(nvmlDeviceGetFieldValues(gpus[{gpu}], [{name}])[0])"


@contextmanager
def opened(argv: list[str]) -> "Iterator[subprocess.Popen[str]]":
    """A command with pipes; it ends with the block, however that ends."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def as_root(lab: Lab, *more: str) -> list[str]:
    return ["ssh", "-F", str(lab.home("root") / ".ssh/config"), *more]


def fault(lab: Lab, name: str, number: int = 3) -> None:
    FAULTS[name](lab, NODE, number)


def test_pynvml_sees_eight_gpus_that_answer_every_question(lab: Lab) -> None:
    questions = (
        "NVMLError.__module__ and len(gpus)",
        "nvmlSystemGetDriverVersion()",
        "nvmlSystemGetCudaDriverVersion()",
        *(
            one(f"nvmlDeviceGet{name}", *more)
            for name, *more in (
                ("Name",), ("UUID",), ("Serial",), ("PciInfo",), ("Index",), ("MinorNumber",), ("BoardId",),
                ("VbiosVersion",), ("InforomImageVersion",), ("InforomVersion", "NVML_INFOROM_ECC"),
                ("Temperature", "0"), ("TemperatureV", "0"), ("TemperatureThreshold", "1"), ("MarginTemperature",),
                ("PowerUsage",), ("EnforcedPowerLimit",), ("PowerManagementLimit",), ("TotalEnergyConsumption",),
                ("ClockInfo", "1"), ("MaxClockInfo", "1"), ("UtilizationRates",), ("MemoryInfo",),
                ("MemoryInfo", "nvmlMemory_v2"), ("PerformanceState",), ("PersistenceMode",),
                ("CurrentClocksEventReasons",), ("CurrentClocksThrottleReasons",), ("SupportedClocksEventReasons",),
                ("ViolationStatus", "NVML_PERF_POLICY_POWER"), ("CurrPcieLinkGeneration",), ("MaxPcieLinkWidth",),
                ("PcieReplayCounter",), ("PcieThroughput", "0"), ("EccMode",), ("TotalEccErrors", "1", "0"),
                ("MemoryErrorCounter", "1", "0", "2"), ("SramEccErrorStatus", SRAM),
                ("RemappedRows",), ("RowRemapperHistogram",), ("NvLinkState", "0"), ("NvLinkVersion", "0"),
                ("NvLinkCapability", "0", "0"), ("NvLinkErrorCounter", "0", "0"), ("MigMode",),
                ("ComputeRunningProcesses",),
            )
        ),
    )  # fmt: skip
    said = nvml(lab, *questions)
    assert said[0] == "8"
    assert len(said) == len(questions)
    assert [line for line in zip(questions, said, strict=True) if "NVMLError" in line[1]] == []
    found = nvml(
        lab,
        "nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(gpus[6])))",
        "nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(nvmlDeviceGetPciInfo(gpus[6]).busId))",
        one("nvmlDeviceGetRetiredPagesPendingStatus"),
    )
    assert found == ["6", "6", "NVMLError_NotSupported"]


def test_a_lost_gpu_answers_no_call_and_its_peers_go_on(lab: Lab) -> None:
    fault(lab, "gpu-lost")
    said = nvml(lab, "gpus[3]", *(one("nvmlDeviceGetCount and nvmlDeviceGetName", gpu=k) for k in (2, 4)))
    assert said == ["NVMLError_GpuIsLost", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"]
    fault(lab, "gpu-back")
    assert nvml(lab, one("nvmlDeviceGetPersistenceMode")) == ["1"]


def test_a_gone_gpu_is_not_listed_and_the_others_move_up(lab: Lab) -> None:
    every = "[nvmlDeviceGetUUID(gpu) for gpu in gpus]"
    before = nvml(lab, every)[0]
    fault(lab, "gpu-gone")
    after = nvml(lab, "len(gpus)", every)
    smi = ssh(lab, "nvidia-smi --query-gpu=uuid --format=csv,noheader,nounits")[1].split()
    assert after[0] == "7"
    assert smi == [uuid for uuid in eval(before) if uuid in eval(after[1])] == eval(after[1])
    fault(lab, "gpu-returned")
    assert nvml(lab, every) == [before]


@pytest.mark.parametrize(
    ("name", "command", "status"),
    [
        pytest.param("gpu-hang", "timeout 0.5 python3 -", 124, id="one GPU"),
        pytest.param("nvml-hang", "timeout 0.5 python3 -", 124, id="the library"),
        pytest.param("nvml-hang-hard", "timeout -k 0.5 0.5 python3 -", 137, id="the library, and only SIGKILL ends it"),
    ],
)
def test_a_hang_lets_no_call_return_until_it_is_over(lab: Lab, name: str, command: str, status: int) -> None:
    fault(lab, name)
    script = SOURCE + TRY + f"print({one('nvmlDeviceGetPowerUsage')})"
    assert ssh(lab, command, input=script)[:2] == (status, "")
    with opened(as_root(lab, NODE, "python3 -")) as waits:
        assert waits.stdin is not None
        waits.stdin.write(script)
        waits.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            waits.wait(1)
        fault(lab, "gpu-answers" if name == "gpu-hang" else "nvml-answers")
        assert waits.wait(10) == 0


def test_a_driver_of_another_version_refuses_everything(lab: Lab) -> None:
    fault(lab, "driver-mismatch")
    script = SOURCE + "\ntry:\n    nvmlInit()\nexcept NVMLError as error:\n    print(type(error).__name__)\n"
    assert ssh(lab, "python3 -", input=script)[1] == "NVMLError_LibRmVersionMismatch\n"
    assert "version mismatch" in ssh(lab, "nvidia-smi --query-gpu=index --format=csv,noheader")[1]
    fault(lab, "driver-ok")
    assert nvml(lab, "len(gpus)") == ["8"]


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("not-supported", "NVMLError_NotSupported", "[N/A]"),
        ("no-permission", "NVMLError_NoPermission", "[Insufficient Permissions]"),
    ],
)
def test_a_withheld_reading_says_so_by_either_way(lab: Lab, name: str, error: str, text: str) -> None:
    fault(lab, name)
    assert nvml(lab, one("nvmlDeviceGetPowerUsage"), one("nvmlDeviceGetName")) == [error, "NVIDIA H100 80GB HBM3"]
    ask = "nvidia-smi -i 3 --query-gpu=power.draw,index --format=csv,noheader,nounits"
    assert ssh(lab, ask)[1] == f"{text}, 3\n"
    fault(lab, "heal")
    assert nvml(lab, one("nvmlDeviceGetPowerUsage"))[0].isdigit()


@pytest.mark.parametrize(
    ("name", "question", "sick", "well"),
    [
        ("throttle", one("nvmlDeviceGetCurrentClocksEventReasons"), "72", "1"),
        ("throttle", one("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"), "960", "345"),
        (
            "throttle",
            field("NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"),
            "(0, 5000000000)",
            "(0, 0)",
        ),
        ("power-brake", one("nvmlDeviceGetCurrentClocksThrottleReasons"), "136", "1"),
        ("ecc", one("nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "0"), "3", "0"),
        ("ecc", field("NVML_FI_DEV_ECC_DBE_VOL_TOTAL"), "(0, 3)", "(0, 0)"),
        ("remap-pending", one("nvmlDeviceGetRemappedRows"), "(0, 0, 1, 0)", "(0, 0, 0, 0)"),
        ("recovery-action", field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"), "(0, 2)", "(0, 0)"),
        ("pcie-down", one("nvmlDeviceGetCurrPcieLinkWidth"), "8", "16"),
        ("nvlink-down", one("nvmlDeviceGetNvLinkState", "17"), "0", "1"),
    ],
)
def test_a_sick_gpu_shows_it_until_healed(lab: Lab, name: str, question: str, sick: str, well: str) -> None:
    assert nvml(lab, question) == [well]
    fault(lab, name)
    assert nvml(lab, question, question.replace("gpus[3]", "gpus[4]")) == [sick, well]
    fault(lab, "heal")
    assert nvml(lab, question) == [well]


def test_a_dead_link_and_its_errors_are_in_sysfs(lab: Lab) -> None:
    port = "/sys/class/infiniband/mlx5_3/ports/1"
    ask = f"cat {port}/state {port}/phys_state {port}/counters/symbol_error"
    fault(lab, "ib-down")
    fault(lab, "ib-errors")
    assert ssh(lab, ask)[1] == "1: DOWN\n3: Disabled\n4711\n"
    fault(lab, "heal")
    assert ssh(lab, ask)[1] == "4: ACTIVE\n5: LinkUp\n0\n"


@pytest.mark.parametrize(
    ("command", "person"), [("journalctl -k -f -n 0 -o short-iso", OPERATOR), ("dmesg -w --time-format iso", "root")]
)
def test_a_kernel_line_reaches_who_follows_the_log(lab: Lab, command: str, person: str) -> None:
    key = str(lab.base / "keys" / person)
    with opened(as_root(lab, "-l", person, "-i", key, NODE, command)) as follows:
        assert follows.stdout is not None
        wait_for("a follower", lambda: b"tail" in b"".join(_names(lab)))
        time.sleep(0.2)
        fault(lab, "xid-79")
        line = next(line for line in follows.stdout if "Xid" in line)
    assert "Xid (PCI:0000:44:00): 79" in line
    assert line.startswith("20")


def _names(lab: Lab) -> list[bytes]:
    found = []
    for pid in lab.nodes[NODE].sessions():
        try:
            found.append(Path(f"/proc/{pid}/comm").read_bytes())
        except OSError:
            continue
    return found


def test_who_has_only_a_journal_of_their_own_reads_no_kernel_line(lab: Lab) -> None:
    fault(lab, "own-journal")
    status, said, hint = ssh(lab, "journalctl -k -n 5", OUTSIDER)
    assert (status, said) == (0, "-- No entries --\n")
    assert "not seeing messages" in hint
    assert ssh(lab, "timeout 0.5 journalctl -k -f", OUTSIDER)[:2] == (124, "")
    fault(lab, "no-journal")
    assert ssh(lab, "journalctl -k -n 5", OUTSIDER)[0] == 1


@pytest.fixture
def session(lab: Lab) -> "Iterator[subprocess.Popen[str]]":
    """An ssh session that echoes lines."""
    with opened(as_root(lab, NODE, "cat")) as process:
        assert _echo(process) == "hello\n"
        yield process


def _echo(session: "subprocess.Popen[str]") -> str:
    _type(session)
    assert session.stdout is not None
    return session.stdout.readline()


def _type(session: "subprocess.Popen[str]") -> None:
    assert session.stdin is not None
    session.stdin.write("hello\n")
    session.stdin.flush()


def test_without_its_listener_a_node_keeps_its_sessions(lab: Lab, session: "subprocess.Popen[str]") -> None:
    fault(lab, "listener-killed")
    assert _echo(session) == "hello\n"
    assert ssh(lab, "true")[0] == 255
    fault(lab, "listener-started")
    assert ssh(lab, "true")[0] == 0
    fault(lab, "sessions-killed")
    assert session.wait(5) == 255


def test_a_frozen_node_answers_nothing_until_thawed(lab: Lab, session: "subprocess.Popen[str]") -> None:
    fault(lab, "frozen")
    _type(session)
    late = as_root(lab, "-o", "ConnectTimeout=1", NODE, "true")
    assert subprocess.run(late, capture_output=True, check=False).returncode == 255
    assert session.stdout is not None
    assert select.select([session.stdout], [], [], 0)[0] == []
    fault(lab, "thawed")
    assert session.stdout.readline() == "hello\n"


def test_a_site_can_deny_logins_and_a_node_can_change_its_key(lab: Lab) -> None:
    fault(lab, "logins-denied")
    status, _, errors = ssh(lab, "true")
    assert status == 255
    assert "Access denied by pam_slurm_adopt" in errors
    fault(lab, "logins-allowed")
    assert ssh(lab, "true")[0] == 0
    fault(lab, "new-host-key")
    assert "HOST IDENTIFICATION HAS CHANGED" in ssh(lab, "true")[2]


def test_a_stopped_slurmd_is_missed_by_slurm_and_comes_back(lab: Lab) -> None:
    fault(lab, "slurmd-stopped")
    wait_for("Slurm's word", lambda: "NOT_RESPONDING" in lab.node_state(NODE), 40, 0.5)
    assert not lab.slurm.running()[NODE]
    fault(lab, "slurmd-started")
    wait_for("its return", lambda: lab.node_state(NODE) == "IDLE", 20, 0.2)


def test_slurmctld_can_be_stopped_frozen_and_restarted(lab: Lab) -> None:
    fault(lab, "slurmctld-stopped")
    assert not lab.slurm.answers()
    fault(lab, "slurmctld-started")
    assert lab.slurm.answers()
    fault(lab, "slurmctld-frozen")
    asked = ["timeout", "0.5", "sinfo"]
    assert subprocess.run(asked, capture_output=True, env=lab.slurm.env, check=False).returncode == 124
    fault(lab, "slurmctld-thawed")
    fault(lab, "slurmctld-restarted")
    assert lab.slurm.answers()


def test_a_reboot_asked_of_slurm_gives_the_node_a_new_boot(lab: Lab, session: "subprocess.Popen[str]") -> None:
    ask = "cat /proc/sys/kernel/random/boot_id; cut -d. -f1 /proc/uptime; grep btime /proc/stat"
    before = ssh(lab, ask)[1].split()
    lab.ask("scontrol", "reboot", "ASAP", "nextstate=resume", "reason=test", NODE)
    assert session.wait(10) == 255
    wait_for("its return", lambda: lab.node_state(NODE) == "IDLE", 20, 0.2)
    after = ssh(lab, ask)[1].split()
    assert after[0] != before[0]
    assert int(after[1]) < 60 < int(before[1])
    assert int(after[3]) > int(before[3])


def test_gpus_and_links_work_where_a_job_has_them(lab: Lab) -> None:
    job = lab.submit("--gpus-per-node=2", f"--nodelist={NODE}")
    power = [f"nvmlDeviceGetPowerUsage(gpus[{k}]) > 500000" for k in (0, 1, 2)]
    wait_for("load", lambda: nvml(lab, *power) == ["True", "True", "False"], 20, 0.2)
    ask = "cat /sys/class/infiniband/mlx5_{}/ports/1/counters/port_xmit_data"
    assert int(ssh(lab, ask.format(1))[1]) > 0 == int(ssh(lab, ask.format(2))[1])
    lab.ask("scancel", job)
    wait_for("rest", lambda: nvml(lab, power[0]) == ["False"], 20, 0.2)
