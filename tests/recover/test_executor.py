"""An approved action among faults: what is sent, what is not, and the words in which it ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.model.actions import Action, Intent, Outcome, Phase
from gputop.model.calls import (
    Answer,
    AnswerKind,
    Call,
    MarkJob,
    ReleaseJob,
    RequeueJob,
    UpdateJob,
)
from gputop.model.errors import SourceDown
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.recover.executor import Executor
from gputop.recover.ledger import Ledger, LedgerError
from tests.recover.run import (
    CANCEL,
    DRAIN,
    EVERY_KIND,
    EXCLUDING,
    FOREIGN,
    HOLD,
    RELEASE,
    REQUEUE,
    RESUME,
    act,
    card_for,
    executor,
    on,
    real_calls,
    reopened,
    waiting_job,
)
from tests.recover.world import World, job, node

NO = Answer(AnswerKind.REFUSED, "Access/permission denied")
LOST = Answer(AnswerKind.UNKNOWN, "timed out")
KINDS = [pytest.param(intent, make, id=name) for name, intent, make in EVERY_KIND]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger.sqlite")
    yield made
    made.close()


# ---- what the next person reads ----


@pytest.mark.parametrize(("intent", "make"), KINDS)
async def test_every_step_is_shown_and_the_last_one_carries_the_outcome(
    intent: Intent, make: Callable[[], World], ledger: Ledger
) -> None:
    world, told = make(), list[Action]()
    card = card_for(world, intent)
    runner = executor(world, ledger, told)
    done = await runner.run(runner.reserve(card, "ann"), card, world.snapshot())
    assert told[0].phase is Phase.ASKED
    assert told[-1] == done
    assert [len(one.steps) for one in told] == list(range(1, len(told) + 1))
    assert done.steps[-1].says.startswith("confirmed: ")
    (kept,) = reopened(ledger).recent(1)
    assert (kept.outcome, kept.says, kept.closed_at) == (done.outcome, done.says, done.closed_at)
    sendings = [step.says for step in kept.steps if step.says.startswith("sending: ")]
    assert [text.removeprefix("sending: ") for text in sendings] == list(card.commands)


@pytest.mark.parametrize(
    ("intent", "make", "undo"),
    [
        pytest.param(DRAIN, World, RESUME, id="a drain by a resume"),
        pytest.param(HOLD, waiting_job, RELEASE, id="a hold by a release"),
        pytest.param(REQUEUE, World, None, id="a requeue by nothing"),
        pytest.param(CANCEL, World, None, id="a cancel by nothing"),
    ],
)
async def test_what_takes_it_back(
    intent: Intent, make: Callable[[], World], undo: Intent | None, ledger: Ledger
) -> None:
    assert (await act(make(), ledger, intent)).undo == undo


async def test_an_undo_of_our_drain_needs_no_typed_word(ledger: Ledger) -> None:
    world = World()
    done = await act(world, ledger, DRAIN)
    assert done.undo is not None
    assert card_for(world, done.undo, "c2").typed == ""


# ---- the second look, just before sending ----


@pytest.mark.parametrize(
    ("intent", "make", "change", "words"),
    [
        pytest.param(
            DRAIN,
            World,
            lambda world: world.node_table.update(gpu1=node(state="idle+drain", reason=FOREIGN)),
            "changed",
            id="somebody drained it",
        ),
        pytest.param(
            DRAIN, World, lambda world: world.node_table.pop("gpu1"), "gpu1 is gone", id="the node left the cluster"
        ),
        pytest.param(CANCEL, World, lambda world: world.job_table.pop("7"), "7 is gone", id="the job left Slurm"),
        pytest.param(
            CANCEL,
            World,
            lambda world: world.job_table.update({"7": job(submit_time=1.0)}),
            "changed",
            id="another job by the same number",
        ),
        pytest.param(
            REQUEUE,
            World,
            lambda world: world.job_table.update({"7": job(requeueable=False)}),
            "--no-requeue",
            id="its owner forbade the requeue",
        ),
        pytest.param(
            HOLD,
            waiting_job,
            lambda world: world.job_table.update({"7": job()}),
            "changed",
            id="the job started",
        ),
    ],
)
async def test_what_changed_since_the_card_is_seen_by_a_fresh_read_and_nothing_is_sent(
    intent: Intent,
    make: Callable[[], World],
    change: Callable[[World], object],
    words: str,
    ledger: Ledger,
) -> None:
    world = make()
    card, known = card_for(world, intent), world.snapshot()
    change(world)
    runner = executor(world, ledger)
    action = await runner.run(runner.reserve(card, "ann"), card, known)
    assert action.outcome is Outcome.REFUSED
    assert words in action.says
    assert world.calls == []
    assert action.undo is None


async def test_a_node_that_rebooted_since_the_card_is_left_alone(ledger: Ledger) -> None:
    world = World()
    card = card_for(world, DRAIN)
    world.node_table["gpu1"] = node(boot_time=world.clock.now())
    runner = executor(world, ledger)
    action = await runner.run(runner.reserve(card, "ann"), card, world.snapshot())
    assert action.outcome is Outcome.REFUSED
    assert world.calls == []


async def test_slurm_not_being_readable_just_before_refuses_and_sends_nothing(ledger: Ledger) -> None:
    world = World()
    card, known = card_for(world, REQUEUE), world.snapshot()
    world.down = True
    runner = executor(world, ledger)
    action = await runner.run(runner.reserve(card, "ann"), card, known)
    assert action.outcome is Outcome.REFUSED
    assert "could not be read" in action.says
    assert world.calls == []


async def test_every_fresh_read_is_shown_to_everyone(ledger: Ledger) -> None:
    world, nodes, jobs = World(), list[tuple[Node, ...]](), list[tuple[Job, ...]]()
    for card_id, intent in (("c1", DRAIN), ("c2", REQUEUE)):
        card = card_for(world, intent, card_id)
        runner = Executor(
            scheduler=world,
            ledger=ledger,
            clock=world.clock,
            report=lambda _action: None,
            seen_nodes=nodes.append,
            seen_jobs=jobs.append,
        )
        await runner.run(runner.reserve(card, "ann"), card, world.snapshot())
    assert len(nodes) == 2, "one before the drain, one after it"
    assert {one.state.base for (one,) in jobs} == {"running", "completing", "pending"}


# ---- answers that never come ----


@pytest.mark.parametrize(("intent", "make"), KINDS)
async def test_an_adapter_that_breaks_in_the_middle_of_a_call_is_an_unknown_answer(
    intent: Intent, make: Callable[[], World], ledger: Ledger
) -> None:
    world = make()

    def broken(call: Call) -> Answer | None:
        if isinstance(call, MarkJob | UpdateJob | ReleaseJob) and intent is not RELEASE:
            return None
        world._apply(call)
        raise ConnectionResetError("the login node went away")

    world.fail = broken
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.CONFIRMED, action.says
    assert any("ConnectionResetError" in step.says for step in action.steps)
    assert len(world.calls) == len({repr(call) for call in world.calls})


async def test_a_late_effect_of_an_unanswered_call_is_waited_for(ledger: Ledger) -> None:
    world = World()
    due: list[tuple[float, Call]] = []

    def later(call: Call) -> Answer:
        due.append((world.clock.now() + 9, call))
        return LOST

    read = world.nodes

    async def nodes() -> tuple[Node, ...]:
        for at, call in due:
            if world.clock.now() >= at:
                world._apply(call)
        return await read()

    world.fail, world.nodes = later, nodes  # type: ignore[method-assign]
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.CONFIRMED
    assert len(world.calls) == 1


async def test_reads_that_fail_for_a_while_after_the_call_are_tried_again(ledger: Ledger) -> None:
    world = World()
    failures = [SourceDown("slurmctld", "no answer")] * 6
    read = world.nodes

    async def nodes() -> tuple[Node, ...]:
        if world.calls and failures:
            raise failures.pop()
        return await read()

    world.nodes = nodes  # type: ignore[method-assign]
    assert (await act(world, ledger, DRAIN)).outcome is Outcome.CONFIRMED


@pytest.mark.parametrize(("intent", "make"), KINDS)
async def test_slurm_stopped_after_the_first_call_ends_unknown_and_nothing_more_is_sent(
    intent: Intent, make: Callable[[], World], ledger: Ledger
) -> None:
    world = make()

    def stop(_call: Call) -> Answer:
        world.down = True
        return LOST

    world.fail = stop
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.UNKNOWN
    assert "cannot be read" in action.says
    assert len(real_calls(world)) == 1


@pytest.mark.parametrize("kind", [UpdateJob, ReleaseJob])
async def test_an_unanswered_later_step_that_took_effect_is_confirmed_and_sent_once(
    kind: type[Call], ledger: Ledger
) -> None:
    world = World()
    world.fail = on(kind, lambda: Answer(AnswerKind.UNKNOWN, "and took effect"))
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.CONFIRMED, action.says
    assert len(world.calls) == 4


async def test_an_unanswered_release_without_effect_ends_unknown_with_the_way_out(ledger: Ledger) -> None:
    world = World()
    world.fail = on(ReleaseJob, lambda: LOST)
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.UNKNOWN
    assert "scontrol release 7" in action.says
    assert sum(isinstance(call, ReleaseJob) for call in world.calls) == 1


# ---- a ledger that gives out ----


@pytest.mark.parametrize(("intent", "make"), KINDS)
async def test_a_ledger_that_cannot_record_the_first_call_keeps_it_from_being_sent(
    intent: Intent, make: Callable[[], World], ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()

    def full(*_args: object, **_more: object) -> None:
        raise LedgerError("disk full")

    monkeypatch.setattr(Ledger, "step", full)
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.REFUSED
    assert "nothing was sent" in action.says
    assert "disk full" in action.says
    assert world.calls == []


async def test_a_ledger_that_gives_out_half_way_stops_there_and_says_how_the_job_was_left(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    step = Ledger.step

    def full_after_the_requeue(self: Ledger, *args: object, **more: object) -> None:
        if world.calls:
            raise LedgerError("disk full")
        step(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "step", full_after_the_requeue)
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.UNKNOWN
    assert "disk full" in action.says
    assert "scontrol release 7" in action.says
    assert real_calls(world) == [RequeueJob("7", hold=True)]


async def test_a_single_call_is_read_back_even_when_its_answer_cannot_be_recorded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    step = Ledger.step

    def full_after_the_call(self: Ledger, *args: object, **more: object) -> None:
        if world.calls:
            raise LedgerError("disk full")
        step(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "step", full_after_the_call)
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.CONFIRMED
    assert "the ledger cannot be written" in action.says


# ---- our own faults ----


async def test_a_fault_of_our_own_ends_unknown_in_the_ledger_too_and_frees_the_target(ledger: Ledger) -> None:
    world = World()
    read = world.nodes

    async def nodes() -> tuple[Node, ...]:
        if world.calls:
            raise ValueError("a row nobody foresaw")
        return await read()

    world.nodes = nodes  # type: ignore[method-assign]
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.UNKNOWN
    assert "a row nobody foresaw" in action.says
    assert any("accepted" in step.says for step in action.steps)
    assert reopened(ledger).open_actions() == ()
