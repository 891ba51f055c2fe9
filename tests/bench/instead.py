"""What people do without gputop: nvidia-smi everywhere, by clush or pdsh, again and again."""

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

FIELDS = "index,uuid,temperature.gpu,power.draw,clocks.sm,utilization.gpu,memory.used"
QUERY = f"nvidia-smi --query-gpu={FIELDS} --format=csv,noheader,nounits"
FANOUT = 64

Figures = dict[str, float | str]


def instead_figures(ssh_config: Path, hosts: str, count: int) -> Figures:
    """Seconds, CPU and lines of one round each; hosts is a hostlist such as gpu[0001-2048]."""
    ssh = f"-F {ssh_config} -o BatchMode=yes -o ConnectTimeout=15"
    rounds = {
        "clush": ["clush", "-N", "-q", "-f", str(FANOUT), "-o", ssh, "-w", hosts, QUERY],
        "pdsh": ["pdsh", "-R", "ssh", "-N", "-f", str(FANOUT), "-w", hosts, QUERY],
    }
    figures: Figures = {}
    for name, argv in rounds.items():
        label = f"{name} -f {FANOUT}, one round of nvidia-smi"
        if shutil.which(name) is None:
            figures[label] = "not installed"
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        done = subprocess.run(argv, env={**os.environ, "PDSH_SSH_ARGS": ssh + " %h"}, capture_output=True, text=True)
        passed = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = done.stdout.count("\n")
        figures[label] = f"{passed:.1f} s, {used:.1f} s of CPU, {lines} of {8 * count} GPUs"
    return figures
