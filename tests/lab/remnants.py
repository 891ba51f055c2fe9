"""Finds what belongs to a lab by its folder alone, so that a lab whose own process was killed can be ended too."""

import contextlib
import os
import re
import shutil
import time
from pathlib import Path

from tests.lab.processes import collect, descendants, kill_all, parents, pids

MARK = ".gputop-lab"
"""A file in the folder of every lab; nothing is ever removed from a folder without it."""

VARIABLE = "GPUTOP_LAB"
"""Set to the folder for daemons that the lab starts; the product never reads it, and no session or job inherits it."""


def processes(base: Path) -> set[int]:
    """Every process of the lab in this folder, and all below them; never we, nor those above us.

    A lab's process was started with the lab's variable (daemons), has its home in the folder (the product, jobs), is
    Slurm's or a job's under its slurm.conf, or lives in a mount namespace made from the folder (sshd, its sessions).
    A person's shell with SLURM_CONF set, and a pager on a log file, are none of those.
    """
    ours = os.stat("/proc/self/ns/mnt").st_ino
    path = re.escape(os.fsencode(base))
    started = re.compile(rb"(?:^|\0)(?:" + VARIABLE.encode() + rb"=" + path + rb"\0|HOME=" + path + rb"/)")
    conf = re.compile(rb"(?:^|\0)SLURM_CONF=" + path + rb"/")
    found: set[int] = set()
    namespaces: dict[int, bool] = {ours: False}
    for pid in pids():
        with contextlib.suppress(OSError):
            at = os.stat(f"/proc/{pid}/ns/mnt").st_ino
            if at not in namespaces:
                namespaces[at] = str(base / "nodes") in Path(f"/proc/{pid}/mountinfo").read_text()
            if namespaces[at]:
                found.add(pid)
                continue
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            if started.search(environ) or (conf.search(environ) and (b"\0SLURM_JOB_ID=" in environ or _slurms(pid))):
                found.add(pid)
    found -= _we()
    return (found | descendants(found)) - _we()


def _slurms(pid: int) -> bool:
    """slurmstepd and its like write their title over what they were started with."""
    return Path(f"/proc/{pid}/comm").read_text().startswith("slurm")


def _we() -> set[int]:
    """This process and those above it."""
    table = parents()
    line = {os.getpid()}
    above = table.get(os.getpid(), 0)
    while above and above not in line:
        line.add(above)
        above = table.get(above, 0)
    return line


def end(base: Path) -> None:
    """Ends every process of the lab in this folder, which must be a lab's own: any other would lose its users too.

    What was once found stays wanted, though its parent has died meanwhile.
    """
    wanted: set[int] = set()

    def find() -> set[int]:
        wanted.update(processes(base))
        return wanted

    kill_all(find)
    collect(wanted)


def is_lab(folder: Path) -> bool:
    return (folder / MARK).is_file()


def remove(folder: Path) -> None:
    """The folder of a lab and all in it; a mount that lingers gets a moment."""
    if not is_lab(folder):
        raise FileNotFoundError(f"{folder} is not the folder of a lab")
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(folder)
