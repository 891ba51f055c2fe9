"""The lab by hand: its commands, and that nothing of it is left, however it ends."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab import remnants
from tests.lab.lab import Lab
from tests.lab.processes import Ports, own_name, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(60)]

ROOT = Path(__file__).parents[2]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.lab", *words]


def say(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*words), capture_output=True, text=True, check=False, cwd=ROOT, timeout=30)


@contextmanager
def by_hand(base: Path, *more: str) -> "Iterator[subprocess.Popen[str]]":
    """A lab of two nodes in the foreground of another process."""
    argv = command("up", "-n", "2", "--dir", str(base), *more)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=ROOT) as up:
        try:
            assert up.stdout is not None
            assert any(" the end:" in line for line in up.stdout)
            wait_for("the socket", (base / "control").exists)
            yield up
        finally:
            up.kill()
            up.wait()
            if remnants.is_lab(base):
                remnants.end(base)
                remnants.remove(base)


@pytest.fixture
def base() -> Iterator[Path]:
    """A short path, since Unix sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="gplab-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "l"


def test_status_names_what_is_broken_and_down_ends_all(base: Path) -> None:
    with by_hand(base) as up:
        at = ("--dir", str(base))
        assert say("fault", *at, "gpu-lost", "gpu0002", "5").returncode == 0
        assert say("fault", *at, "slurmd-stopped", "gpu0001").returncode == 0
        text = say("status", *at).stdout
        assert "gpu0002: gpu.5.lost=1" in text
        assert "gpu0001: slurmd stopped" in text
        nobody = say("fault", *at, "gpu-lost", "gpu0099")
        assert (nobody.returncode, nobody.stderr) == (1, "no such node: 'gpu0099'\n")
        again = say("up", *at)
        assert again.returncode == 1
        assert "a lab runs in" in again.stderr
        assert say("down", *at).returncode == 0
        assert up.wait(10) == 0
    assert not base.exists()
    assert remnants.processes(base) == set()
    assert "no lab in" in say("status", *at).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(base: Path, number: signal.Signals) -> None:
    with by_hand(base) as up:
        up.send_signal(number)
        assert up.wait(15) == 0
    assert not base.exists()
    assert remnants.processes(base) == set()


def test_what_a_killed_lab_left_is_ended_by_down(base: Path) -> None:
    with by_hand(base) as up:
        argv = ["sbatch", "-o", "/dev/null", "-D", "/tmp", "--gpus-per-node=8", "--wrap=sleep 600; sleep 700"]
        subprocess.run(
            argv, check=True, capture_output=True, env={"SLURM_CONF": f"{base}/slurm.conf", "PATH": "/usr/bin"}
        )
        wait_for("a job", lambda: any(b"sleep\x00600" in _line(pid) for pid in remnants.processes(base)))
        up.kill()
        up.wait()
        left = remnants.processes(base)
        assert len(left) > 6
        assert say("down", "--dir", str(base)).returncode == 0
    assert not base.exists()
    assert [pid for pid in left if _line(pid)] == []


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_files_can_be_kept(base: Path) -> None:
    with by_hand(base, "--keep") as up:
        up.send_signal(signal.SIGTERM)
        assert up.wait(15) == 0
        assert (base / "slurmctld.log").exists()
        assert remnants.processes(base) == set()


def test_a_folder_that_is_no_lab_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert "is not empty" in say("up", "--dir", str(tmp_path)).stderr
    assert say("down", "--dir", str(tmp_path)).returncode == 0
    with pytest.raises(FileNotFoundError):
        remnants.remove(tmp_path)
    with pytest.raises(FileExistsError):
        Lab(1, base=tmp_path)
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["sleep", "60"], id="a shell that knows SLURM_CONF"),
        pytest.param(["tail", "-f", "LOG"], id="a pager on its log"),
    ],
)
def test_a_person_that_looks_at_a_lab_is_no_part_of_it(lab: Lab, argv: list[str]) -> None:
    argv = [word.replace("LOG", f"{lab.base}/slurmctld.log") for word in argv]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, env={"SLURM_CONF": str(lab.slurm.conf)}) as person:
        try:
            assert person.pid not in remnants.processes(lab.base)
        finally:
            person.kill()


def test_ports_and_names_are_given_once() -> None:
    first, second = Ports(150), Ports(150)
    assert first.first + 150 <= second.first
    for one in (first, second):
        one.close()
    name = own_name("test")
    assert name is not None
    with name:
        assert own_name("test") is None
