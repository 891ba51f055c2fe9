"""The real screen in a real terminal: every action by its key, on a real Slurm, checked by asking Slurm itself."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.lab.follow import configure
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: apt-get install tmux"),
]
GPUTOP = os.path.join(os.path.dirname(sys.executable), "gputop")


class Terminal:
    """gputop in tmux."""

    def __init__(self, lab: Lab) -> None:
        self._socket = str(lab.base / "tmux")
        configure(lab.home("root"), "root", f"[clusters.{lab.slurm.cluster}]\nperiod = 2\nslurm_period = 2\n")
        environment = [f"{name}={value}" for name, value in lab.env().items()]
        command = shlex.join(["env", "-i", *environment, GPUTOP])
        self._tmux("new-session", "-d", "-s", "g", "-x", "140", "-y", "40", command + "; sleep 5")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "g")

    def until(self, pattern: str, seconds: float = 30.0) -> str:
        """Waits until the screen shows it."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, text := self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} within {seconds:.0f} s on:\n{text}")
            time.sleep(0.1)
        return text

    def press(self, *keys: str) -> None:
        """One key at a time, as a person does."""
        for key in keys:
            self._tmux("send-keys", "-t", "g", key)
            time.sleep(0.4)

    def row(self, name: str) -> None:
        """Shows only that row, so that the cursor is on it."""
        self.press("/", *name, "Enter")
        self.until(rf"only '{name}'")

    def clear(self) -> None:
        self.press("Escape")
        time.sleep(0.6)

    def end(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(lab: Lab) -> Iterator[Terminal]:
    one = Terminal(lab)
    try:
        one.until(r"16 nodes")
        one.until(r"others' jobs: yes")
        yield one
        one.clear()
        one.press("q")
    finally:
        one.end()


def test_drain_and_resume_by_their_keys(lab: Lab, terminal: Terminal) -> None:
    terminal.row("gpu0007")
    terminal.press("d")
    terminal.until(r"scontrol update nodename=gpu0007 state=drain")
    terminal.press("y")
    terminal.until("CONFIRMED")
    assert lab.node_state("gpu0007") == "IDLE+DRAIN"
    terminal.clear()
    terminal.press("e")
    terminal.until("nodename=gpu0007 state=resume")
    terminal.press("y")
    terminal.until("CONFIRMED")
    assert "DRAIN" not in lab.node_state("gpu0007")


def test_hold_release_requeue_exclude_and_cancel_by_their_keys(lab: Lab, terminal: Terminal) -> None:
    job = lab.submit("--gpus-per-node=8", "--begin=now+1hour", "-J", "keyed")
    terminal.press("2")
    terminal.row("keyed")
    for key, held in (("h", True), ("l", False)):
        terminal.press(key)
        terminal.until(r"y do it")
        terminal.press("y")
        terminal.until("CONFIRMED")
        assert (lab.job(job, "Priority") == "0") is held
        terminal.clear()
    lab.ask("scontrol", "update", f"jobid={job}", "StartTime=now")
    terminal.until(r"running", 40)
    terminal.press("r")
    terminal.until(rf"scontrol requeue {job}")
    terminal.press("y")
    terminal.until("CONFIRMED", 60)
    assert lab.job(job, "Restarts") == "1"
    terminal.clear()
    terminal.until(r"running", 60)
    bad = lab.ask("squeue", "-h", "-j", job, "-o", "%N").strip()
    terminal.press("x")
    terminal.until(rf"away from:[\s\S]*{bad}")
    terminal.press("Space", "Enter")
    terminal.until(rf"ExcNodeList={bad}")
    terminal.press("y")
    terminal.until("CONFIRMED", 60)
    assert lab.job(job, "ExcNodeList") == bad
    assert lab.job(job, "Restarts") == "2"
    terminal.clear()
    terminal.press("K")
    terminal.until("type cancel")
    terminal.press("y")
    assert lab.job(job, "JobState") != "CANCELLED"
    terminal.press("BSpace", *"cancel", "Enter")
    terminal.until("CONFIRMED", 60)
    assert lab.job(job, "JobState") == "CANCELLED"
    terminal.clear()


def engine_pid(lab: Lab) -> int:
    """The process that holds the lock."""
    (lock,) = (lab.home("root") / ".local/state/gputop").glob("*/lock")
    return int(lock.read_text())


def test_killing_the_screen_leaves_the_engine_and_a_clean_quit_of_the_next_one_ends_both(lab: Lab) -> None:
    first = Terminal(lab)
    first.until(r"16 nodes")
    pid = engine_pid(lab)
    first.end()
    time.sleep(2)
    assert alive(pid)
    second = Terminal(lab)
    try:
        second.until(r"16 nodes")
        assert engine_pid(lab) == pid
        second.press("q")
        deadline = time.monotonic() + 20
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not alive(pid)
    finally:
        second.end()


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
