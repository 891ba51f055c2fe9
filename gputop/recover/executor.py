"""Carrying out one approved action: reserve, check again, send, read back, close. Nothing is ever sent twice."""

import contextlib
import shlex
from collections.abc import Callable
from dataclasses import replace

import msgspec

from gputop.model.actions import Action, Intent, Outcome, Phase, Proposal, Step
from gputop.model.calls import Answer, AnswerKind, Scheduler
from gputop.model.clock import Clock
from gputop.model.errors import SourceError
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.recover.fingerprint import fingerprint
from gputop.recover.gate import refusals
from gputop.recover.ledger import Ledger, LedgerError
from gputop.recover.plan import Look, Pause, Plan, Send, Sight, Stage, Subject, Until, still_moving
from gputop.recover.plans import plan_for

LOOK_SECONDS = 0.5
"""Between two reads while an action is open."""


class Executor:
    """Runs actions against Slurm; tells everyone each step through report, and what it read through seen_*."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        ledger: Ledger,
        clock: Clock,
        report: Callable[[Action], None],
        seen_nodes: Callable[[tuple[Node, ...]], None],
        seen_jobs: Callable[[tuple[Job, ...]], None],
    ) -> None:
        self._scheduler = scheduler
        self._ledger = ledger
        self._clock = clock
        self._report = report
        self._seen_nodes = seen_nodes
        self._seen_jobs = seen_jobs
        self._current: dict[str, Action] = {}

    def reserve(self, proposal: Proposal, by: str) -> Action:
        """Takes the target, on disk, before the first await; raises LedgerError when that cannot be."""
        now = self._clock.now()
        asked = Step(at=now, phase=Phase.ASKED, says=f"asked by {by}")
        action = Action(
            id=proposal.id,
            intent=proposal.intent,
            by=by,
            asked_at=now,
            phase=Phase.ASKED,
            says=asked.says,
            steps=(asked,),
        )
        self._ledger.reserve(action)
        self._report(action)
        return action

    async def run(self, action: Action, proposal: Proposal, snap: Snapshot) -> Action:
        """From a reserved action to its end."""
        try:
            return await self._run(action, proposal, snap)
        except Exception as error:  # noqa: BLE001 - one action's fault is its outcome, on the screen and in the ledger
            action = self._current.get(action.id, action)
            says = f"a fault of gputop's own: {type(error).__name__}: {error}"
            return self._close(action, Outcome.UNKNOWN, says)
        finally:
            self._current.pop(action.id, None)

    async def _run(self, action: Action, proposal: Proposal, snap: Snapshot) -> Action:
        plan = plan_for(action.intent, snap.abilities)
        before, refused = await self._check_again(action, plan, proposal, snap)
        if before is None:
            return self._close(action, Outcome.REFUSED, refused)
        try:
            self._ledger.remember(action.id, before)
        except LedgerError as error:
            return self._close(action, Outcome.REFUSED, f"nothing was sent: {error}")
        return await self._carry_out(action, plan, before)

    async def _check_again(
        self, action: Action, plan: Plan, proposal: Proposal, snap: Snapshot
    ) -> tuple[Subject | None, str]:
        """The subject by a fresh read, or why it is not acted on."""
        others = {key: one for key, one in snap.actions.items() if key != action.id}
        now = self._clock.now()
        snap = replace(snap, actions=others)
        held = refusals(plan, snap, now, ledger_trouble=self._ledger.trouble)
        if held:
            return None, held[0].says
        try:
            subject = await self._look(action.intent)
        except SourceError as error:
            return None, f"Slurm could not be read just before acting: {error}"
        if subject is None:
            return None, f"{action.intent.target} is gone"
        subject = _as_known(subject, snap)
        if fingerprint(subject) != proposal.fingerprint:
            return None, f"{action.intent.target} changed since the card was drawn"
        if held := plan.refuse(_with(snap, subject)):
            return None, held[0].says
        return subject, ""

    async def _carry_out(self, action: Action, plan: Plan, before: Subject) -> Action:
        """Stage by stage; what cannot be recorded is not sent, and then says how the subject was left."""
        left = ""
        sent = 0
        doubtful = ""
        stages = plan.stages(before, action.id)
        for stage in stages:
            if isinstance(stage, Pause):
                action = self._step(action, action.phase, f"waiting {stage.seconds:g} s: {stage.why}")
                await self._clock.sleep(stage.seconds)
                continue
            if isinstance(stage, Until):
                left = stage.left
                look, subject = await self._until(action, stage)
                if look.sight is Sight.THERE:
                    doubtful = ""
                    action = self._step(action, Phase.SEEN, look.says)
                    continue
                certain = look.sight is Sight.WRONG or (not doubtful and not still_moving(subject))
                outcome = Outcome.CONTRADICTED if certain else Outcome.UNKNOWN
                return self._close(action, outcome, _words(look.says, doubtful, left))
            left = stage.left or left
            try:
                command = shlex.join(self._scheduler.argv(stage.call))
                self._ledger.step(
                    action.id,
                    Step(at=self._clock.now(), phase=action.phase, says=f"sending: {command}"),
                    sent=True,
                )
            except (LedgerError, ValueError) as error:
                if stage.optional:
                    continue
                if sent == 0:
                    return self._close(action, Outcome.REFUSED, f"nothing was sent: {error}")
                return self._close(action, Outcome.UNKNOWN, _words(f"stopped: {error}", doubtful, left))
            answer = await self._call(stage)
            words = answer.words or "no words"
            if answer.kind is AnswerKind.ACCEPTED:
                action = self._step(action, Phase.ACCEPTED, f"Slurm accepted: {command}")
            elif stage.optional:
                action = self._step(action, action.phase, f"not marked: {words}")
            elif answer.kind is AnswerKind.UNKNOWN:
                action = self._step(action, action.phase, f"no answer ({words}): it may still take effect, reading")
            elif sent == 0:
                return self._close(action, Outcome.REFUSED, f"Slurm: {words}")
            else:
                return await self._close_refused(action, plan, stages, words, left)
            if not stage.optional:
                sent += 1
                doubtful = words if answer.kind is AnswerKind.UNKNOWN else doubtful
        return self._close(action, Outcome.CONFIRMED, action.steps[-1].says, undo=plan.undo())

    async def _call(self, stage: Send) -> Answer:
        try:
            return await self._scheduler.call(stage.call)
        except Exception as error:  # noqa: BLE001 - the call may be out: no answer, and never a second try
            return Answer(AnswerKind.UNKNOWN, f"{type(error).__name__}: {error}")

    async def _close_refused(
        self, action: Action, plan: Plan, stages: tuple[Stage, ...], words: str, left: str
    ) -> Action:
        """Slurm refused a later call: what was wanted may be there all the same, so one look decides."""
        refused = f"Slurm refused a later step: {words}"
        try:
            subject = await self._look(action.intent)
        except SourceError as error:
            return self._close(action, Outcome.UNKNOWN, _words(f"{refused}; Slurm cannot be read: {error}", "", left))
        final = next(stage for stage in reversed(stages) if isinstance(stage, Until)).check(subject)
        if final.sight is Sight.THERE:
            action = self._step(action, Phase.SEEN, f"{final.says}, although {refused}")
            return self._close(action, Outcome.CONFIRMED, action.says, undo=plan.undo())
        return self._close(action, Outcome.CONTRADICTED, _words(f"{refused}; {final.says}", "", left))

    async def _until(self, action: Action, stage: Until) -> tuple[Look, Subject | None]:
        """The last look, and what it was taken at; None when it could not be read or was not there."""
        deadline = self._clock.now() + stage.seconds
        while True:
            subject = None
            try:
                subject = await self._look(action.intent)
                look = stage.check(subject)
            except SourceError as error:
                look = Look(Sight.NOT_YET, f"Slurm cannot be read: {error}")
            if look.sight is not Sight.NOT_YET or self._clock.now() >= deadline:
                return look, subject
            await self._clock.sleep(LOOK_SECONDS)

    async def _look(self, intent: Intent) -> Subject | None:
        """A fresh read of the subject; everyone sees what was read."""
        if intent.kind.on_node:
            nodes = await self._scheduler.nodes()
            self._seen_nodes(nodes)
            return next((node for node in nodes if node.name == intent.target), None)
        jobs = await self._scheduler.tasks((intent.target,))
        self._seen_jobs(jobs)
        return next((job for job in jobs if job.id == intent.target), None)

    def _step(self, action: Action, phase: Phase, says: str) -> Action:
        """One more step, shown to everyone; whether the ledger can be written is asked again before the next call."""
        step = Step(at=self._clock.now(), phase=phase, says=says)
        with contextlib.suppress(LedgerError):
            self._ledger.step(action.id, step)
        action = msgspec.structs.replace(action, phase=phase, says=says, steps=(*action.steps, step))
        self._current[action.id] = action
        self._report(action)
        return action

    def _close(self, action: Action, outcome: Outcome, says: str, undo: Intent | None = None) -> Action:
        now = self._clock.now()
        step = Step(at=now, phase=Phase.CLOSED, says=f"{outcome}: {says}")
        action = msgspec.structs.replace(
            action,
            phase=Phase.CLOSED,
            outcome=outcome,
            says=says,
            closed_at=now,
            undo=undo,
            steps=(*action.steps, step),
        )
        try:
            self._ledger.step(action.id, step)
            self._ledger.close_action(action)
        except LedgerError as error:
            action = msgspec.structs.replace(action, says=f"{says} (and the ledger cannot be written: {error})")
        self._report(action)
        return action


def _as_known(subject: Subject, snap: Snapshot) -> Subject:
    """A fresh read, with what Slurm does not say of it and we knew already."""
    if isinstance(subject, Node):
        node = snap.nodes.get(subject.name)
        return subject if node is None else msgspec.structs.replace(subject, boot_time=node.boot_time)
    job = snap.jobs.get(subject.id)
    last = job.last_nodes if job is not None else ()
    return msgspec.structs.replace(subject, last_nodes=subject.nodes or last)


def _with(snap: Snapshot, subject: Subject) -> Snapshot:
    if isinstance(subject, Node):
        return replace(snap, nodes={**snap.nodes, subject.name: subject})
    return replace(snap, jobs={**snap.jobs, subject.id: subject})


def _words(says: str, doubtful: str, left: str) -> str:
    parts = [says]
    if doubtful:
        parts.append(f"the call was not answered ({doubtful})")
    if left:
        parts.append(left)
    return "; ".join(parts)
