"""The one gate, pure: every guard answers in words, for the screen and the shell alike."""

from collections.abc import Mapping

from gputop.model.actions import Action, Intent, Refusal, Refused
from gputop.model.calls import Ability
from gputop.model.snapshot import Snapshot, Source
from gputop.recover.plan import Plan


def refusals(plan: Plan, snap: Snapshot, now: float, *, ledger_trouble: str) -> tuple[Refusal, ...]:
    """Every reason why this may not run now, the most telling first; none opens the door."""
    intent = plan.intent
    found = (
        read_only(snap),
        ledger(ledger_trouble),
        fresh(snap, intent, now),
        *plan.refuse(snap),
        busy(snap.actions, intent),
        able(snap, intent),
    )
    return tuple(one for one in found if one is not None)


def read_only(snap: Snapshot) -> Refusal | None:
    """An engine that was told to touch nothing."""
    if snap.about is not None and snap.about.read_only:
        return Refusal(Refused.READ_ONLY, "this gputop is read-only")
    return None


def ledger(trouble: str) -> Refusal | None:
    """What cannot be recorded is not done."""
    return Refusal(Refused.LEDGER, f"the ledger cannot be written: {trouble}") if trouble else None


def fresh(snap: Snapshot, intent: Intent, now: float) -> Refusal | None:
    """Nothing is done on what was true a while ago."""
    for name in ("slurm.nodes",) if intent.kind.on_node else ("slurm.jobs", "slurm.nodes"):
        source = snap.sources.get(name)
        if source is None or source.stale(now):
            return Refusal(Refused.STALE, f"{name} is not fresh: {_age(source, now)}")
    return None


def _age(source: Source | None, now: float) -> str:
    if source is None or not isinstance(source.read_at, float):
        return source.trouble if source is not None and source.trouble else "never read"
    return f"last read {now - source.read_at:.0f} s ago{': ' + source.trouble if source.trouble else ''}"


def busy(actions: Mapping[str, Action], intent: Intent) -> Refusal | None:
    """One action at a time on one subject."""
    for action in actions.values():
        if action.open and action.intent.target == intent.target:
            return Refusal(Refused.BUSY, f"{action.intent.kind} of {intent.target} by {action.by} is still open")
    return None


def able(snap: Snapshot, intent: Intent) -> Refusal | None:
    """What Slurm is known to refuse is not tried; what is unknown is."""
    abilities = snap.abilities
    if abilities is None:
        return None
    if intent.kind.on_node and abilities.nodes is Ability.NO:
        return Refusal(Refused.ABILITY, f"{abilities.account} may not change nodes: {abilities.detail}")
    job = snap.jobs.get(intent.target)
    if job is not None and abilities.jobs is Ability.NO and job.user != abilities.account:
        return Refusal(Refused.ABILITY, f"{abilities.account} may not touch jobs of {job.user}: {abilities.detail}")
    return None
