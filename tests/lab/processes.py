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
_FIRST_PORT = 12_000
_LAST_PORT = 32_000
"""Below the kernel's range for outgoing connections, which could take a port between our look and its use."""
_BLOCK = 100


def adopt_orphans() -> None:
    """Daemons that fork away become our children, so that they can be found and ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat(pid: int | str) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def parents() -> dict[int, int]:
    """pid -> parent pid of every process."""
    return {pid: int(fields[1]) for pid in pids() if (fields := _stat(pid))}


def descendants(roots: Collection[int]) -> set[int]:
    """Every process below these."""
    table = parents()
    below: set[int] = set()
    level = set(roots)
    while level:
        level = {pid for pid, parent in table.items() if parent in level} - below
        below |= level
    return below


def in_namespace(inodes: Collection[int]) -> list[int]:
    """Processes in the mount namespaces with these inodes."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/mnt").st_ino in inodes:
                found.append(pid)
    return found


def send(who: Iterable[int], number: signal.Signals) -> None:
    for pid in who:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(find: Callable[[], Collection[int]], patience: float = 15.0) -> None:
    """Kills what find names, again and again, until it finds nobody alive; TimeoutError when that never comes."""
    deadline = time.monotonic() + patience
    while left := [pid for pid in find() if alive(pid)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes do not end: {left}")
        send(left, signal.SIGKILL)
        time.sleep(0.02)


def orphan_zombies() -> set[int]:
    """Adopted processes that have ended and that nobody collected."""
    return {pid for pid in pids() if _stat(pid)[:2] == ["Z", str(os.getpid())]}


def collect(dead: Iterable[int]) -> None:
    """Takes these zombies away."""
    for pid in dead:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def wait_for(what: str, check: Callable[[], bool], seconds: float = 20.0, every: float = 0.05) -> None:
    """Returns when check is true; TimeoutError names what was waited for."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)


def own_name(name: str) -> socket.socket | None:
    """A name that one process of the machine has until it closes the socket or dies; None where another has it."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0gputop-lab/{name}")
    except OSError:
        held.close()
        return None
    return held


class Ports:
    """Consecutive ports that nobody listens on and no other lab will take."""

    def __init__(self, count: int) -> None:
        blocks = -(-count // _BLOCK)
        for first in range(_FIRST_PORT, _LAST_PORT - blocks * _BLOCK, _BLOCK):
            self.first = first
            self._held = [own_name(f"ports/{first + k * _BLOCK}") for k in range(blocks)]
            if None not in self._held and _free(range(first, first + count)):
                return
            self.close()
        raise OSError(f"no {count} free ports in a row")

    def close(self) -> None:
        for one in self._held:
            if one is not None:
                one.close()


def _free(ports: Iterable[int]) -> bool:
    for port in ports:
        with socket.socket() as one:
            try:
                one.bind(("", port))
            except OSError:
                return False
    return True


def run(argv: list[str], **more: object) -> str:
    """Output of a command that must succeed."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.returncode}: {done.stderr or done.stdout}")
    return str(done.stdout)
