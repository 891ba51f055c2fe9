"""Where a pending job may start, and why it may not; pure."""

from collections.abc import Iterable, Mapping

from gputop.demo.slurm.records import JobRecord, NodeRecord


def place(job: JobRecord, nodes: Iterable[NodeRecord]) -> list[NodeRecord]:
    """The nodes it starts on, in their order; empty when it has to wait."""
    chosen = [node for node in nodes if node.usable and _fits(job, node) and _allowed(job, node)]
    if job.required:
        wanted = set(job.required)
        named = [node for node in chosen if node.name in wanted]
        if len(named) < len(wanted):
            return []
        chosen = named + [node for node in chosen if node.name not in wanted]
    return chosen[: job.spec.nodes] if len(chosen) >= job.spec.nodes else []


def _fits(job: JobRecord, node: NodeRecord) -> bool:
    return len(node.free_gpus) >= job.spec.gpus and (len(node.jobs) + 1) * job.spec.cpus <= node.cpus


def _allowed(job: JobRecord, node: NodeRecord) -> bool:
    return node.name not in job.excluded


def blocked_reason(job: JobRecord, nodes: Iterable[NodeRecord], *, first: bool) -> str:
    """squeue's word for why it waits; first: nothing before it in its partition waits for nodes."""
    possible = [node for node in nodes if _allowed(job, node) and node.gpus >= job.spec.gpus]
    if len(possible) < job.spec.nodes or not set(job.required) <= {node.name for node in possible}:
        return "BadConstraints"
    out = [node.name for node in possible if not node.usable]
    if job.required and set(job.required) & set(out):
        return f"ReqNodeNotAvail, UnavailableNodes:{','.join(sorted(set(job.required) & set(out)))}"
    return "Resources" if first else "Priority"


def backfill_limit(job: JobRecord, nodes: Iterable[NodeRecord], jobs: Mapping[str, JobRecord], now: float) -> float:
    """By when the first job in line may start, by the time limits of what runs; others may fill in until then."""
    ends = []
    for node in nodes:
        if not node.usable or not _allowed(job, node):
            continue
        limits = [jobs[key].start + jobs[key].spec.time_limit for key in node.jobs if key in jobs]
        ends.append(max(limits, default=now))
    ends.sort()
    return ends[job.spec.nodes - 1] if len(ends) >= job.spec.nodes else now
