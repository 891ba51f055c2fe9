"""Requeue a job: its run ends, and it starts again, without Slurm's two minutes of waiting."""

from collections.abc import Callable

from msgspec import Struct

from gputop.model.actions import Intent, Refusal
from gputop.model.calls import Abilities, RequeueJob, UpdateJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.job_checks import BEGIN_TIME, mark_effects, marking, one_job, requeue_refusals
from gputop.recover.jobs_on import describe
from gputop.recover.plan import Look, Pause, Send, Sight, Stage, Subject, Until

END_SECONDS = 60.0
"""Until a run has ended: KillWait is 30 s by default, and Slurm takes its time after it."""
ENDING = "it may still be ending its run"
START_SECONDS = 20.0
CREDENTIAL = Pause(2.5, "a run that starts within a second of its end is refused by the node, and the job dies of it")
"""slurmd takes the new run's credential for the revoked one when both carry the same second (seen on 22.05)."""


class Requeue(Struct, frozen=True):
    intent: Intent
    abilities: Abilities | None

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        job = one_job(snap, self.intent.target)
        return (job,) if isinstance(job, Refusal) else requeue_refusals(job)

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        job = snap.jobs.get(self.intent.target)
        return () if job is None else requeue_effects(job, self.abilities, now)

    def typed(self, snap: Snapshot) -> str:
        return ""

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        if not isinstance(before, Job):
            return ()
        restarts, target = before.restarts, self.intent.target

        def again(subject: Subject | None) -> Look:
            if not isinstance(subject, Job):
                return Look(Sight.NOT_YET, f"job {target} is not in Slurm's answer")
            words = f"job {target} is {subject.state} ({subject.reason or 'no reason'}), restarts {subject.restarts}"
            if died_at_once(subject, restarts):
                return Look(Sight.WRONG, f"{words}: it started and ended at once")
            waits = subject.pending and (subject.held or subject.reason == BEGIN_TIME)
            if subject.restarts > restarts and not waits and not subject.completing:
                return Look(Sight.THERE, words)
            return Look(Sight.NOT_YET, words)

        return (
            Send(RequeueJob(target)),
            Until(END_SECONDS, ended(restarts), f"{ENDING}, and waits two minutes more then"),
            CREDENTIAL,
            Send(UpdateJob(target, start_now=True), left="it waits about two minutes before it may start"),
            *marking(before, self.abilities, action_id, self.intent.note or "requeued by hand"),
            Until(START_SECONDS, again),
        )

    def undo(self) -> Intent | None:
        return None


def requeue_effects(job: Job, abilities: Abilities | None, now: float) -> tuple[str, ...]:
    """What a requeue costs its owner."""
    lost = f"The run of {describe(job, now)} ends; what it did since its last checkpoint is lost."
    if job.ended:
        lost = f"{describe(job, now)[:1].upper()}{describe(job, now)[1:]} runs again; it is {job.state.base} now."
    return (
        lost,
        f"It goes back to the queue and starts when nodes are free; restarts so far: {job.restarts}.",
        "A requeue cannot be undone.",
        *mark_effects(job, abilities),
    )


def ended(restarts: int) -> Callable[[Subject | None], Look]:
    """A check: the run has ended, and the job has one restart more; it waits, or a site lets it start at once."""

    def check(subject: Subject | None) -> Look:
        if not isinstance(subject, Job):
            return Look(Sight.NOT_YET, "the job is not in Slurm's answer")
        words = f"job {subject.id} is {subject.state}, restarts {subject.restarts}"
        again = subject.restarts > restarts and (subject.pending or subject.running) and not subject.completing
        return Look(Sight.THERE if again else Sight.NOT_YET, words)

    return check


def died_at_once(job: Job, restarts: int) -> bool:
    """Whether the new run has already ended badly: then nothing is confirmed."""
    return job.restarts > restarts and job.ended and job.state.base != "completed"
