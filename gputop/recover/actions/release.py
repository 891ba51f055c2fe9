"""Release a held job: it may start."""

from msgspec import Struct

from gputop.model.actions import Intent, Refusal, Refused
from gputop.model.calls import Abilities, ReleaseJob
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot
from gputop.recover.job_checks import mark_effects, marking, one_job
from gputop.recover.jobs_on import describe
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until

NEVER_RAN = frozenset({"cancelled", "deadline", "revoked"})
"""How a waiting job ends without having been let go."""


class Release(Struct, frozen=True):
    intent: Intent
    abilities: Abilities | None

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
        words = describe(job, now)
        return (
            f"{words[:1].upper()}{words[1:]} starts when nodes are free.",
            f"It is held: {job.reason or 'priority 0'}.",
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
            words = f"job {subject.id} is {subject.state} ({subject.reason or 'no reason'})"
            if subject.state.base in NEVER_RAN:
                return Look(Sight.WRONG, f"{words}: it ended without having run")
            return Look(Sight.NOT_YET if subject.held else Sight.THERE, words)

        marks = marking(before, self.abilities, action_id, self.intent.note or "released by hand")
        return (Send(ReleaseJob(self.intent.target)), *marks, Until(15.0, seen))

    def undo(self) -> Intent | None:
        return None
