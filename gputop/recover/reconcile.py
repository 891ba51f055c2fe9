"""At start-up: what an engine that ended in mid-action left open is settled by reading the world, never by sending."""

import msgspec

from gputop.model.actions import Action, Outcome, Phase, Step
from gputop.model.calls import Scheduler
from gputop.model.clock import Clock
from gputop.model.errors import SourceError
from gputop.model.jobs import Job
from gputop.recover.ledger import Ledger, LedgerError
from gputop.recover.plan import Look, Sight, Subject, Until, still_moving
from gputop.recover.plans import plan_for

SETTLE_SECONDS = 60.0
"""A call that was sent less than this ago may still take effect; its action is looked at again later."""


async def reconcile(ledger: Ledger, scheduler: Scheduler, clock: Clock) -> tuple[Action, ...]:
    """Closes every open action of the ledger that the world can answer for; those it cannot stay open."""
    closed = []
    for action in ledger.open_actions():
        try:
            settled = await _settle(action, ledger, scheduler, clock)
        except SourceError:
            continue
        if settled is None:
            continue
        outcome, says = settled
        now = clock.now()
        step = Step(at=now, phase=Phase.CLOSED, says=f"after a restart: {outcome}: {says}")
        done = msgspec.structs.replace(
            action, phase=Phase.CLOSED, outcome=outcome, says=says, closed_at=now, steps=(*action.steps, step)
        )
        if outcome is Outcome.CONFIRMED:
            done = msgspec.structs.replace(done, undo=plan_for(action.intent, None).undo())
        try:
            ledger.step(action.id, step)
            ledger.close_action(done)
        except LedgerError:
            continue
        closed.append(done)
    return tuple(closed)


async def _settle(action: Action, ledger: Ledger, scheduler: Scheduler, clock: Clock) -> tuple[Outcome, str] | None:
    """How it ended; None while it may still go either way."""
    sent_at = ledger.last_sent(action.id)
    before = ledger.before(action.id)
    if sent_at is None or before is None:
        return Outcome.REFUSED, "the engine ended before anything was sent"
    subject = await _read(action, scheduler)
    looks = [
        stage.check(subject)
        for stage in plan_for(action.intent, None).stages(before, action.id)
        if isinstance(stage, Until)
    ]
    final = looks[-1] if looks else Look(Sight.NOT_YET, "nothing to see")
    if final.sight is Sight.THERE:
        return Outcome.CONFIRMED, final.says
    left = f"; the job is left held: scontrol release {subject.id}" if isinstance(subject, Job) and subject.held else ""
    if final.sight is Sight.NOT_YET and clock.now() - sent_at < SETTLE_SECONDS:
        return None
    certain = final.sight is Sight.WRONG or not still_moving(subject)
    outcome = Outcome.CONTRADICTED if certain else Outcome.UNKNOWN
    return outcome, f"the engine ended in mid-action; now {final.says}{left}"


async def _read(action: Action, scheduler: Scheduler) -> Subject | None:
    target = action.intent.target
    if action.intent.kind.on_node:
        return next((node for node in await scheduler.nodes() if node.name == target), None)
    return next((job for job in await scheduler.tasks((target,)) if job.id == target), None)
