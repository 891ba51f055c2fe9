"""An engine that ends at any moment of an action: nothing is sent twice, and the next engine settles what it left."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.model.actions import Action, Intent, Kind, Outcome
from gputop.model.calls import Answer, AnswerKind, Call, MarkJob, ReleaseJob, RequeueJob
from gputop.recover.ledger import Ledger
from gputop.recover.reconcile import reconcile
from tests.recover.run import DRAIN, EVERY_KIND, EXCLUDING, REQUEUE, act, card_for, executor, reopened
from tests.recover.world import World

KINDS = [pytest.param(intent, make, id=name) for name, intent, make in EVERY_KIND]


class Killed(BaseException):
    """The engine is gone: a kill, a power cut, a stop."""


class Reaper:
    """Counts the moments between two effects on the world, and ends the engine at one of them."""

    def __init__(self, world: World, ledger: Ledger, at: int | None) -> None:
        self.moments = 0
        self._at = at
        for name in ("reserve", "remember", "step", "close_action"):
            setattr(ledger, name, self._around(getattr(ledger, name)))
        for name in ("nodes", "tasks", "call"):
            setattr(world, name, self._around_async(getattr(world, name)))
        world.clock.sleep = self._around_async(world.clock.sleep)  # type: ignore[assignment,method-assign]

    def _moment(self) -> None:
        self.moments += 1
        if self.moments - 1 == self._at:
            raise Killed

    def _around(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def outer(*args: Any, **more: Any) -> Any:
            self._moment()
            result = inner(*args, **more)
            self._moment()
            return result

        return outer

    def _around_async(self, inner: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def outer(*args: Any) -> Any:
            self._moment()
            result = await inner(*args)
            self._moment()
            return result

        return outer


async def killed_run(make: Callable[[], World], intent: Intent, path: Path, at: int | None) -> tuple[World, int]:
    """A world in which the engine was ended at a moment, and how many moments there were."""
    world, ledger = make(), Ledger(path)
    reaper = Reaper(world, ledger, at)
    with contextlib.suppress(Killed):
        await act(world, ledger, intent)
    ledger.close()
    for name in ("nodes", "tasks", "call"):
        world.__dict__.pop(name)
    world.clock.__dict__.pop("sleep")
    return world, reaper.moments


def is_as_wanted(world: World, intent: Intent) -> bool:
    """What Slurm itself would say of the end."""
    if intent.kind.on_node:
        return world.node_table["gpu1"].state.drain is (intent.kind is Kind.DRAIN)
    now = world.job_table["7"]
    match intent.kind:
        case Kind.REQUEUE:
            return now.running and now.restarts == 1
        case Kind.REQUEUE_EXCLUDING:
            return now.running and now.restarts == 1 and now.excluded == ("gpu1",)
        case Kind.HOLD:
            return now.held
        case Kind.RELEASE:
            return not now.held
        case _:
            return now.state.base == "cancelled"


@pytest.mark.parametrize(("intent", "make"), KINDS)
async def test_ended_at_any_moment_nothing_is_sent_twice_and_the_next_engine_tells_the_truth(
    intent: Intent, make: Callable[[], World], tmp_path: Path
) -> None:
    _, moments = await killed_run(make, intent, tmp_path / "whole", None)
    assert moments > 15
    ends = set()
    for at in range(moments):
        world, _ = await killed_run(make, intent, tmp_path / f"cut{at}", at)
        sent = list(world.calls)
        assert len(sent) == len({repr(call) for call in sent}), f"moment {at}: a call was repeated"
        ledger = Ledger(tmp_path / f"cut{at}")
        left = {action.id for action in ledger.open_actions()}
        for _attempt in range(20):
            if not ledger.open_actions():
                break
            await reconcile(ledger, world, world.clock)
            world.clock.time += 10
        assert world.calls == sent, f"moment {at}: the next engine sent something"
        assert ledger.open_actions() == (), f"moment {at}: it was left open"
        for action in ledger.recent(5):
            assert action.outcome is not None
            assert action.closed_at is not None
            ends.add(action.outcome)
            if not sent:
                assert action.outcome in (Outcome.REFUSED, Outcome.CONTRADICTED), f"moment {at}"
                assert not is_as_wanted(world, intent)
            elif action.id in left:
                wanted = Outcome.CONFIRMED if is_as_wanted(world, intent) else Outcome.CONTRADICTED
                assert action.outcome is wanted, f"moment {at}: {action.says}"
            if action.outcome is not Outcome.CONFIRMED and intent is EXCLUDING and world.job_table["7"].held:
                assert "scontrol release 7" in action.says
        ledger.close()
    assert Outcome.CONFIRMED in ends
    assert Outcome.REFUSED in ends


async def orphan(world: World, ledger: Ledger, intent: Intent, dies_at: type[Call], effect: bool = True) -> Ledger:
    """The ledger of an engine that ended while a call was under way."""

    def die(call: Call) -> Answer | None:
        if isinstance(call, dies_at):
            if effect:
                world._apply(call)
            raise Killed
        return None

    world.fail = die
    with contextlib.suppress(Killed):
        await act(world, ledger, intent)
    world.fail = lambda _call: None
    return reopened(ledger)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


async def test_a_call_sent_a_moment_ago_is_waited_for_before_it_is_judged(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, REQUEUE, RequeueJob)
    assert await reconcile(again, world, world.clock) == ()
    assert len(again.open_actions()) == 1
    world.clock.time += 5
    world._tick()
    world.clock.time += 5
    world._start("7")
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.CONFIRMED


async def test_a_run_that_slurm_has_not_ended_yet_says_nothing_about_its_exclude_list(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, EXCLUDING, RequeueJob, effect=False)
    assert await reconcile(again, world, world.clock) == ()


async def test_a_job_left_held_is_named_with_the_way_out(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, EXCLUDING, RequeueJob)
    world.clock.time += 120
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.CONTRADICTED
    assert "left held: scontrol release 7" in done.says
    assert done.undo is None


async def test_a_drain_that_took_effect_is_confirmed_and_can_be_undone(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, DRAIN, object)  # type: ignore[arg-type]
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.CONFIRMED
    assert done.undo == Intent(kind=Kind.RESUME, target="gpu1")
    assert done.steps[-1].says.startswith("after a restart: confirmed")


async def test_a_call_without_effect_is_contradicted_after_its_time(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, DRAIN, object, effect=False)  # type: ignore[arg-type]
    assert await reconcile(again, world, world.clock) == ()
    world.clock.time += 61
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.CONTRADICTED
    assert "gpu1 is idle" in done.says


async def test_a_job_that_slurm_forgot_meanwhile_is_unknown(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, REQUEUE, RequeueJob)
    world.forget("7")
    world.clock.time += 4000
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.UNKNOWN


async def test_while_slurm_cannot_be_read_an_action_stays_open(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, EXCLUDING, ReleaseJob)
    world.down = True
    world.clock.time += 4000
    assert await reconcile(again, world, world.clock) == ()
    assert len(again.open_actions()) == 1
    world.down = False
    (done,) = await reconcile(again, world, world.clock)
    assert done.outcome is Outcome.CONFIRMED


async def test_settling_what_an_earlier_engine_left_does_not_touch_what_runs_now(ledger: Ledger) -> None:
    world = World()
    again = await orphan(world, ledger, REQUEUE, RequeueJob)
    runner = executor(world, again)
    card = card_for(world, DRAIN, "c2")
    running = runner.reserve(card, "bob")
    world.clock.time += 4000
    closed = await reconcile(again, world, world.clock)
    assert [one.id for one in closed] == ["c1"]
    done = await runner.run(running, card, world.snapshot())
    assert done.outcome is Outcome.CONFIRMED
    assert {one.id: one.outcome for one in again.recent(5)}["c2"] is Outcome.CONFIRMED


async def test_a_stopped_engine_leaves_its_action_open_for_the_next_one(ledger: Ledger) -> None:
    world = World()
    told: list[Action] = []
    runner = executor(world, ledger, told)
    card = card_for(world, REQUEUE)

    async def stopped(seconds: float) -> None:
        raise asyncio.CancelledError

    world.clock.sleep = stopped  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await runner.run(runner.reserve(card, "ann"), card, world.snapshot())
    assert told[-1].open
    assert len(reopened(ledger).open_actions()) == 1


async def test_a_mark_alone_does_not_make_an_unsent_action_a_sent_one() -> None:
    marked = [kind for kind, intent, _make in EVERY_KIND if intent.kind is not Kind.CANCEL]
    for name in marked:
        intent, make = next((intent, make) for kind, intent, make in EVERY_KIND if kind == name)
        commands = card_for(make(), intent).commands
        assert "AdminComment" not in commands[0], name


@pytest.mark.parametrize("kind", [AnswerKind.ACCEPTED, AnswerKind.UNKNOWN])
async def test_a_mark_is_not_tried_twice(kind: AnswerKind, ledger: Ledger) -> None:
    world = World()
    world.fail = lambda call: Answer(kind, "x") if isinstance(call, MarkJob) else None
    action = await act(world, ledger, REQUEUE)
    assert action.outcome is Outcome.CONFIRMED
    assert sum(isinstance(call, MarkJob) for call in world.calls) == 1
