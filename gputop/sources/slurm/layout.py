"""GPU indices of a job, node by node, from `scontrol show job J -d -o`."""

import re

from gputop.model.jobs import JobLayout
from gputop.model.reading import Unknown, Why
from gputop.sources.slurm.hostlist import expand
from gputop.sources.slurm.tres import gpu_indices
from gputop.sources.slurm.values import epoch

_ALLOCATED = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_START = re.compile(r" StartTime=(\d+) ")


def parse_layout(job: str, output: bytes) -> JobLayout | None:
    """None when Slurm gives no detail, such as for a job that does not run.

    The allocation follows the free text that a user controls, so the last line for a node counts.
    """
    text = output.decode("utf-8", "replace")
    gpus: dict[str, tuple[int, ...]] = {}
    for nodes, gres in _ALLOCATED.findall(text):
        indices = gpu_indices(gres)
        for node in expand(nodes):
            gpus[node] = indices
    if not any(gpus.values()):
        return None
    start = _START.findall(text)
    return JobLayout(
        job=job, start_time=epoch(start[-1]) if start else Unknown(Why.NOT_READ), gpus=tuple(sorted(gpus.items()))
    )
