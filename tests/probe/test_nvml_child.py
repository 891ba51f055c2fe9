"""One child talks to the driver: it may hang, crash or be shared, and there is never a second one."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.model.sample import Driver, Sample
from gputop.probe import nvml_child
from gputop.probe.nvml_link import NvmlLink
from tests.probe.build import FakeNvml, end, read, start

PERIOD = 0.2


class Driven(FakeNvml):
    """A driver that hangs while one file is there, and crashes while another is; the child holds no descriptor."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        self.hang, self.crash = folder / "hang", folder / "crash"

    def __getattr__(self, name: str) -> Any:
        return self._count if name == "nvmlDeviceGetCount" else super().__getattr__(name)

    def _count(self) -> int:
        while self.hang.exists():
            time.sleep(0.01)
        if self.crash.exists():
            os.kill(os.getpid(), signal.SIGSEGV)
        return 1


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driven:
    fake = Driven(tmp_path)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


class Ahead:
    """The monotonic clock, which can be put ahead."""

    def __init__(self) -> None:
        self.by = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.by


@pytest.fixture
def links(tmp_path: Path) -> Iterator[Callable[[], tuple[NvmlLink, Ahead]]]:
    made: list[NvmlLink] = []

    def make() -> tuple[NvmlLink, Ahead]:
        clock = Ahead()
        made.append(NvmlLink("t" + tmp_path.name, str(os.getpid()), PERIOD, now=clock))
        return made[-1], clock

    yield make
    for link in made:
        link.close()


Make = Callable[[], tuple[NvmlLink, Ahead]]


def answer(link: NvmlLink, seconds: float = 10.0) -> dict[str, Any] | None:
    """The next pass; None when the link is lost or nothing comes."""
    until = time.monotonic() + seconds
    while (fd := link.fileno()) is not None and time.monotonic() < until:
        if select.select([fd], [], [], 0.1)[0] and (found := link.take()) is not None:
            return dict(found)
    return None


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not (held := true()) and time.monotonic() < ends:
        time.sleep(0.01)
    assert held


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def reaped(link: NvmlLink) -> bool:
    link.ask()
    return link.trouble != ""


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_stuck_pass_is_hung_and_a_later_probe_starts_no_second_child_and_knows_since_when(
    driver: Driven, links: Make
) -> None:
    first, clock = links()
    driver.hang.touch()
    began = time.monotonic()
    first.ask()
    until(lambda: name_of(first._pid).startswith("nvml@"))
    later, later_clock = links()
    clock.by = later_clock.by = 300.0
    later.ask()
    assert later._pid == 0
    for link in (first, later):
        since = link.hung_since()
        assert since is not None
        assert -1 <= since - began <= 310
    seen = later.hung_since()
    assert seen is not None
    assert seen - began < 5, "since the pass began, not since the later probe came"
    driver.hang.unlink()
    assert answer(first) is not None
    assert answer(later) is not None
    assert first.hung_since() is later.hung_since() is None


def test_a_holder_whose_own_probe_is_frozen_still_reads_for_another(driver: Driven, links: Make) -> None:
    frozen, _ = links()
    frozen.ask()
    old = answer(frozen)
    assert old is not None
    other, _ = links()
    ages = []
    for _ in range(2):
        time.sleep(PERIOD)
        other.ask()
        found = answer(other)
        assert found is not None
        assert found["gpus"]
        ages.append(found["mono"] - old["mono"])
    assert 0 < ages[0] < ages[1]
    assert other._pid == 0


def test_a_child_that_crashes_is_said_and_started_again_after_a_while(driver: Driven, links: Make) -> None:
    link, clock = links()
    driver.crash.touch()
    link.ask()
    assert answer(link) is None
    link.ask()
    until(lambda: reaped(link))
    assert "killed by signal 11" in link.trouble
    assert link._pid == 0
    link.ask()
    assert link._pid == 0, "not at once"
    driver.crash.unlink()
    clock.by = 3.0
    link.ask()
    assert answer(link) is not None
    assert link.trouble == ""


def test_a_child_that_cannot_finish_dying_still_counts_as_the_one_child(links: Make) -> None:
    link, clock = links()
    dying = subprocess.Popen(["sleep", "60"])
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link._pid, link._socket = dying.pid, ours
    link.ask()
    theirs.close()
    assert answer(link) is None
    clock.by = 300.0
    link.ask()
    assert link._pid == dying.pid
    assert link.hung_since() is not None
    os.kill(dying.pid, signal.SIGKILL)
    until(lambda: reaped(link))
    dying.wait()
    assert link.hung_since() is None


def test_the_child_holds_no_descriptor_of_the_channel(driver: Driven, links: Make) -> None:
    link, _ = links()
    link.ask()
    assert answer(link) is not None
    held = sorted(os.readlink(f.path).split(":")[0] for f in os.scandir(f"/proc/{link._pid}/fd"))
    assert held == ["/dev/null"] * 3 + ["socket"] * 2


def test_a_node_that_gives_no_process_is_said_and_is_not_the_end_of_the_probe(
    driver: Driven, links: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    link, _ = links()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        link.ask()
    assert "cannot be started: Resource temporarily unavailable" in link.trouble
    listener = nvml_child.claim(link._name)
    assert listener is not None, "the name is free again"
    listener.close()


def test_a_probe_that_is_killed_takes_a_child_that_waits_for_the_driver(driver: Driven, links: Make) -> None:
    driver.hang.touch()
    told, tell = os.pipe()
    probe = os.fork()
    if not probe:
        try:
            link, _ = links()
            link.ask()
            os.write(tell, str(link._pid).encode())
            time.sleep(60)
        finally:
            os._exit(1)
    os.close(tell)
    child = int(os.read(told, 20))
    os.close(told)
    until(lambda: name_of(child).startswith("nvml@"))
    os.kill(probe, signal.SIGKILL)
    os.waitpid(probe, 0)
    until(lambda: not alive(child))


def test_a_probe_that_is_killed_takes_its_child_and_frees_the_name(tmp_path: Path) -> None:
    cluster = "t" + tmp_path.name + str(os.getpid())
    process = start(cluster)
    messages = read(process, 6)
    assert any(isinstance(one, Driver) for one in messages)
    assert nvml_child.claim(nvml_child.socket_name(cluster, "n1")) is None
    process.kill()
    end(process)

    def free() -> bool:
        listener = nvml_child.claim(nvml_child.socket_name(cluster, "n1"))
        if listener is not None:
            listener.close()
        return listener is not None

    until(free)


def test_a_session_right_after_another_never_says_hung(tmp_path: Path) -> None:
    cluster = "t" + tmp_path.name + str(os.getpid())
    for _ in range(3):
        process = start(cluster)
        messages = read(process, 8)
        end(process)
        assert [one.hung_since for one in messages if isinstance(one, Sample)].count(None) >= 5
