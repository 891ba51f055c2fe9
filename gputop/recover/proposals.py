"""The card: what an intent would do, drawn from a snapshot, and drawn again whenever the world moves; pure."""

import shlex
from collections.abc import Callable

import msgspec

from gputop.model.actions import Intent, Kind, Proposal, ProposalState, Refusal, Refused
from gputop.model.calls import Call
from gputop.model.snapshot import Snapshot
from gputop.recover.fingerprint import fingerprint
from gputop.recover.gate import refusals
from gputop.recover.marks import fits
from gputop.recover.plan import Plan, Send, subject_of
from gputop.recover.plans import plan_for

LIFETIME = 600.0
"""Seconds after which a card is stale by itself."""
_TITLES = {
    Kind.DRAIN: "Drain {target}",
    Kind.RESUME: "Resume {target}",
    Kind.REQUEUE: "Requeue job {target}",
    Kind.REQUEUE_EXCLUDING: "Requeue job {target} without {exclude}",
    Kind.HOLD: "Hold job {target}",
    Kind.RELEASE: "Release job {target}",
    Kind.CANCEL: "Cancel job {target}",
}


def propose(
    proposal_id: str,
    intent: Intent,
    snap: Snapshot,
    now: float,
    *,
    by: str,
    argv: Callable[[Call], tuple[str, ...]],
    ledger_trouble: str,
) -> Proposal:
    """A fresh card."""
    plan = plan_for(intent, snap.abilities)
    subject = subject_of(snap, intent)
    stages = plan.stages(subject, proposal_id) if subject is not None else ()
    stopped = _held_back(proposal_id, plan, snap, now, ledger_trouble)
    try:
        commands = tuple(shlex.join(argv(stage.call)) for stage in stages if isinstance(stage, Send))
    except ValueError as error:
        commands = ()
        stopped = (*stopped, Refusal(Refused.STATE, str(error)))
    return Proposal(
        id=proposal_id,
        intent=intent,
        title=_TITLES[intent.kind].format(target=intent.target, exclude=", ".join(intent.exclude)),
        commands=commands,
        effects=plan.effects(snap, now),
        refusals=stopped,
        typed=plan.typed(snap),
        fingerprint=fingerprint(subject),
        created=now,
        expires=now + LIFETIME,
        by=by,
    )


def _held_back(proposal_id: str, plan: Plan, snap: Snapshot, now: float, trouble: str) -> tuple[Refusal, ...]:
    held = refusals(plan, snap, now, ledger_trouble=trouble)
    if fits(proposal_id):
        return held
    return (*held, Refusal(Refused.STATE, "the card's id cannot stand in a reason: letters, digits and - only"))


def redraw(proposal: Proposal, snap: Snapshot, now: float, *, ledger_trouble: str) -> Proposal:
    """An open card as it is now; stale for ever once its subject changed or its time is up."""
    if proposal.state is not ProposalState.OPEN:
        return proposal
    if now > proposal.expires or fingerprint(subject_of(snap, proposal.intent)) != proposal.fingerprint:
        return msgspec.structs.replace(proposal, state=ProposalState.STALE)
    plan = plan_for(proposal.intent, snap.abilities)
    mistyped = tuple(one for one in proposal.refusals if one.guard is Refused.TYPED)
    stopped = (*_held_back(proposal.id, plan, snap, now, ledger_trouble), *mistyped)
    effects = plan.effects(snap, now)
    if stopped == proposal.refusals and effects == proposal.effects:
        return proposal
    return msgspec.structs.replace(proposal, refusals=stopped, effects=effects)
