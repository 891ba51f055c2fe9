"""Hold a waiting job: it does not start until it is released."""

from msgspec import Struct

from gputop.model.actions import Intent, Kind, Refusal, Refused
from gputop.model.calls import Abilities, HoldJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.job_checks import mark_effects, marking, one_job
from gputop.recover.jobs_on import describe
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until


class Hold(Struct, frozen=True):
    intent: Intent
    abilities: Abilities | None

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        job = one_job(snap, self.intent.target)
        if isinstance(job, Refusal):
            return (job,)
        if job.held:
            return (Refusal(Refused.DONE, f"{job.id} is held already: {job.reason}"),)
        if not job.pending:
            words = f"{job.id} is {job.state.base}: a hold would say yes and take effect at its next requeue only"
            return (Refusal(Refused.STATE, words),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        job = snap.jobs.get(self.intent.target)
        if job is None:
            return ()
        words = describe(job, now)
        return (
            f"{words[:1].upper()}{words[1:]} waits until it is released; its owner cannot release it.",
            "Undone by release.",
            *mark_effects(job, self.abilities),
        )

    def typed(self, snap: Snapshot) -> str:
        return ""

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        if not isinstance(before, Job):
            return ()

        def seen(subject: Subject | None) -> Look:
            if not isinstance(subject, Job):
                return Look(Sight.NOT_YET, "the job is not in Slurm's answer")
            words = f"job {subject.id} is {subject.state} ({subject.reason})"
            if not subject.pending:
                lift = f"the hold waits for its next requeue: scontrol release {subject.id}"
                return Look(Sight.WRONG, f"{words}: it left the queue first; {lift}")
            return Look(Sight.THERE if subject.held else Sight.NOT_YET, words)

        marks = marking(before, self.abilities, action_id, self.intent.note or "held by hand")
        return (Send(HoldJob(self.intent.target)), *marks, Until(15.0, seen))

    def undo(self) -> Intent | None:
        return Intent(kind=Kind.RELEASE, target=self.intent.target)
