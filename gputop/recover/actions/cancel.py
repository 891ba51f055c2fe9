"""Cancel a job: by a person only, and by a typed word."""

from msgspec import Struct

from gputop.model.actions import Intent, Refusal, Refused
from gputop.model.calls import CancelJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.job_checks import one_job
from gputop.recover.jobs_on import describe
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until

WORD = "cancel"


class Cancel(Struct, frozen=True):
    intent: Intent

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        job = one_job(snap, self.intent.target)
        if isinstance(job, Refusal):
            return (job,)
        if job.ended:
            return (Refusal(Refused.DONE, f"{job.id} has ended already: {job.state.base}"),)
        if job.completing:
            return (Refusal(Refused.DONE, f"{job.id} is ending already: {job.state}"),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        job = snap.jobs.get(self.intent.target)
        if job is None:
            return ()
        words = describe(job, now)
        return (
            f"{words[:1].upper()}{words[1:]} {'never runs' if job.pending else 'is killed'} and does not come back.",
            "A cancel cannot be undone.",
        )

    def typed(self, snap: Snapshot) -> str:
        return WORD

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        def seen(subject: Subject | None) -> Look:
            if not isinstance(subject, Job):
                return Look(Sight.NOT_YET, "the job is not in Slurm's answer")
            words = f"job {subject.id} is {subject.state}"
            if subject.state.base == "cancelled":
                return Look(Sight.THERE, words)
            if subject.ended:
                return Look(Sight.WRONG, f"{words}: it ended by itself first")
            return Look(Sight.NOT_YET, words)

        return (Send(CancelJob(self.intent.target)), Until(60.0, seen, "it may still be ending"))

    def undo(self) -> Intent | None:
        return None
