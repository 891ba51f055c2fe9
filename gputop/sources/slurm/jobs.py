"""Jobs from one `squeue` without -r: pending tasks of an array stay one row with a count."""

import re

from gputop.model.errors import SourceError
from gputop.model.jobs import Job
from gputop.model.reading import Reading, Unknown, Why
from gputop.model.text import clean
from gputop.sources.slurm.fields import split_rows
from gputop.sources.slurm.hostlist import expand
from gputop.sources.slurm.states import job_state
from gputop.sources.slurm.tres import job_gpus
from gputop.sources.slurm.values import absent, duration, epoch, exit_code, whole

FIELDS = (
    "JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "State", "UserName", "Account",
    "Partition", "QOS", "NodeList", "NumNodes", "tres-alloc", "tres-per-node", "tres-per-job", "RestartCnt", "Requeue",
    "BatchFlag", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "TimeLimit", "PriorityLong", "Dependency",
    "exit_code", "DerivedEC", "ExcNodes", "ReqNodes", "Reason", "Name", "Comment", "admin_comment",
)  # fmt: skip
_TASK_PART = re.compile(r"^(\d+)(?:-(\d+)(?::(\d+))?)?$")
_EXCLUDED = re.compile(r" ExcNodeList=(\S*)")


def parse_jobs(output: bytes, suffix: str, *, excludes: bool) -> tuple[Job, ...]:
    """Every row as a Job; excludes says whether this release fills ExcNodes (from 24.11 on)."""
    return tuple(_job(row, excludes=excludes) for row in split_rows(output, suffix, len(FIELDS), "squeue"))


def _job(row: list[str], *, excludes: bool) -> Job:
    (
        raw_id, array_id, task_id, het_id, het_offset, state, user, account,
        partition, qos, nodes, node_count, allocated, per_node, per_job, restarts, requeue,
        batch, submitted, eligible, started, ended, limit, priority, dependency,
        exited, derived, excluded, required, reason, name, comment, admin_comment,
    ) = row  # fmt: skip
    raw_id = raw_id.strip()
    if not raw_id.isdigit():
        raise SourceError("squeue", f"a row with the job id {clean(raw_id, 40)!r}")
    array = "" if absent(array_id) or absent(task_id) else array_id.strip()
    task = task_id.strip() if array else ""
    count = whole(node_count)
    restarted = whole(restarts)
    return Job(
        id=_shown(raw_id, array, task, het_id.strip(), het_offset.strip()),
        raw_id=raw_id,
        array_id=array,
        task_id=clean(task, 200),
        tasks=count_tasks(task) if array else 1,
        name=clean(name, 1000),
        user=clean(user.strip(), 64),
        account="" if absent(account) else clean(account.strip(), 64),
        partition=clean(partition.strip(), 200),
        qos="" if absent(qos) else clean(qos.strip(), 64),
        state=job_state(state),
        reason="" if absent(reason) else clean(reason.strip(), 300),
        nodes=expand(nodes),
        gpus=job_gpus(allocated, per_node, per_job, 0 if isinstance(count, Unknown) else count),
        restarts=0 if isinstance(restarted, Unknown) else restarted,
        requeueable=requeue.strip() == "1",
        batch=batch.strip() not in ("", "0"),
        submit_time=epoch(submitted),
        eligible_time=epoch(eligible),
        start_time=epoch(started),
        end_time=epoch(ended),
        time_limit=duration(limit),
        priority=whole(priority),
        dependency="" if absent(dependency) else clean(dependency.strip(), 300),
        exit_code=exit_code(exited),
        derived_exit_code=exit_code(derived),
        excluded=expand(excluded) if excludes else Unknown(Why.NOT_READ, "this Slurm shows it for single jobs only"),
        required=expand(required),
        comment="" if absent(comment) else clean(comment, 1000),
        admin_comment="" if absent(admin_comment) else clean(admin_comment, 1000),
    )


def _shown(raw_id: str, array: str, task: str, het: str, offset: str) -> str:
    if array:
        return f"{array}_{task}" if task.isdigit() else f"{array}_[{clean(task, 200)}]"
    if not absent(het) and het != "0" and offset.isdigit():
        return f"{het}+{offset}"
    return raw_id


def count_tasks(tasks: str) -> int:
    """Tasks in a pending set such as 1-3,7,9-20:2%4; an elided one counts what it shows."""
    total = 0
    for part in tasks.split("%")[0].strip("[]").split(","):
        if found := _TASK_PART.match(part.strip()):
            low, high, step = int(found.group(1)), int(found.group(2) or found.group(1)), int(found.group(3) or 1)
            total += max(0, high - low) // max(1, step) + 1
    return max(1, total)


def parse_excluded(output: bytes) -> Reading[tuple[str, ...]]:
    """ExcNodeList from `scontrol show job J -o`: the last before the node list, since a name may forge an earlier."""
    text = output.decode("utf-8", "replace")
    found = _EXCLUDED.findall(text.rsplit(" NodeList=", 1)[0])
    if not found:
        return Unknown(Why.ERROR, "no ExcNodeList in scontrol's answer")
    return expand(found[-1])
