"""Requeue a job away from nodes: held, given a longer exclude list, read back, and only then released."""

from msgspec import Struct

from gputop.model.actions import Intent, Refusal, Refused
from gputop.model.calls import Abilities, ReleaseJob, RequeueJob, UpdateJob
from gputop.model.jobs import Job
from gputop.model.reading import Unknown
from gputop.model.snapshot import Snapshot
from gputop.recover.actions.requeue import (
    CREDENTIAL,
    END_SECONDS,
    ENDING,
    START_SECONDS,
    died_at_once,
    ended,
    requeue_effects,
)
from gputop.recover.job_checks import BAD, BEGIN_TIME, marking, one_job, requeue_refusals
from gputop.recover.jobs_on import nodes_left
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until


class RequeueExcluding(Struct, frozen=True):
    intent: Intent
    abilities: Abilities | None

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        job = one_job(snap, self.intent.target)
        if isinstance(job, Refusal):
            return (job,)
        if found := requeue_refusals(job):
            return found
        exclude = self.intent.exclude
        if not exclude:
            return (Refusal(Refused.STATE, "no node to exclude is named"),)
        if unknown := [name for name in exclude if name not in snap.nodes]:
            return (Refusal(Refused.GONE, f"not among Slurm's nodes: {', '.join(unknown)}"),)
        if asked := [name for name in exclude if name in job.required]:
            return (Refusal(Refused.STATE, f"the job asks for {', '.join(asked)} by name: it could never start"),)
        if isinstance(job.excluded, Unknown):
            words = f"what {job.id} excludes already would be lost, since it cannot be read: {job.excluded}"
            return (Refusal(Refused.UNKNOWN, words),)
        needed = len(job.nodes or job.last_nodes)
        left = nodes_left(snap, frozenset(job.partition.split(",")), frozenset((*exclude, *job.excluded)))
        if left < needed:
            return (Refusal(Refused.STATE, f"{left} nodes in service would be left, and the job needs {needed}"),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        job = snap.jobs.get(self.intent.target)
        if job is None:
            return ()
        names = ", ".join(self.intent.exclude)
        return (
            *requeue_effects(job, self.abilities, now),
            f"It keeps away from {names}, beside what it excludes already.",
        )

    def typed(self, snap: Snapshot) -> str:
        return ""

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        if not isinstance(before, Job) or isinstance(before.excluded, Unknown):
            return ()
        target, wanted = self.intent.target, frozenset(self.intent.exclude)
        names = ", ".join(self.intent.exclude)
        merged = tuple(dict.fromkeys((*before.excluded, *self.intent.exclude)))

        def listed(subject: Subject | None) -> Look:
            if not isinstance(subject, Job) or isinstance(subject.excluded, Unknown):
                return Look(Sight.NOT_YET, "the exclude list cannot be read")
            words = f"exclude list of {target}: {', '.join(subject.excluded) or 'empty'}"
            return Look(Sight.THERE if wanted <= set(subject.excluded) else Sight.NOT_YET, words)

        def released(subject: Subject | None) -> Look:
            if not isinstance(subject, Job):
                return Look(Sight.NOT_YET, f"job {target} is not in Slurm's answer")
            words = f"job {target} is {subject.state} ({subject.reason or 'no reason'}), restarts {subject.restarts}"
            if died_at_once(subject, before.restarts):
                return Look(Sight.WRONG, f"{words}: it started and ended at once")
            if BAD in subject.reason:
                return Look(Sight.WRONG, f"{words}: no node is left for it; clear its exclude list")
            waits = subject.completing or subject.held or (subject.pending and subject.reason == BEGIN_TIME)
            if waits or subject.restarts <= before.restarts:
                return Look(Sight.NOT_YET, words)
            if isinstance(subject.excluded, Unknown):
                return Look(Sight.NOT_YET, f"{words}; its exclude list cannot be read: {subject.excluded}")
            if not wanted <= set(subject.excluded):
                return Look(Sight.WRONG, f"{words}: its exclude list does not hold {names}")
            return Look(Sight.THERE, words)

        held = f"the job is left held: scontrol release {target}"
        return (
            Send(RequeueJob(target, hold=True)),
            Until(END_SECONDS, ended(before.restarts), f"{ENDING}, and is held then: scontrol release {target}"),
            CREDENTIAL,
            Send(UpdateJob(target, excluded=merged, start_now=True), left=held),
            Until(10.0, listed, f"a plugin of the site may have changed the list; {held}"),
            *marking(before, self.abilities, action_id, self.intent.note or f"requeued without {names}"),
            Send(ReleaseJob(target), left=held),
            Until(START_SECONDS, released, held),
        )

    def undo(self) -> Intent | None:
        return None
