"""Release a held job: it may start."""

from msgspec import Struct

from gputop.model.actions import Intent, Refusal, Refused
from gputop.model.calls import ReleaseJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.job_checks import one_job
from gputop.recover.jobs_on import describe
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until


class Release(Struct, frozen=True):
    intent: Intent

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        job = one_job(snap, self.intent.target)
        if isinstance(job, Refusal):
            return (job,)
        if not job.held:
            return (Refusal(Refused.DONE, f"{job.id} is not held: {job.state.base} {job.reason}".strip()),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        job = snap.jobs.get(self.intent.target)
        if job is None:
            return ()
        return (f"{describe(job, now)} starts when nodes are free.", f"It was held: {job.reason}.")

    def typed(self, snap: Snapshot) -> str:
        return ""

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        def seen(subject: Subject | None) -> Look:
            if not isinstance(subject, Job):
                return Look(Sight.NOT_YET, "the job is not in Slurm's answer")
            words = f"job {subject.id} is {subject.state} ({subject.reason or 'no reason'})"
            return Look(Sight.NOT_YET if subject.held else Sight.THERE, words)

        return (Send(ReleaseJob(self.intent.target)), Until(15.0, seen))

    def undo(self) -> Intent | None:
        return None
