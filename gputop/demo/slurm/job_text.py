"""Jobs as squeue and scontrol print them."""

from collections.abc import Callable

from gputop.demo.slurm.array import expand_tasks, write_tasks
from gputop.demo.slurm.controller import Controller
from gputop.demo.slurm.node_text import folded, indices
from gputop.demo.slurm.records import JobRecord


class Row:
    """One row of squeue: a job, a task, or the pending tasks of an array together."""

    def __init__(self, jobs: list[JobRecord], *, apart: bool = True) -> None:
        self.jobs = jobs
        self.job = jobs[0]
        self._apart = apart

    @property
    def bundle(self) -> bool:
        return self.job.array_id > 0 and self.job.pending

    @property
    def raw_id(self) -> int:
        """A bundle goes by its array's number."""
        return self.job.array_id if len(self.jobs) > 1 or not self.job.split else self.job.raw_id

    @property
    def tasks(self) -> str:
        if self.job.array_id == 0:
            return "N/A"
        if len(self.jobs) == 1 and (self.job.split or self._apart):
            return str(self.job.task)
        return write_tasks((job.task for job in self.jobs), expand_tasks(self.job.spec.array)[1])

    @property
    def reason(self) -> str:
        return ",".join(dict.fromkeys(job.reason for job in self.jobs))


def rows(jobs: list[JobRecord], *, apart: bool) -> list[Row]:
    """apart: as with -r, one row a task; else the pending tasks of an array melt into one."""
    found: list[Row] = []
    bundles: dict[int, Row] = {}
    for job in jobs:
        if apart or job.array_id == 0 or not job.pending or job.split:
            found.append(Row([job]))
        elif job.array_id in bundles:
            bundles[job.array_id].jobs.append(job)
        else:
            bundles[job.array_id] = row = Row([job], apart=False)
            found.append(row)
    return found


def _time(at: float) -> str:
    return str(int(at)) if at else "N/A"


def starts(job: JobRecord) -> float:
    """When it started, or is to start; 0 where nobody knows."""
    return (job.begin or job.expected) if job.pending else job.start


def ends(job: JobRecord) -> float:
    """When it ended, or will have to."""
    if not job.pending:
        return job.end
    start = starts(job)
    return start + job.spec.time_limit if start else 0.0


