"""What the lab needs of the machine, and a sentence for what is missing."""

import os
import shutil

PROGRAMS = ("slurmctld", "slurmd", "scontrol", "munged", "mungekey", "sshd", "ssh-keygen", "unshare", "gcc", "useradd")
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing() -> str:
    """Why no lab can run here; "" when it can."""
    if os.getuid() != 0:
        return "the lab needs root (namespaces, device files, other accounts)"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"the lab needs {', '.join(absent)}: see tests/lab/packages.txt" if absent else ""


def program(name: str) -> str:
    """Full path of a program that is there."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise FileNotFoundError(name)
    return found
