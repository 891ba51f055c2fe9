"""Starting and ending everything the lab runs: nothing may outlive it."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Daemons that fork away become our children, so that they can be found and ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """pid -> parent pid of every process."""
    found: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[int(entry.name)] = int(Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[1])
    return found


def descendants(root: int) -> list[int]:
    """Every process below root."""
    table = parents()
    below: list[int] = []
    level = {root}
    while level:
        level = {pid for pid, parent in table.items() if parent in level}
        below.extend(level)
    return below


def in_namespace(inodes: Collection[int]) -> list[int]:
    """Processes in the mount namespaces with these inodes."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry.name}/ns/mnt").st_ino in inodes:
                    found.append(int(entry.name))
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(pids: Callable[[], list[int]], patience: float = 5.0) -> None:
    """Terminates, then kills, until none is left."""
    send(pids(), signal.SIGCONT)
    send(pids(), signal.SIGTERM)
    deadline = time.monotonic() + patience
    while pids() and time.monotonic() < deadline:
        reap()
        time.sleep(0.05)
        if time.monotonic() > deadline - patience * 0.7:
            send(pids(), signal.SIGKILL)


def orphan_zombies() -> set[int]:
    """Adopted processes that have ended and that nobody collected."""
    found = set()
    for pid, parent in parents().items():
        if parent == os.getpid():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                    found.add(pid)
    return found


def collect(pids: Iterable[int]) -> None:
    """Takes these zombies away."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def reap() -> None:
    """Collects adopted children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def wait_for(what: str, check: Callable[[], bool], seconds: float = 20.0, every: float = 0.05) -> None:
    """Returns when check is true; TimeoutError names what was waited for."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def free_ports(count: int) -> int:
    """First of count consecutive ports that nobody listens on."""
    for base in range(20_000 + os.getpid() % 400 * 20, 60_000, max(count, 20)):
        taken = []
        try:
            for port in range(base, base + count):
                one = socket.socket()
                taken.append(one)
                one.bind(("", port))
        except OSError:
            continue
        else:
            return base
        finally:
            for one in taken:
                one.close()
    raise OSError(f"no {count} free ports in a row")


def run(argv: list[str], **more: object) -> str:
    """Output of a command that must succeed."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.returncode}: {done.stderr or done.stdout}")
    return str(done.stdout)
