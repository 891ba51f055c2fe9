"""The program on a node: what it cannot read has a reason, a stuck driver is one child, and it leaves nothing."""

import ast
import os
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model import columns as model_columns
from gputop.model.sample import Hello, KernelLines, Sample
from gputop.probe import bootstrap, columns, infiniband, kernel_log, nvml_child, runner, wire
from gputop.probe.nvml_link import NvmlLink
from gputop.probe.nvml_reader import NvmlReader, bus_id, microseconds, why
from gputop.sources.ssh.framing import FrameReader
from tests.probe.build import FakeNvml, end, read, start

PROBE = Path(bootstrap.__file__).parent
ERRORS = sorted(
    {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)}
)


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_is_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


def test_every_column_is_one_of_the_models() -> None:
    assert set(columns.GPU) == {spec.name for spec in model_columns.GPU}
    assert set(columns.PORT) == {spec.name for spec in model_columns.PORT}
    assert set(columns.HOST) < {spec.name for spec in model_columns.HOST}


CALLS = sorted({name for name in dir(pynvml) if name.startswith("nvmlDeviceGet")})


@given(st.dictionaries(st.sampled_from(CALLS), st.sampled_from(ERRORS), max_size=40))
def test_no_error_of_the_driver_ever_becomes_a_number(failing: dict[str, int]) -> None:
    failing.pop("nvmlDeviceGetCount", None)
    found = NvmlReader(FakeNvml(failing)).read()
    for row in found["gpus"]:
        cells = dict(zip(columns.GPU, row["cells"], strict=True))
        lost = cells["present"] == 0
        for call, column in (
            ("nvmlDeviceGetTemperature", "temp"),
            ("nvmlDeviceGetPowerUsage", "power"),
            ("nvmlDeviceGetUtilizationRates", "util"),
            ("nvmlDeviceGetMemoryInfo", "mem_used"),
            ("nvmlDeviceGetPerformanceState", "pstate"),
            ("nvmlDeviceGetFieldValues", "ecc_unc"),
            ("nvmlDeviceGetNvLinkState", "nvlinks_up"),
        ):
            if call in failing or lost:
                assert isinstance(cells[column], str), (call, column, cells[column])


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_has_a_reason(code: int) -> None:
    assert why(pynvml, pynvml.NVMLError(code)).startswith("~")


