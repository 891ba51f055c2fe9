"""Carrying out one approved action: reserve, check again, send, read back, close. Nothing is ever sent twice."""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from gputop.model.actions import Action, Intent, Outcome, Phase, Proposal, Step
from gputop.model.calls import AnswerKind, Scheduler
from gputop.model.clock import Clock
from gputop.model.errors import SourceError
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.recover.fingerprint import fingerprint
from gputop.recover.gate import refusals
from gputop.recover.ledger import Ledger, LedgerError
from gputop.recover.plan import Look, Pause, Plan, Send, Sight, Subject, Until
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

    def reserve(self, proposal: Proposal, by: str) -> Action:
        """Takes the target, on disk, before the first await; raises LedgerError when that cannot be."""
        now = self._clock.now()
        action = Action(id=proposal.id, intent=proposal.intent, by=by, asked_at=now, phase=Phase.ASKED)
        self._ledger.reserve(action)
        return self._step(action, Phase.ASKED, f"asked by {by}")

    async def run(self, action: Action, proposal: Proposal, snap: Snapshot) -> Action:
        """From a reserved action to its end."""
        plan = plan_for(action.intent, snap.abilities)
        try:
            before, refused = await self._check_again(action, plan, proposal, snap)
            if before is None:
                return self._close(action, Outcome.REFUSED, refused)
            try:
                self._ledger.remember(action.id, before)
            except LedgerError as error:
                return self._close(action, Outcome.REFUSED, f"nothing was sent: {error}")
            return await self._carry_out(action, plan, before)
        except LedgerError as error:
            return self._close(action, Outcome.UNKNOWN, f"stopped: {error}")

    async def _check_again(
        self, action: Action, plan: Plan, proposal: Proposal, snap: Snapshot
    ) -> tuple[Subject | None, str]:
        """The subject by a fresh read, or why it is not acted on."""
        others = {key: one for key, one in snap.actions.items() if key != action.id}
        now = self._clock.now()
        held = refusals(plan, replace(snap, actions=others), now, ledger_trouble=self._ledger.trouble)
        if held:
            return None, held[0].says
        try:
            subject = await self._look(action.intent)
        except SourceError as error:
            return None, f"Slurm could not be read just before acting: {error}"
        if subject is None:
            return None, f"{action.intent.target} is gone"
        known = proposal.fingerprint
        if isinstance(subject, Node):
            boot = snap.nodes[subject.name].boot_time if subject.name in snap.nodes else subject.boot_time
            subject = msgspec.structs.replace(subject, boot_time=boot)
        if fingerprint(subject) != known:
            return None, f"{action.intent.target} changed since the card was drawn"
        return subject, ""

    async def _carry_out(self, action: Action, plan: Plan, before: Subject) -> Action:
        doubtful = ""
        sent = 0
        for stage in plan.stages(before, action.id):
            if isinstance(stage, Pause):
                action = self._step(action, action.phase, f"waiting {stage.seconds:g} s: {stage.why}")
                await self._clock.sleep(stage.seconds)
                continue
            if isinstance(stage, Until):
                look, answered = await self._until(action, stage)
                if look.sight is Sight.THERE:
                    doubtful = ""
                    action = self._step(action, Phase.SEEN, look.says)
                    continue
                outcome = Outcome.CONTRADICTED if answered and not doubtful else Outcome.UNKNOWN
                if look.sight is Sight.WRONG:
                    outcome = Outcome.CONTRADICTED
                return self._close(action, outcome, _words(look.says, doubtful, stage.left))
            action, kind, words = await self._send(action, stage)
            if stage.optional:
                continue
            if kind is AnswerKind.REFUSED:
                if sent == 0:
                    return self._close(action, Outcome.REFUSED, f"Slurm: {words}")
                return self._close(action, Outcome.CONTRADICTED, f"Slurm refused a later step: {words}")
            sent += 1
            if kind is AnswerKind.UNKNOWN:
                doubtful = words
        last = action.steps[-1].says if action.steps else ""
        return self._close(action, Outcome.CONFIRMED, last, undo=plan.undo())

    async def _send(self, action: Action, stage: Send) -> tuple[Action, AnswerKind, str]:
        command = " ".join(self._scheduler.argv(stage.call))
        said = Step(at=self._clock.now(), phase=action.phase, says=f"sending: {command}")
        self._ledger.step(action.id, said, sent=True)
        answer = await self._scheduler.call(stage.call)
        words = answer.words or "no words"
        if answer.kind is AnswerKind.ACCEPTED:
            action = self._step(action, Phase.ACCEPTED, f"Slurm accepted: {command}")
        elif stage.optional:
            action = self._step(action, action.phase, f"not marked: {words}")
        elif answer.kind is AnswerKind.UNKNOWN:
            action = self._step(action, action.phase, f"no answer ({words}): it may still take effect, reading")
        return action, answer.kind, words

    async def _until(self, action: Action, stage: Until) -> tuple[Look, bool]:
        """The last look, and whether the last read worked."""
        deadline = self._clock.now() + stage.seconds
        look, answered = Look(Sight.NOT_YET, "nothing was read"), False
        while True:
            try:
                look, answered = stage.check(await self._look(action.intent)), True
            except SourceError as error:
                look, answered = Look(Sight.NOT_YET, f"Slurm cannot be read: {error}"), False
            if look.sight is not Sight.NOT_YET or self._clock.now() >= deadline:
                return look, answered
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
        step = Step(at=self._clock.now(), phase=phase, says=says)
        self._ledger.step(action.id, step)
        action = msgspec.structs.replace(action, phase=phase, says=says, steps=(*action.steps, step))
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


def _words(says: str, doubtful: str, left: str) -> str:
    parts = [says]
    if doubtful:
        parts.append(f"the call was not answered ({doubtful})")
    if left:
        parts.append(left)
    return "; ".join(parts)
