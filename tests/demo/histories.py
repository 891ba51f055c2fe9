"""Histories of a small cluster, played alike on a real Slurm and on the simulated one; what both print is compared.

A history starts on four idle nodes gpu0001 to gpu0004 and job number 1.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gputop.demo.slurm.records import JobSpec
from gputop.sources.slurm import jobs as job_rows
from gputop.sources.slurm import nodes as node_rows
from gputop.sources.slurm.fields import format_argument, split_rows

SUFFIX = "\x1fk\x1e"
PATIENCE = 60.0
STEP = 0.2


@dataclass(frozen=True)
class Done:
    """A command that ran."""

    status: int
    stdout: str
    stderr: str


class Side(Protocol):
    """A Slurm to play on, as root."""

    def submit(self, spec: JobSpec) -> str:
        """The new job's number."""
        ...

    def run(self, argv: tuple[str, ...]) -> Done: ...

    def wait(self, seconds: float) -> None: ...

    def slurmd(self, node: str, *, up: bool) -> None:
        """Kills a node's slurmd without a word, or starts it."""
        ...

    def now(self) -> float: ...


class Play:
    """One history as it goes: what is asked is noted."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.notes: list[dict[str, object]] = []

    def do(self, *argv: str) -> None:
        """A command whose answer counts."""
        done = self.side.run(argv)
        self.notes.append({"do": " ".join(argv), "status": done.status, "stderr": done.stderr.strip().splitlines()})

    def nodes(self, label: str) -> None:
        self.notes.append({"nodes": label, "rows": self._sinfo()})

    def jobs(self, label: str, *selection: str) -> None:
        self.notes.append({"jobs": label, "rows": self._squeue(*selection)})

    def job(self, label: str, job: str, *options: str) -> None:
        """The parts of scontrol show job that are read."""
        text = self.side.run(("scontrol", "show", "job", job, *options, "-o")).stdout
        keys = ("JobState", "Restarts", "Requeue", "ExitCode", "ExcNodeList", "ReqNodeList", "NodeList", "BatchFlag")
        found: dict[str, object] = {key: _last(text, key) for key in keys}
        found["detail"] = re.findall(r" (Nodes=\S+) CPU_IDs=\S+ Mem=\S+ (GRES=\S*)", text)
        self.notes.append({"job": label, "says": found})

    def _sinfo(self) -> list[dict[str, str]]:
        return self._rows(("sinfo", "-h", "-a", "-N"), node_rows.FIELDS)

    def _squeue(self, *selection: str) -> list[dict[str, str]]:
        return self._rows(("squeue", "-h", "-a", "-t", "all", *selection), job_rows.FIELDS)

    def _rows(self, command: tuple[str, ...], fields: tuple[str, ...]) -> list[dict[str, str]]:
        done = self.side.run((*command, "-O", format_argument(fields, SUFFIX)))
        rows = split_rows(done.stdout.encode(), SUFFIX, len(fields), command[0])
        now = self.side.now()
        found = [
            {name: normal(name, value, now) for name, value in zip(fields, row, strict=True) if name not in LEFT_OUT}
            for row in rows
        ]
        # Which row comes first differs between releases, and nothing depends on it.
        return sorted(found, key=lambda row: [row.get(key, "") for key in ("NodeList", "Partition", "JobID")])

    def until_job(self, job: str, state: str, reason: str = "") -> None:
        """Until a job or task is in that state."""

        def there() -> bool:
            return any(
                name(row) == job and row["State"] == state and reason in row["Reason"] for row in self._squeue("-r")
            )

        self._until(there, f"{job} {state} {reason}")

    def until_node(self, node: str, state: str) -> None:
        def there() -> bool:
            return any(row["NodeList"] == node and row["StateComplete"] == state for row in self._sinfo())

        self._until(there, f"{node} {state}")

    def _until(self, there: Callable[[], bool], what: str) -> None:
        began = self.side.now()
        while not there():
            if self.side.now() - began > PATIENCE:
                raise AssertionError(f"waited for {what}: {self._sinfo()} {self._squeue()}")
            self.side.wait(STEP)


LEFT_OUT = frozenset({"Account", "QOS", "tres-alloc", "DerivedEC", "Version"})
"""Fields that depend on how a site is set up."""


def name(row: dict[str, str]) -> str:
    return f"{row['ArrayJobID']}_{row['ArrayTaskID']}" if row["ArrayTaskID"] != "N/A" else row["JobID"]


def normal(field: str, value: str, now: float) -> str:
    """A value without what differs from run to run."""
    value = value.strip()
    if field in ("TimeStamp", "SubmitTime", "EligibleTime", "StartTime", "EndTime") and value.isdigit():
        ahead = int(value) - now
        return "past" if ahead <= 3 else "two minutes ahead" if 100 < ahead < 140 else "ahead"
    if field == "PriorityLong":
        return value if value == "0" else "some"
    if field == "StateComplete":
        return value.replace("+planned", "")
    return value


def _last(text: str, key: str) -> str:
    found = re.findall(rf"[ ^]{key}=(\S*)", text)
    return found[-1] if found else "not said"


History = Callable[[Play], None]


def idle(play: Play) -> None:
    play.nodes("nothing runs")
    play.jobs("nothing runs")


def running(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train", nodes=2))
    play.until_job(job, "RUNNING")
    part = play.side.submit(JobSpec(name="part", gpus=3))
    play.until_job(part, "RUNNING")
    wide = play.side.submit(JobSpec(name="wide", nodes=4))
    play.until_job(wide, "PENDING", "Resources")
    play.nodes("two full, one in part")
    play.jobs("two run, one waits")
    play.job("whole nodes", job, "-d")
    play.job("part of a node", part, "-d")


def drain(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train"))
    play.until_job(job, "RUNNING")
    play.do("scontrol", "update", "nodename=gpu0001", "state=drain", "reason=busy one")
    play.do("scontrol", "update", "nodename=gpu0002", "state=drain", "reason=idle one")
    play.do("scontrol", "update", "nodename=gpu0002", "state=drain", "reason=written over")
    play.do("scontrol", "update", "nodename=gpu0003", "state=drain")
    play.do("scontrol", "update", "nodename=gpu0004,nosuch", "state=drain", "reason=half of it")
    play.do("scontrol", "update", "nodename=gpu0003", "state=bogus")
    play.nodes("draining and drained")
    play.do("scancel", job)
    play.until_node("gpu0001", "idle+drain")
    play.do("scontrol", "update", "nodename=gpu0002", "state=resume")
    play.until_node("gpu0002", "idle")
    play.do("scontrol", "update", "nodename=gpu0003", "state=resume")
    play.do("scontrol", "update", "nodename=gpu0003", "state=undrain")
    play.nodes("two resumed")


def requeue(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train", nodes=2))
    play.until_job(job, "RUNNING")
    play.do("scontrol", "requeue", job)
    play.until_job(job, "PENDING", "BeginTime")
    play.jobs("it waits two minutes")
    play.do("scontrol", "requeue", job)
    play.side.wait(3.0)
    play.do("scontrol", "update", f"jobid={job}", "StartTime=now")
    play.until_job(job, "RUNNING")
    play.jobs("it runs again")
    play.do("scontrol", "requeue", "99999")
    fixed = play.side.submit(JobSpec(name="fixed", requeue=False))
    play.until_job(fixed, "RUNNING")
    play.do("scontrol", "requeue", fixed)


def requeue_excluding(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train"))
    play.until_job(job, "RUNNING")
    play.do("scontrol", "update", f"jobid={job}", "ExcNodeList=gpu0001")
    play.do("scontrol", "requeuehold", job)
    play.until_job(job, "PENDING", "held")
    play.jobs("it is held")
    play.side.wait(3.0)
    play.do("scontrol", "update", f"jobid={job}", "ExcNodeList=nosuch")
    play.do("scontrol", "update", f"jobid={job}", "ExcNodeList=gpu0001,gpu0002", "StartTime=now")
    play.job("the list can be read", job)
    play.do("scontrol", "release", job)
    play.until_job(job, "RUNNING")
    play.jobs("it runs elsewhere")


def no_node_left(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train", hold=True))
    play.do("scontrol", "update", f"jobid={job}", "ExcNodeList=gpu000[1-4]")
    play.do("scontrol", "release", job)
    play.until_job(job, "PENDING", "BadConstraints")
    play.jobs("nowhere to run")
    play.do("scontrol", "update", f"jobid={job}", "ExcNodeList=")
    play.until_job(job, "RUNNING")


def too_early(play: Play) -> None:
    """StartTime=now while the run is still ending is taken and forgotten."""
    job = play.side.submit(JobSpec(name="slow end", ignore_term=3.0))
    play.until_job(job, "RUNNING")
    play.side.wait(1.0)
    play.do("scontrol", "requeue", job)
    play.do("scontrol", "update", f"jobid={job}", "StartTime=now")
    play.jobs("it is completing")
    play.until_job(job, "PENDING", "BeginTime")
    play.jobs("it waits all the same")


def hold(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train"))
    play.until_job(job, "RUNNING")
    play.do("scontrol", "hold", job)
    play.jobs("a hold on a running job")
    waits = play.side.submit(JobSpec(name="waits", hold=True))
    play.jobs("held by its owner")
    play.do("scontrol", "hold", waits)
    play.jobs("held by root")
    play.do("scontrol", "release", waits)
    play.until_job(waits, "RUNNING")
    play.do("scontrol", "hold", "99999")
    play.do("scontrol", "release", "99999")


def ends(play: Play) -> None:
    failed = play.side.submit(JobSpec(name="fails", seconds=1, exit_code=3))
    play.until_job(failed, "FAILED")
    well = play.side.submit(JobSpec(name="ends", seconds=1))
    play.until_job(well, "COMPLETED")
    gone = play.side.submit(JobSpec(name="goes"))
    play.until_job(gone, "RUNNING")
    play.do("scancel", gone)
    play.until_job(gone, "CANCELLED")
    play.do("scancel", "99999")
    play.jobs("three ends")
    play.do("scontrol", "update", f"jobid={well}", "AdminComment=late")
    play.do("scontrol", "requeue", failed)
    play.until_job(failed, "PENDING", "BeginTime")
    play.jobs("the failed one waits to run again")


def comments(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train", comment="its own"))
    play.until_job(job, "RUNNING")
    play.do("scontrol", "update", f"jobid={job}", "AdminComment=gputop[abc]: marked")
    play.do("scontrol", "update", f"jobid={job}", "Comment=a=b | c")
    play.jobs("both can be read")


def array(play: Play) -> None:
    job = play.side.submit(JobSpec(name="sweep", array="0-5%2", gpus=8, seconds=4, exit_code=1))
    play.until_job(f"{job}_1", "RUNNING")
    play.jobs("two run, four wait as one")
    play.jobs("each by itself", "-r")
    play.do("scontrol", "hold", f"{job}_5")
    play.until_job(f"{job}_1", "FAILED")
    play.do("scontrol", "requeue", f"{job}_1")
    play.until_job(f"{job}_1", "PENDING", "BeginTime")
    play.until_job(f"{job}_4", "FAILED")
    play.side.wait(1.0)
    play.jobs("one was requeued, one is held", "-r")
    play.do("scontrol", "requeue", f"{job}_[0,1,99]")


def node_dies(play: Play) -> None:
    job = play.side.submit(JobSpec(name="train"))
    fixed = play.side.submit(JobSpec(name="fixed", nodelist=("gpu0001",), gpus=0, requeue=False))
    play.until_job(job, "RUNNING")
    play.until_job(fixed, "RUNNING")
    play.side.slurmd("gpu0001", up=False)
    play.until_node("gpu0001", "down+not_responding")
    play.until_job(job, "PENDING", "BeginTime")
    play.nodes("one is down")
    play.jobs("one waits to run again, one is over")
    play.side.slurmd("gpu0001", up=True)
    play.until_node("gpu0001", "idle")


HISTORIES: dict[str, History] = {
    history.__name__: history
    for history in (
        idle, running, drain, requeue, requeue_excluding, no_node_left, too_early, hold, ends, comments, array,
        node_dies,
    )
}  # fmt: skip
