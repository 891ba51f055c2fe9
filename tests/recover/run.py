"""Helpers of the tests: a card and its run against the small Slurm of world.py."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from gputop.model.actions import Action, Intent, Kind, Proposal
from gputop.model.calls import Answer, AnswerKind, Call, MarkJob
from gputop.model.nodes import Reason
from gputop.recover.executor import Executor
from gputop.recover.ledger import Ledger
from gputop.recover.proposals import propose
from tests.recover.world import NOW, World, job, node

FOREIGN = Reason(text="bad fan", owner="mallory", at=NOW)
OURS = Reason(text="gputop[abc]: x", owner="root", at=NOW)
DRAIN = Intent(kind=Kind.DRAIN, target="gpu1")
RESUME = Intent(kind=Kind.RESUME, target="gpu1")
REQUEUE = Intent(kind=Kind.REQUEUE, target="7")
EXCLUDING = Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",))
HOLD = Intent(kind=Kind.HOLD, target="7")
RELEASE = Intent(kind=Kind.RELEASE, target="7")
CANCEL = Intent(kind=Kind.CANCEL, target="7")


def waiting_job() -> World:
    return World(jobs=(job(state="pending", nodes=()),))


def held_job() -> World:
    return World(jobs=(job(state="pending", nodes=(), priority=0, reason="JobHeldAdmin"),))


def our_drain() -> World:
    return World((node(state="idle+drain", reason=OURS), node("gpu2")))


EVERY_KIND: tuple[tuple[str, Intent, Callable[[], World]], ...] = (
    ("drain", DRAIN, World),
    ("resume", RESUME, our_drain),
    ("requeue", REQUEUE, World),
    ("requeue excluding", EXCLUDING, World),
    ("hold", HOLD, waiting_job),
    ("release", RELEASE, held_job),
    ("cancel", CANCEL, World),
)
"""A name, an intent, and a world in which it may be done."""


def card_for(world: World, intent: Intent, card_id: str = "c1", trouble: str = "") -> Proposal:
    return propose(
        card_id, intent, world.snapshot(), world.clock.now(), by="ann", argv=world.argv, ledger_trouble=trouble
    )


def executor(world: World, ledger: Ledger, told: list[Action] | None = None) -> Executor:
    return Executor(
        scheduler=world,
        ledger=ledger,
        clock=world.clock,
        report=(lambda _action: None) if told is None else told.append,
        seen_nodes=lambda _nodes: None,
        seen_jobs=lambda _jobs: None,
    )


async def act(world: World, ledger: Ledger, intent: Intent, card_id: str = "c1") -> Action:
    card = card_for(world, intent, card_id)
    assert not card.refusals, card.refusals
    runner = executor(world, ledger)
    return await runner.run(runner.reserve(card, "ann"), card, world.snapshot())


def reopened(ledger: Ledger) -> Ledger:
    """The same file, as the next engine finds it."""
    path: Path = ledger.path
    ledger.close()
    return Ledger(path)


def on(kind: type[Call], then: Callable[[], Answer | None]) -> Callable[[Call], Answer | None]:
    """A fault at one kind of call."""
    return lambda call: then() if isinstance(call, kind) else None


def alter(world: World, **changes: object) -> None:
    world.job_table["7"] = msgspec.structs.replace(world.job_table["7"], **changes)


def instead(world: World, **changes: object) -> Callable[[], Answer]:
    """Slurm accepts the call, and something else happens to the job."""

    def happen() -> Answer:
        alter(world, **changes)
        return Answer(AnswerKind.ACCEPTED)

    return happen


def real_calls(world: World) -> list[Call]:
    return [call for call in world.calls if not isinstance(call, MarkJob)]
