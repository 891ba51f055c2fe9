"""The lab by hand: up stays in the foreground; fault, status and down talk to it through a socket in its folder."""

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

from tests.lab import remnants
from tests.lab.accounts import OPERATOR, OUTSIDER
from tests.lab.control import serve, tell
from tests.lab.faults import FAULTS
from tests.lab.lab import Lab
from tests.lab.needs import missing
from tests.lab.processes import own_name

DEFAULT = Path("/tmp/gplab")


def main() -> int:
    arguments = parser().parse_args()
    base: Path = arguments.dir.resolve()
    match arguments.command:
        case "up":
            return up(base, arguments.n, tuple(filter(None, arguments.no_python.split(","))), keep=arguments.keep)
        case "fault":
            return answer(base, f"fault {arguments.name} {arguments.node} {arguments.gpu}")
        case "status":
            return answer(base, "status")
        case _:
            return down(base)


def parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--dir", type=Path, default=DEFAULT, help=f"folder of the lab; default {DEFAULT}")
    top = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = top.add_subparsers(required=True, dest="command")
    up = commands.add_parser("up", parents=[where], help="bring it up and keep it until Ctrl-C, Ctrl-D or down")
    up.add_argument("-n", type=int, default=16, help="nodes")
    up.add_argument("--no-python", default="", help="nodes without python3, by comma")
    up.add_argument("--keep", action="store_true", help="leave the folder with its logs behind")
    fault = commands.add_parser("fault", parents=[where], help=f"one of: {', '.join(FAULTS)}")
    fault.add_argument("name", choices=FAULTS, metavar="FAULT")
    fault.add_argument("node", nargs="?", default="gpu0001")
    fault.add_argument("gpu", nargs="?", type=int, default=0, help="GPU or InfiniBand port")
    commands.add_parser("status", parents=[where], help="what Slurm says, what is stopped and what is broken")
    commands.add_parser("down", parents=[where], help="end it; also what a crashed lab has left")
    return top


def up(base: Path, count: int, without_python: tuple[str, ...], *, keep: bool) -> int:
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    ours = own_name(f"lab/{base}")
    if ours is None:
        print(f"a lab runs in {base}: python -m tests.lab down", file=sys.stderr)
        return 1
    with ours:
        if remnants.is_lab(base):
            remnants.end(base)
            remnants.remove(base)
        if base.exists() and any(base.iterdir()):
            print(f"{base} is not empty, and not the folder of a lab", file=sys.stderr)
            return 1
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(0))
        with contextlib.suppress(KeyboardInterrupt):
            run(Lab(count, without_python=without_python, base=base), count, keep=keep)
    return 0


def run(lab: Lab, count: int, *, keep: bool) -> None:
    """From start to stop, which no further signal disturbs."""
    try:
        began = time.monotonic()
        lab.start()
        print(f"{count} nodes up in {time.monotonic() - began:.1f} s in {lab.base}\n")
        print(usage(lab), flush=True)
        serve(lab)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        lab.stop(keep=keep)


def usage(lab: Lab) -> str:
    """What to type next."""
    at = "" if lab.base == DEFAULT else f"--dir {lab.base} "
    return "\n".join(
        (
            f"  as root:        HOME={lab.home('root')} SLURM_CONF={lab.slurm.conf} gputop",
            f"  as an operator: HOME={lab.home(OPERATOR)} SLURM_CONF={lab.slurm.conf}   (account {OPERATOR})",
            f"  as an outsider: HOME={lab.home(OUTSIDER)} SLURM_CONF={lab.slurm.conf}   (account {OUTSIDER})",
            "  by a bastion:   the same homes with -jump at the end",
            f"  a shell there:  ssh -F {lab.home('root')}/.ssh/config gpu0003",
            f"  a job:          SLURM_CONF={lab.slurm.conf} sbatch -o /dev/null --gpus-per-node=8 --wrap 'sleep 600'",
            f"  a fault:        python -m tests.lab fault {at}gpu-lost gpu0003 5",
            f"  its end:        python -m tests.lab fault {at}gpu-back gpu0003 5",
            f"  all in one:     python -m tests.lab status {at}".rstrip(),
            f"  the end:        Ctrl-C, or python -m tests.lab down {at}".rstrip(),
        )
    )


def answer(base: Path, words: str) -> int:
    """Says what the lab says."""
    try:
        status, text = tell(base, words)
    except OSError as error:
        print(f"no lab in {base}: {error}", file=sys.stderr)
        return 1
    if text:
        print(text, file=sys.stderr if status else sys.stdout)
    return status


def down(base: Path) -> int:
    """Asks the lab to end and waits for it; of one that crashed, ends what is left."""
    with contextlib.suppress(OSError):
        tell(base, "down")
    deadline = time.monotonic() + 60
    while (ours := own_name(f"lab/{base}")) is None:
        if time.monotonic() > deadline:
            print(f"the lab in {base} does not end", file=sys.stderr)
            return 1
        time.sleep(0.1)
    with ours:
        if remnants.is_lab(base):
            remnants.end(base)
            remnants.remove(base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
