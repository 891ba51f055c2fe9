"""Words between a lab in the foreground and the commands that break and end it, through a socket in its folder."""

import contextlib
import os
import select
import socket
import sys
from pathlib import Path

from tests.lab.faults import FAULTS
from tests.lab.lab import Lab


def serve(lab: Lab) -> None:
    """Does what comes through the socket, until told to end or until the end of a terminal's input."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(lab.base / "control"))
        os.chmod(lab.base / "control", 0o600)
        listener.listen()
        while True:
            ready, _, _ = select.select([listener.fileno(), *_terminal()], [], [])
            if listener.fileno() not in ready:
                if not os.read(0, 1024):
                    return
                continue
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                words = peer.recv(200).decode().split()
                if words == ["down"]:
                    peer.sendall(b"0")
                    return
                peer.sendall(_do(lab, words).encode())


def _terminal() -> list[int]:
    """Standard input while we have a terminal and are in its foreground: a service has no Ctrl-D to wait for."""
    return [0] if sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp() else []


def _do(lab: Lab, words: list[str]) -> str:
    """Exit status and text, as the command is to end."""
    try:
        match words:
            case ["status"]:
                return "0" + status(lab)
            case ["fault", name, node, gpu]:
                FAULTS[name](lab, node, int(gpu))
                return "0"
            case _:
                return "2no such command"
    except KeyError as error:
        return f"1no such node: {error}"
    except (OSError, RuntimeError, TimeoutError) as error:
        return f"1{type(error).__name__}: {error}"


def status(lab: Lab) -> str:
    """Slurm's own view, then a line for each node that is not as it was at the start."""
    lines = [lab.ask("sinfo").rstrip()] if lab.slurm.controller_runs() else ["slurmctld is stopped"]
    running = lab.slurm.running()
    for name, node in lab.nodes.items():
        said = [f"{key}={value}" for key, value in node.faults().items()]
        if not running[name]:
            said.append("slurmd stopped")
        if not node.listens():
            said.append("sshd stopped")
        if said:
            lines.append(f"{name}: {', '.join(said)}")
    return "\n".join(lines)


def tell(base: Path, words: str) -> tuple[int, str]:
    """(status, text) of the lab's answer; OSError when none runs there."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(base / "control"))
        peer.sendall(words.encode())
        said = b""
        while part := peer.recv(65536):
            said += part
    if not said:
        raise ConnectionError("it ended while asked")
    return int(said[:1]), said[1:].decode()
