"""Who is on a node or in a job, in a sentence: the blast radius."""

from gputop.model.jobs import Job
from gputop.model.reading import Unknown
from gputop.model.snapshot import Snapshot
from gputop.model.text import plural

NAMED = 4


def running_on(snap: Snapshot, node: str) -> tuple[Job, ...]:
    """Jobs that run or complete on a node."""
    return tuple(job for job in snap.jobs.values() if (job.running or job.completing) and node in job.nodes)


def describe(job: Job, now: float) -> str:
    """job 12 of ann, 8 GPUs for 2.1 h."""
    gpus = "GPUs unknown" if isinstance(job.gpus, Unknown) else plural(job.gpus, "GPU")
    if isinstance(job.start_time, Unknown) or not (job.running or job.completing):
        return f"job {job.id} of {job.user}, {gpus}"
    return f"job {job.id} of {job.user}, {gpus} for {max(0.0, now - job.start_time) / 3600:.1f} h"


def listed(jobs: tuple[Job, ...], now: float) -> str:
    """The first few, and how many more."""
    named = "; ".join(describe(job, now) for job in jobs[:NAMED])
    return named if len(jobs) <= NAMED else f"{named}; and {len(jobs) - NAMED} more"


def nodes_left(snap: Snapshot, partitions: frozenset[str], without: frozenset[str]) -> int:
    """Nodes of any of these partitions that can take jobs, without some."""
    return sum(
        not partitions.isdisjoint(node.partitions)
        and node.name not in without
        and not node.state.drain
        and node.state.base in ("idle", "mixed", "allocated")
        and not node.state.silent
        for node in snap.nodes.values()
    )
