"""What a fresh look makes of each kind of action: confirmed, contradicted or unknown, and how the job is left."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.model.actions import Intent, Outcome
from gputop.model.calls import (
    Answer,
    AnswerKind,
    Call,
    CancelJob,
    HoldJob,
    MarkJob,
    ReleaseJob,
    UpdateJob,
)
from gputop.model.reading import Unknown, Why
from gputop.model.states import State
from gputop.recover.ledger import Ledger
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
    alter,
    card_for,
    executor,
    held_job,
    instead,
    on,
    our_drain,
    real_calls,
    waiting_job,
)
from tests.recover.world import World, job, node

NO = Answer(AnswerKind.REFUSED, "Access/permission denied")
KINDS = [pytest.param(intent, make, id=name) for name, intent, make in EVERY_KIND]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger.sqlite")
    yield made
    made.close()


# ---- later steps that Slurm refuses ----


@pytest.mark.parametrize("kind", [UpdateJob, ReleaseJob])
async def test_a_refused_later_step_says_that_the_job_is_held_and_how_to_let_it_go(
    kind: type[Call], ledger: Ledger
) -> None:
    world = World()
    world.fail = on(kind, lambda: NO)
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.CONTRADICTED
    assert "Access/permission denied" in action.says
    assert "left held: scontrol release 7" in action.says
    assert world.job_table["7"].held


async def test_a_requeued_job_whose_wait_cannot_be_lifted_is_said_to_wait(ledger: Ledger) -> None:
    world = World()
    world.fail = on(UpdateJob, lambda: NO)
    action = await act(world, ledger, REQUEUE)
    assert action.outcome is Outcome.CONTRADICTED
    assert "BeginTime" in action.says
    assert "about two minutes" in action.says


async def test_a_job_that_starts_by_itself_before_its_wait_is_lifted_is_confirmed(ledger: Ledger) -> None:
    world = World()

    def no_longer_pending() -> Answer:
        alter(world, state=State("running"), reason="", nodes=("gpu2",))
        return Answer(AnswerKind.REFUSED, "Job is no longer pending execution for job 7")

    world.fail = on(UpdateJob, no_longer_pending)
    action = await act(world, ledger, REQUEUE)
    assert action.outcome is Outcome.CONFIRMED
    assert "no longer pending" in action.says


async def test_a_site_without_the_requeue_delay_is_confirmed_although_nobody_saw_it_wait(ledger: Ledger) -> None:
    class Quick(World):
        def _tick(self) -> None:
            ending = set(self.ending)
            super()._tick()
            for one in ending - set(self.ending):
                self._alter(one, state=State("running"), reason="", nodes=("gpu2",))

    world = Quick()
    action = await act(world, ledger, REQUEUE)
    assert action.outcome is Outcome.CONFIRMED


async def test_a_refused_step_after_which_slurm_is_gone_ends_unknown_and_says_how_the_job_may_be(
    ledger: Ledger,
) -> None:
    world = World()

    def refuse_and_die() -> Answer:
        world.down = True
        return NO

    world.fail = on(ReleaseJob, refuse_and_die)
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.UNKNOWN
    assert "scontrol release 7" in action.says


async def test_a_mark_that_is_refused_is_said_and_harms_nothing(ledger: Ledger) -> None:
    world = World()
    world.fail = on(MarkJob, lambda: NO)
    action = await act(world, ledger, REQUEUE)
    assert action.outcome is Outcome.CONFIRMED
    assert any(step.says == "not marked: Access/permission denied" for step in action.steps)


# ---- exclude lists ----


async def test_an_exclude_list_that_cannot_be_read_is_not_replaced(ledger: Ledger) -> None:
    world = World(jobs=(job(excluded=("gpu9",)),))
    card = card_for(world, EXCLUDING)
    alter(world, excluded=Unknown(Why.ERROR, "no answer"))
    runner = executor(world, ledger)
    snap = World(jobs=(job(excluded=("gpu9",)),)).snapshot()
    action = await runner.run(runner.reserve(card, "ann"), card, snap)
    assert action.outcome is Outcome.REFUSED
    assert "would be lost" in action.says
    assert world.calls == []


async def test_a_list_that_a_plugin_widened_is_as_good(ledger: Ledger) -> None:
    world = World()
    world.plugin = lambda listed: (*listed, "gpu3")
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.CONFIRMED


async def test_a_list_that_is_gone_after_the_release_is_contradicted(ledger: Ledger) -> None:
    world = World()

    def forget() -> None:
        alter(world, excluded=())

    world.fail = on(ReleaseJob, forget)
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.CONTRADICTED
    assert "does not hold gpu1" in action.says


async def test_a_job_for_which_no_node_is_left_is_contradicted_at_once(ledger: Ledger) -> None:
    world = World()
    world.fail = on(ReleaseJob, instead(world, state=State("pending"), reason="BadConstraints", priority=0))
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.CONTRADICTED
    assert "clear its exclude list" in action.says


async def test_a_job_that_will_not_end_is_unknown_and_its_hold_is_foretold(ledger: Ledger) -> None:
    world = World()
    world.completing = 3600.0
    action = await act(world, ledger, EXCLUDING)
    assert action.outcome is Outcome.UNKNOWN
    assert "completing" in action.says
    assert "held then: scontrol release 7" in action.says
    assert len(real_calls(world)) == 1


# ---- hold, release, cancel ----


async def test_a_hold_that_comes_too_late_says_that_it_waits_for_the_next_requeue(ledger: Ledger) -> None:
    world = waiting_job()

    def started() -> None:
        alter(world, state=State("running"), nodes=("gpu1",))

    world.fail = on(HoldJob, started)
    action = await act(world, ledger, HOLD)
    assert action.outcome is Outcome.CONTRADICTED
    assert "scontrol release 7" in action.says


async def test_a_job_cancelled_meanwhile_was_not_released(ledger: Ledger) -> None:
    world = held_job()
    world.fail = on(ReleaseJob, instead(world, state=State("cancelled")))
    action = await act(world, ledger, RELEASE)
    assert action.outcome is Outcome.CONTRADICTED
    assert "without having run" in action.says


async def test_a_released_job_that_ran_and_failed_was_released(ledger: Ledger) -> None:
    world = held_job()
    world.fail = on(ReleaseJob, instead(world, state=State("failed")))
    assert (await act(world, ledger, RELEASE)).outcome is Outcome.CONFIRMED


async def test_a_job_that_ended_before_the_cancel_reached_it_is_not_called_cancelled(ledger: Ledger) -> None:
    world = World()
    world.fail = on(CancelJob, instead(world, state=State("completed")))
    action = await act(world, ledger, CANCEL)
    assert action.outcome is Outcome.CONTRADICTED
    assert "ended by itself" in action.says


@pytest.mark.parametrize(
    ("intent", "make"),
    [param for param in KINDS if not param.values[0].kind.on_node],  # type: ignore[union-attr]
)
async def test_a_job_that_slurm_no_longer_knows_ends_unknown_and_never_confirmed(
    intent: Intent, make: Callable[[], World], ledger: Ledger
) -> None:
    world = make()

    def forgotten(_call: Call) -> Answer:
        world.forget("7")
        return Answer(AnswerKind.ACCEPTED)

    world.fail = forgotten
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.UNKNOWN
    assert "not in Slurm's answer" in action.says
    assert len(real_calls(world)) == 1


# ---- nodes ----


async def test_somebody_who_drains_over_our_drain_makes_it_contradicted(ledger: Ledger) -> None:
    world = World()

    def overwritten(_call: Call) -> Answer:
        world.node_table["gpu1"] = node(state="idle+drain", reason=FOREIGN)
        return Answer(AnswerKind.ACCEPTED)

    world.fail = overwritten
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.CONTRADICTED
    assert "bad fan" in action.says


async def test_a_drain_that_slurm_accepts_and_does_not_carry_out_is_contradicted(ledger: Ledger) -> None:
    world = World()
    world.fail = lambda _call: Answer(AnswerKind.ACCEPTED)
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.CONTRADICTED
    assert action.says == "gpu1 is idle"


async def test_a_drain_waits_for_nobody_the_jobs_on_it_finish(ledger: Ledger) -> None:
    world = World((node(state="allocated"), node("gpu2")))
    action = await act(world, ledger, DRAIN)
    assert action.outcome is Outcome.CONFIRMED
    assert world.job_table["7"].running


async def test_a_resumed_node_is_confirmed_while_its_first_ping_is_outstanding(ledger: Ledger) -> None:
    world = our_drain()
    action = await act(world, ledger, RESUME)
    assert action.outcome is Outcome.CONFIRMED
    assert action.says == "gpu1 is idle+not_responding"