def duration(seconds: float) -> str:
    """[days-]hours:minutes:seconds, short where it can be."""
    days, rest = divmod(int(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _tres(job: JobRecord) -> str:
    nodes = job.spec.nodes
    return f"cpu={job.spec.cpus * nodes},node={nodes},billing={job.spec.cpus * nodes}"


def squeue_field(name: str) -> Callable[[Row, Controller], str] | None:
    """How a field of squeue -O is printed; None for one that release 22.05 does not know."""
    return {
        "jobid": lambda row, _c: str(row.raw_id),
        "arrayjobid": lambda row, _c: str(row.job.array_id or row.raw_id),
        "arraytaskid": lambda row, _c: row.tasks,
        "hetjobid": lambda row, _c: "N/A",
        "hetjoboffset": lambda row, _c: "N/A",
        "state": lambda row, _c: row.job.state,
        "username": lambda row, _c: row.job.spec.user,
        "account": lambda row, _c: row.job.spec.account or "(null)",
        "partition": lambda row, c: c.partition_of(row.job),
        "qos": lambda row, _c: "(null)",
        "nodelist": lambda row, _c: folded(row.job.nodes) if row.job.nodes else "",
        "numnodes": lambda row, _c: str(len(row.job.nodes) or row.job.spec.nodes),
        "tres-alloc": lambda row, _c: _tres(row.job) if not row.job.pending else "",
        "tres-per-node": lambda row, _c: f"gres:gpu:{row.job.spec.gpus}" if row.job.spec.gpus else "N/A",
        "tres-per-job": lambda row, _c: "N/A",
        "restartcnt": lambda row, _c: str(row.job.restarts),
        "requeue": lambda row, _c: "1" if row.job.requeueable else "0",
        "batchflag": lambda _row, _c: "1",
        "submittime": lambda row, _c: _time(row.job.submit),
        "eligibletime": lambda row, _c: _time(row.job.eligible),
        "starttime": lambda row, _c: _time(starts(row.job)),
        "endtime": lambda row, _c: _time(ends(row.job)),
        "timelimit": lambda row, _c: duration(row.job.spec.time_limit),
        "prioritylong": lambda row, _c: str(row.job.priority),
        "dependency": lambda row, _c: row.job.spec.dependency or "(null)",
        "exit_code": lambda row, _c: str(row.job.status),
        "derivedec": lambda row, _c: "0",
        "reqnodes": lambda row, _c: folded(row.job.required) if row.job.required else "",
        "reason": lambda row, _c: row.reason,
        "name": lambda row, _c: row.job.spec.name,
        "comment": lambda row, _c: row.job.comment or "(null)",
        "admin_comment": lambda row, _c: row.job.admin_comment or "(null)",
    }.get(name.lower())


def scontrol_job(job: JobRecord, controller: Controller, *, detail: bool) -> str:
    """One line of `scontrol show job -o`; detail adds the GPU indices of each node."""
    unsplit = job.array_id and not job.split
    number = job.array_id if unsplit else job.raw_id
    array = f"ArrayJobId={job.array_id} ArrayTaskId={job.task} " if job.array_id else ""
    excluded = ",".join(job.excluded) or "(null)"
    line = (
        f"JobId={number} {array}JobName={job.spec.name} UserId={job.spec.user}(1000) GroupId={job.spec.user}(1000) "
        f"MCS_label=N/A Priority={job.priority} Nice=0 Account={job.spec.account or '(null)'} QOS=(null) "
        f"JobState={job.state} Reason={job.reason.replace(' ', '_')} "
        f"Dependency={job.spec.dependency or '(null)'} Requeue={int(job.requeueable)} Restarts={job.restarts} "
        f"BatchFlag=1 Reboot=0 ExitCode={job.status >> 8}:{job.status & 127} "
    )
    if detail:
        line += "DerivedExitCode=0:0 "
    line += (
        f"RunTime={duration(max(0.0, controller.now - job.start)) if job.running else '00:00:00'} "
        f"TimeLimit={duration(job.spec.time_limit)} TimeMin=N/A SubmitTime={int(job.submit)} "
        f"EligibleTime={int(job.eligible)} AccrueTime={int(job.eligible)} "
        f"StartTime={int(starts(job)) or 'Unknown'} EndTime={int(ends(job)) or 'Unknown'} "
        f"Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval={int(controller.now)} Scheduler=Main "
        f"Partition={controller.partition_of(job)} AllocNode:Sid=login:1 "
        f"ReqNodeList={folded(job.required) if job.required else '(null)'} ExcNodeList={excluded} "
        f"NodeList={folded(job.nodes) if job.nodes else ''} "
    )
    if job.nodes:
        line += f"BatchHost={job.nodes[0]} "
    line += (
        f"NumNodes={len(job.nodes) or job.spec.nodes} NumCPUs={job.spec.cpus * job.spec.nodes} "
        f"NumTasks={job.spec.nodes} CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES={_tres(job)} "
        f"Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
    )
    if detail and job.nodes and not job.ended:
        line += f"JOB_GRES=gpu:h100:{job.spec.gpus * len(job.nodes)} "
        alike: dict[tuple[int, ...], list[str]] = {}
        for name in job.nodes:
            alike.setdefault(controller.nodes[name].jobs.get(job.key, ()), []).append(name)
        for held, names in alike.items():
            gres = f"gpu:h100:{len(held)}(IDX:{indices(held)})"
            line += f"  Nodes={folded(names)} CPU_IDs=0-{job.spec.cpus - 1} Mem=0 GRES={gres} "
    line += (
        f"MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 "
        f"OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) Command=/home/{job.spec.user}/run.sh "
        f"WorkDir=/home/{job.spec.user} "
    )
    if job.admin_comment:
        line += f"AdminComment={job.admin_comment} "
    if job.comment:
        line += f"Comment={job.comment} "
    return line + (
        f"StdErr=/home/{job.spec.user}/slurm-{number}.out StdIn=/dev/null "
        f"StdOut=/home/{job.spec.user}/slurm-{number}.out Power= TresPerNode=gres:gpu:{job.spec.gpus}"
    )
