"""The lab by hand: up stays in the foreground; fault, status and down talk to it through a socket in its folder."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from tests.lab.accounts import OPERATOR, OUTSIDER
from tests.lab.faults import FAULTS
from tests.lab.lab import Lab
from tests.lab.needs import missing

DEFAULT = Path("/tmp/gplab")


def main() -> int:
    top = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    top.add_argument("--dir", type=Path, default=DEFAULT, help=f"folder of the lab; default {DEFAULT}")
    commands = top.add_subparsers(required=True, dest="command")
    up = commands.add_parser("up", help="bring it up and keep it until Ctrl-C")
    up.add_argument("-n", type=int, default=16, help="nodes")
    up.add_argument("--no-python", default="", help="nodes without python3, by comma")
    fault = commands.add_parser("fault", help=f"one of: {', '.join(FAULTS)}")
    fault.add_argument("name", choices=FAULTS, metavar="FAULT")
    fault.add_argument("node", nargs="?", default="gpu0001")
    fault.add_argument("gpu", nargs="?", type=int, default=0, help="GPU or InfiniBand port")
    commands.add_parser("down", help="end it")
    arguments = top.parse_args()
    if arguments.command == "up":
        return up_and_wait(arguments.dir, arguments.n, tuple(filter(None, arguments.no_python.split(","))))
    words = "down" if arguments.command == "down" else f"{arguments.name} {arguments.node} {arguments.gpu}"
    return tell(arguments.dir, words)


def up_and_wait(base: Path, count: int, without_python: tuple[str, ...]) -> int:
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    if base.exists():
        if tell(base, "ping", quiet=True) == 0:
            print(f"a lab runs in {base}: python -m tests.lab down", file=sys.stderr)
            return 1
        shutil.rmtree(base)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), Lab(count, without_python=without_python, base=base) as lab:
        lab.start()
        print(f"{count} nodes up in {time.monotonic() - began:.1f} s in {base}\n")
        print(f"  as root:        HOME={lab.home('root')} SLURM_CONF={lab.slurm.conf} gputop")
        print(f"  as an operator: HOME={lab.home(OPERATOR)} SLURM_CONF={lab.slurm.conf}   (account {OPERATOR})")
        print(f"  as an outsider: HOME={lab.home(OUTSIDER)} SLURM_CONF={lab.slurm.conf}   (account {OUTSIDER})")
        print("  a fault:        python -m tests.lab fault gpu-lost gpu0003 5")
        print("  the end:        Ctrl-C, or python -m tests.lab down", flush=True)
        serve(lab)
    return 0


def serve(lab: Lab) -> None:
    """Carries out faults that come through the socket, until told to end."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(lab.base / "control"))
        os.chmod(lab.base / "control", 0o600)
        listener.listen()
        while True:
            peer, _ = listener.accept()
            with peer:
                words = peer.recv(200).decode().split()
                if words == ["down"]:
                    peer.sendall(b"ok")
                    return
                try:
                    if words != ["ping"]:
                        FAULTS[words[0]](lab, words[1], int(words[2]))
                    peer.sendall(b"ok")
                except (KeyError, OSError, RuntimeError, TimeoutError) as error:
                    peer.sendall(f"{type(error).__name__}: {error}".encode())


def tell(base: Path, words: str, *, quiet: bool = False) -> int:
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(base / "control"))
            peer.sendall(words.encode())
            said = peer.recv(2000).decode()
    except OSError as error:
        if not quiet:
            print(f"no lab in {base}: {error}", file=sys.stderr)
        return 1
    ends = time.monotonic() + 60
    while words == "down" and base.exists() and time.monotonic() < ends:
        time.sleep(0.1)
    if said != "ok" and not quiet:
        print(said, file=sys.stderr)
    return said != "ok"


if __name__ == "__main__":
    sys.exit(main())