def test_a_gpu_that_fails_is_a_row_that_says_lost_with_the_identity_it_had() -> None:
    fake = FakeNvml({})
    reader = NvmlReader(fake)
    reader.read()
    fake._failing["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_GPU_IS_LOST
    (row,) = reader.read()["gpus"]
    assert row["uuid"] == "GPU-1"
    assert row["cells"][0] == 0
    assert set(row["cells"][1:]) == {"~lost"}


def test_slowed_time_is_nanoseconds_in_nvml_and_microseconds_with_us() -> None:
    assert microseconds(5_000_000) == 5_000
    assert microseconds("~denied") == "~denied"


def test_bus_ids_are_written_one_way() -> None:
    assert bus_id("00000000:9B:00.0") == bus_id("0000:9b:00") == "0000:9b:00"


@pytest.mark.parametrize(
    ("line", "at", "text"),
    [
        ("2026-12-01T03:18:00+0000 n1 kernel: NVRM: Xid", 1796095080.0, "NVRM: Xid"),
        ("2026-12-01T03:18:00,123456+01:00 NVRM: Xid", 1796091480.0, "NVRM: Xid"),
        ("[  12.50] NVRM: Xid", 1012.5, "NVRM: Xid"),
        ("no time at all NVRM", None, "no time at all NVRM"),
    ],
)
def test_kernel_lines_are_dated_by_their_own_stamp(line: str, at: float | None, text: str) -> None:
    assert kernel_log.parse_line(line, 1000.0) == (at, text)


def test_only_lines_that_matter_are_kept() -> None:
    assert kernel_log.matters("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.")
    assert kernel_log.matters("Out of memory: Killed process 7")
    assert not kernel_log.matters("audit: type=1400 apparmor")


def test_a_refused_log_says_so_and_an_empty_one_does_not() -> None:
    assert kernel_log.denial(1, "No journal files were opened due to insufficient permissions.")
    assert kernel_log.denial(0, "Hint: You are currently not seeing messages from other users")
    assert kernel_log.denial(0, "") == ""


def test_ports_are_read_and_unreadable_counters_say_why(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (port / "counters/link_downed").write_text("nonsense\n")
    (row,) = infiniband.ports(str(tmp_path))
    cells = dict(zip(columns.PORT, row["cells"], strict=True))
    assert (cells["state"], cells["rate"]) == (4, 400)
    assert cells["phys_state"] == "~not_supported"
    assert cells["link_downed"] == "~error"
    assert infiniband.ports(str(tmp_path / "none")) == []


SATURATED = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "counters/link_downed": "255",
    "counters/excessive_buffer_overrun_errors": "15",
    "counters/port_rcv_data": "230539874932483",
    "counters/symbol_error": "N/A (no PMA)",
}


def test_every_counter_of_a_port_is_what_the_kernel_says_or_why_it_says_nothing(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    for name, text in SATURATED.items():
        (port / name).write_text(text + "\n")
    (tmp_path / "mlx5_1").mkdir()
    (row,) = infiniband.ports(str(tmp_path))
    cells = dict(zip(columns.PORT, row["cells"], strict=True))
    assert {name for name, cell in cells.items() if cell == 0} == set()
    assert (cells["state"], cells["phys_state"], cells["rate"], cells["link_downed"]) == (4, 5, 400, 255)
    assert (cells["buffer_overrun"], cells["rcv_data"]) == (15, 230539874932483)
    assert (cells["symbol_error"], cells["xmit_data"]) == ("~not_supported", "~not_supported")
    assert row["link_layer"] == "InfiniBand"


def test_names_that_are_no_text_still_make_a_message_that_can_be_read() -> None:
    frame = wire.encode({"type": "hello", "hostname": b"n\xff\x01".decode("utf-8", "surrogateescape")}, "feed")
    (payload,) = FrameReader("feed").feed(b"motd\x01other 12\n" + frame)
    assert msgspec.json.decode(payload)["hostname"] == "n?\x01"


def test_a_reader_that_is_gone_ends_it_although_its_input_goes_on() -> None:
    process = start(f"t{os.getpid()}c")
    read(process, 2)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(10) == 0
    end(process)


def test_the_end_of_its_input_ends_the_child_and_what_follows_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journalctl").write_text("#!/bin/sh\necho NVRM: Xid\nexec sleep 60\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    process = start(f"t{os.getpid()}d", prefix=())
    messages = read(process, 12)
    assert any(isinstance(one, KernelLines) and one.lines for one in messages)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    end(process)
    deadline = time.monotonic() + 10
    while (left := [pid for pid in children if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_it_speaks_the_models_messages_and_leaves_when_its_input_ends() -> None:
    process = start(f"t{os.getpid()}a")
    messages = read(process, 5)
    assert isinstance(messages[0], Hello)
    assert any(isinstance(one, Sample) for one in messages)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    end(process)
    time.sleep(0.3)
    assert not [
        pid
        for pid in children
        if Path(f"/proc/{pid}/status").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text()
    ]


def test_a_name_that_a_stuck_holder_keeps_starts_no_second_child_and_is_reported() -> None:
    cluster = f"t{os.getpid()}b"
    holder = nvml_child.claim(nvml_child.socket_name(cluster, "n1"))
    assert holder is not None
    try:
        process = start(cluster)
        messages = read(process, 12)
        children = subprocess.run(
            ["pgrep", "-fP", str(process.pid), "python"], capture_output=True, text=True
        ).stdout.split()
        end(process)
        last = [one for one in messages if isinstance(one, Sample)][-1]
        assert last.gpus is None
        assert last.hung_since is not None
        assert children == []
    finally:
        holder.close()


def test_a_child_that_does_not_answer_is_hung_after_two_periods_and_asked_no_more() -> None:
    now = 100.0
    link = NvmlLink("c", "n", 5.0, now=lambda: now)
    ours, theirs = socket.socketpair()
    link._pid, link._socket = os.getpid(), ours
    ours.setblocking(False)
    link.ask()
    now = 109.0
    link.ask()
    assert link.hung_since() is None
    now = 111.0
    assert link.hung_since() == 100.0
    assert theirs.recv(10) == b"p"
    link._pid = 0
    ours.close()
    theirs.close()


def test_the_runner_hands_hostile_arguments_on_as_they_are() -> None:
    hostile = ["printf", "%s|", "a b", "$(id)", "'\"", "\x1f\x1e", "é"]
    done = runner.execute(hostile, 5)
    import base64

    assert base64.b64decode(done["stdout"]).decode() == "a b|$(id)|'\"|\x1f\x1e|é|"


def test_the_runner_ends_a_command_with_all_it_started() -> None:
    began = time.monotonic()
    done = runner.execute(["sh", "-c", "sleep 97 & sleep 97"], 0.3)
    assert done["timed_out"]
    assert time.monotonic() - began < 10
    assert not subprocess.run(["pgrep", "-f", "sleep 97"], capture_output=True, text=True).stdout


def test_the_runners_environment_is_slurms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "x")
    monkeypatch.setenv("SINFO_PARTITION", "x")
    kept = runner.environment()
    assert not {"SQUEUE_FORMAT", "SINFO_PARTITION"} & set(kept)
    assert (kept["SLURM_TIME_FORMAT"], kept["LC_ALL"]) == ("%s", "C.UTF-8")


def test_the_command_line_survives_every_login_shell() -> None:
    command, payload = bootstrap.package_probe({"nonce": "x"})
    assert command.endswith(str(len(payload)))
    inside = command.split("'")[1]
    assert not set(inside) & set("\"'\\$!`\n")
    assert len(payload) < 80_000
