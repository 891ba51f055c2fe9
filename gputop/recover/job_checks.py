"""What every action on a job asks and sees."""

from gputop.model.actions import Refusal, Refused
from gputop.model.calls import Abilities, Ability, MarkJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.marks import is_ours, mark
from gputop.recover.plan import Send

BEGIN_TIME = "BeginTime"
BAD = "BadConstraints"


def one_job(snap: Snapshot, target: str) -> Job | Refusal:
    """The job, or why there is not exactly one: a bundle or a bare array id would hit every task of an array."""
    job = snap.jobs.get(target)
    if job is None:
        if any(other.array_id == target for other in snap.jobs.values()):
            return Refusal(Refused.STATE, f"{target} is an array: name one task, such as {target}_0")
        if target != (array := target.partition("_")[0]) and any(
            other.array_id == array and other.bundle for other in snap.jobs.values()
        ):
            return Refusal(Refused.UNKNOWN, f"{target} is not read apart from the waiting tasks of array {array}")
        return Refusal(Refused.GONE, f"Slurm knows no job {target}")
    if job.bundle:
        return Refusal(Refused.STATE, f"{target} stands for {job.tasks} waiting tasks: name one")
    if "+" in job.id:
        return Refusal(Refused.STATE, f"{target} is a part of a heterogeneous job, which Slurm handles as a whole only")
    return job


def requeue_refusals(job: Job) -> tuple[Refusal, ...]:
    """Why Slurm or its owner would not have this job run again."""
    if job.pending:
        return (Refusal(Refused.DONE, f"{job.id} waits already: {job.reason or 'pending'}"),)
    if not job.batch:
        return (Refusal(Refused.STATE, f"{job.id} was not started by sbatch: only batch jobs can be requeued"),)
    if not job.requeueable:
        return (Refusal(Refused.STATE, f"{job.id} was submitted with --no-requeue, and its owner's word is kept"),)
    if job.completing:
        return (Refusal(Refused.STATE, f"{job.id} is completing: wait until it has ended"),)
    return ()


def marking(job: Job, abilities: Abilities | None, action_id: str, note: str) -> tuple[Send, ...]:
    """Our mark in AdminComment, where it is empty or ours and this account may write it."""
    if _unmarked(job, abilities):
        return ()
    return (Send(MarkJob(job.id, mark(action_id, note)), optional=True),)


def mark_effects(job: Job, abilities: Abilities | None) -> tuple[str, ...]:
    """Where our mark is found later, when it cannot be on the job."""
    why = _unmarked(job, abilities)
    return (f"Only the ledger will say that gputop did it: {why}.",) if why else ()


def _unmarked(job: Job, abilities: Abilities | None) -> str:
    """Why the job cannot carry our mark; "" when it can."""
    if job.admin_comment and not is_ours(job.admin_comment):
        return f"its AdminComment is somebody else's ({job.admin_comment})"
    if abilities is None or abilities.marks is not Ability.YES:
        return "this account may not write AdminComment, or it is not known whether it may"
    return ""
