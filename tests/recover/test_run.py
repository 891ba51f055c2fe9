"""One action from its card to its end: confirmed, contradicted, unknown, refused, cut off; never sent twice."""

import contextlib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gputop.model.actions import Action, Intent, Kind, Outcome, Phase, ProposalState, Refused
from gputop.model.calls import Answer, AnswerKind, Call, UpdateJob
from gputop.model.states import State
from gputop.recover.fingerprint import fingerprint
from gputop.recover.ledger import AlreadyTaken, Ledger, LedgerError
from gputop.recover.proposals import propose, redraw
from gputop.recover.reconcile import reconcile
from tests.recover.run import EVERY_KIND, FOREIGN, OURS, act, card_for, executor, reopened
from tests.recover.world import NOW, World, job, node


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


INTENTS = [pytest.param(intent, make, id=name) for name, intent, make in EVERY_KIND]


@pytest.mark.parametrize(("intent", "make"), INTENTS)
async def test_every_kind_is_confirmed_by_a_fresh_look(intent: Intent, make: type[World], ledger: Ledger) -> None:
    world = make()
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.CONFIRMED, action.says
    assert [step.phase for step in action.steps][:2] == [Phase.ASKED, Phase.ACCEPTED]
    ledger = reopened(ledger)
    assert ledger.open_actions() == ()
    assert ledger.recent(5)[0].outcome is Outcome.CONFIRMED


@pytest.mark.parametrize(("intent", "make"), INTENTS)
async def test_an_unanswered_call_that_took_effect_is_confirmed_and_not_sent_again(
    intent: Intent, make: type[World], ledger: Ledger
) -> None:
    world = make()
    world.fail = lambda call: None if isinstance(call, UpdateJob) else Answer(AnswerKind.UNKNOWN, "and took effect")
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.CONFIRMED, action.says
    assert len(world.calls) == len(set(map(repr, world.calls)))


@pytest.mark.parametrize(("intent", "make"), INTENTS)
async def test_an_unanswered_call_that_shows_no_effect_ends_unknown_after_one_try(
    intent: Intent, make: type[World], ledger: Ledger
) -> None:
    world = make()
    world.fail = lambda _call: Answer(AnswerKind.UNKNOWN, "timed out")
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.UNKNOWN
    assert "timed out" in action.says
    assert len([call for call in world.calls if "Mark" not in type(call).__name__]) == 1


@pytest.mark.parametrize(("intent", "make"), INTENTS)
async def test_a_refusal_of_slurm_ends_refused_in_its_words(intent: Intent, make: type[World], ledger: Ledger) -> None:
    world = make()
    world.fail = lambda _call: Answer(AnswerKind.REFUSED, "Invalid user id")
    action = await act(world, ledger, intent)
    assert action.outcome is Outcome.REFUSED
    assert "Invalid user id" in action.says


async def test_slurm_gone_between_send_and_read_back_ends_unknown(ledger: Ledger) -> None:
    world = World()

    def gone(_call: Call) -> None:
        world.down = True

    world.fail = gone
    action = await act(world, ledger, Intent(kind=Kind.DRAIN, target="gpu1"))
    assert action.outcome is Outcome.UNKNOWN
    assert "cannot be read" in action.says
    assert len(world.calls) == 1


async def test_an_update_sent_while_completing_would_be_lost_so_it_waits_for_pending(ledger: Ledger) -> None:
    world = World()
    order: list[str] = []

    def watch(call: Call) -> None:
        order.append(f"{type(call).__name__} {world.job_table['7'].state.base}")

    world.fail = watch
    action = await act(world, ledger, Intent(kind=Kind.REQUEUE, target="7"))
    assert action.outcome is Outcome.CONFIRMED
    assert order[:2] == ["RequeueJob running", "UpdateJob pending"]


async def test_a_plugin_that_changes_the_list_is_contradicted_and_the_job_is_named_as_held(ledger: Ledger) -> None:
    world = World()
    world.plugin = lambda _listed: ()
    action = await act(world, ledger, Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",)))
    assert action.outcome is Outcome.CONTRADICTED
    assert "scontrol release 7" in action.says
    assert world.job_table["7"].held


async def test_the_old_exclude_list_is_kept(ledger: Ledger) -> None:
    world = World(jobs=(job(excluded=("gpu9",)),))
    await act(world, ledger, Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",)))
    assert world.job_table["7"].excluded == ("gpu9", "gpu1")


async def test_a_subject_that_changed_between_card_and_key_is_left_alone(ledger: Ledger) -> None:
    world = World()
    card = card_for(world, Intent(kind=Kind.REQUEUE, target="7"))
    world.job_table["7"] = job(restarts=1)
    runner = executor(world, ledger)
    seen = world.snapshot()
    action = await runner.run(runner.reserve(card, "ann"), card, seen)
    assert action.outcome is Outcome.REFUSED
    assert "changed" in action.says
    assert world.calls == []


async def test_two_approvals_of_one_card_run_once(ledger: Ledger) -> None:
    world = World()
    card = card_for(world, Intent(kind=Kind.DRAIN, target="gpu1"))
    runner = executor(world, ledger)
    runner.reserve(card, "ann")
    with pytest.raises(AlreadyTaken):
        runner.reserve(card, "bob")
    with pytest.raises(AlreadyTaken):
        runner.reserve(card_for(world, Intent(kind=Kind.RESUME, target="gpu1"), "c2"), "bob")


class Killed(BaseException):
    """The engine is gone."""


@pytest.mark.parametrize(("intent", "make"), INTENTS)
@pytest.mark.parametrize("after", range(9))
async def test_killed_anywhere_nothing_is_sent_again_and_the_next_engine_settles_it(
    intent: Intent, make: type[World], after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, ledger = make(), Ledger(tmp_path / "ledger.sqlite")
    writes = 0
    step = Ledger.step

    def dying(self: Ledger, *args: object, **more: object) -> None:
        nonlocal writes
        writes += 1
        if writes > after + 1:
            raise Killed
        step(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "step", dying)
    with contextlib.suppress(Killed):
        await act(world, ledger, intent)
    monkeypatch.undo()
    sent = list(world.calls)
    again = Ledger(tmp_path / "ledger.sqlite")
    left_open = again.open_actions()
    world.clock.time += 120
    closed = await reconcile(again, world, world.clock)
    assert len(closed) == len(left_open)
    assert world.calls == sent
    assert again.open_actions() == ()
    for action in closed:
        if not sent:
            assert action.outcome is Outcome.REFUSED
        else:
            assert action.outcome in (Outcome.CONFIRMED, Outcome.CONTRADICTED)


REFUSALS = [
    pytest.param(World(), Intent(kind=Kind.DRAIN, target="gpu99"), Refused.GONE, id="no such node"),
    pytest.param(
        World((node(state="idle+drain", reason=FOREIGN),)),
        Intent(kind=Kind.DRAIN, target="gpu1"),
        Refused.FOREIGN,
        id="somebody else's drain keeps its reason",
    ),
    pytest.param(
        World((node(state="idle+drain"),)),
        Intent(kind=Kind.DRAIN, target="gpu1"),
        Refused.FOREIGN,
        id="a drain without a reason is left alone",
    ),
    pytest.param(
        World((node(state="down", reason=FOREIGN),)),
        Intent(kind=Kind.DRAIN, target="gpu1"),
        Refused.FOREIGN,
        id="the reason of a down node is kept",
    ),
    pytest.param(
        World((node(state="idle+drain", reason=OURS),)),
        Intent(kind=Kind.DRAIN, target="gpu1"),
        Refused.DONE,
        id="drained by us already",
    ),
    pytest.param(World(), Intent(kind=Kind.RESUME, target="gpu1"), Refused.DONE, id="in service already"),
    pytest.param(World(), Intent(kind=Kind.REQUEUE, target="8"), Refused.GONE, id="no such job"),
    pytest.param(
        World(jobs=(job("9_1", array_id="9", task_id="1"),)),
        Intent(kind=Kind.REQUEUE, target="9"),
        Refused.STATE,
        id="a bare array id would restart every task",
    ),
    pytest.param(
        World(jobs=(job("9_[2-5]", "pending", tasks=4),)),
        Intent(kind=Kind.CANCEL, target="9_[2-5]"),
        Refused.STATE,
        id="a bundle is no target",
    ),
    pytest.param(
        World(jobs=(job(requeueable=False),)),
        Intent(kind=Kind.REQUEUE, target="7"),
        Refused.STATE,
        id="the owner said --no-requeue",
    ),
    pytest.param(
        World(jobs=(job(batch=False),)), Intent(kind=Kind.REQUEUE, target="7"), Refused.STATE, id="an srun job"
    ),
    pytest.param(
        World(jobs=(job(state="pending", nodes=()),)),
        Intent(kind=Kind.REQUEUE, target="7"),
        Refused.DONE,
        id="it waits already",
    ),
    pytest.param(World(), Intent(kind=Kind.HOLD, target="7"), Refused.STATE, id="a hold of a running job is a promise"),
    pytest.param(World(), Intent(kind=Kind.RELEASE, target="7"), Refused.DONE, id="not held"),
    pytest.param(
        World(jobs=(job(state="completed"),)), Intent(kind=Kind.CANCEL, target="7"), Refused.DONE, id="ended already"
    ),
    pytest.param(
        World(jobs=(job(required=("gpu1",)),)),
        Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",)),
        Refused.STATE,
        id="the job asks for that node by name",
    ),
    pytest.param(
        World((node(),)),
        Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",)),
        Refused.STATE,
        id="no node would be left",
    ),
    pytest.param(
        World(), Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu77",)), Refused.GONE, id="excludes nobody"
    ),
]


@pytest.mark.parametrize(("world", "intent", "guard"), REFUSALS)
def test_a_card_says_what_holds_it_back(world: World, intent: Intent, guard: Refused) -> None:
    card = card_for(world, intent)
    assert card.refusals[0].guard is guard
    assert card.refusals[0].says


def test_stale_data_and_read_only_hold_everything_back() -> None:
    world = World()
    snap = world.snapshot()
    late = propose(
        "c", Intent(kind=Kind.DRAIN, target="gpu1"), snap, NOW + 21, by="", argv=world.argv, ledger_trouble=""
    )
    assert [one.guard for one in late.refusals] == [Refused.STALE]
    assert snap.about is not None
    closed = replace(snap, about=msgspec.structs.replace(snap.about, read_only=True))
    card = propose("c", Intent(kind=Kind.DRAIN, target="gpu1"), closed, NOW, by="", argv=world.argv, ledger_trouble="")
    assert [one.guard for one in card.refusals] == [Refused.READ_ONLY]


def test_a_ledger_that_cannot_be_written_stops_everything() -> None:
    world = World()
    intent = Intent(kind=Kind.DRAIN, target="gpu1")
    card = propose("c", intent, world.snapshot(), NOW, by="", argv=world.argv, ledger_trouble="disk full")
    assert card.refusals[0].guard is Refused.LEDGER
    assert "disk full" in card.refusals[0].says


def test_a_foreign_resume_needs_the_nodes_name_and_ours_does_not() -> None:
    foreign, ours = (World((node(state="idle+drain", reason=reason),)) for reason in (FOREIGN, OURS))
    assert card_for(foreign, Intent(kind=Kind.RESUME, target="gpu1")).typed == "gpu1"
    assert card_for(ours, Intent(kind=Kind.RESUME, target="gpu1")).typed == ""
    assert card_for(World(), Intent(kind=Kind.CANCEL, target="7")).typed == "cancel"


def test_a_card_goes_stale_when_its_subject_changes_and_stays_so() -> None:
    world = World()
    card = card_for(world, Intent(kind=Kind.DRAIN, target="gpu1"))
    assert redraw(card, world.snapshot(), NOW, ledger_trouble="") is card
    world.node_table["gpu1"] = node(state="down")
    stale = redraw(card, world.snapshot(), NOW, ledger_trouble="")
    assert stale.state is ProposalState.STALE
    world.node_table["gpu1"] = node()
    assert redraw(stale, world.snapshot(), NOW, ledger_trouble="").state is ProposalState.STALE
    assert redraw(card, world.snapshot(), NOW + 601, ledger_trouble="").state is ProposalState.STALE


def test_a_fingerprint_ignores_what_comes_and_goes_and_sees_what_matters() -> None:
    assert fingerprint(node()) == fingerprint(node(state="mixed+planned"))
    assert fingerprint(job()) == fingerprint(msgspec.structs.replace(job(), state=State("running")))
    different = [node(state="idle+drain"), node(boot_time=NOW), node(reason=FOREIGN), node("gpu2"), node(state="down")]
    assert len({fingerprint(one) for one in (node(), *different)}) == 6
    assert fingerprint(job()) != fingerprint(job(restarts=1))
    assert fingerprint(job()) != fingerprint(job(submit_time=NOW))


def test_the_card_shows_the_exact_commands_in_order() -> None:
    card = card_for(World(), Intent(kind=Kind.REQUEUE_EXCLUDING, target="7", exclude=("gpu1",)))
    assert card.commands == (
        "scontrol requeuehold 7",
        "scontrol update jobid=7 ExcNodeList=gpu1 StartTime=now",
        "scontrol update jobid=7 'AdminComment=gputop[c1]: requeued without gpu1'",
        "scontrol release 7",
    )


def test_somebody_elses_admin_comment_is_not_overwritten() -> None:
    card = card_for(World(jobs=(job(admin_comment="billing"),)), Intent(kind=Kind.REQUEUE, target="7"))
    assert not any("AdminComment" in command for command in card.commands)


def test_a_newer_ledger_is_refused_and_ours_is_private(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    assert (tmp_path / "l.sqlite").stat().st_mode & 0o777 == 0o600
    ledger._db.execute("PRAGMA user_version = 99")
    ledger.close()
    with pytest.raises(LedgerError, match="newer"):
        Ledger(tmp_path / "l.sqlite")
    (tmp_path / "link").symlink_to(tmp_path / "l.sqlite")
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "link")


def test_a_subject_with_an_open_action_is_busy() -> None:
    world = World()
    intent = Intent(kind=Kind.DRAIN, target="gpu1")
    running = Action(id="a", intent=intent, by="bob", asked_at=NOW, phase=Phase.ACCEPTED)
    snap = replace(world.snapshot(), actions={"a": running})
    card = propose("c", intent, snap, NOW, by="ann", argv=world.argv, ledger_trouble="")
    assert [one.guard for one in card.refusals] == [Refused.BUSY]
    assert "bob" in card.refusals[0].says


async def test_a_job_that_dies_at_its_new_start_is_contradicted_and_never_confirmed(ledger: Ledger) -> None:
    world = World()

    def dies(call: Call) -> None:
        if isinstance(call, UpdateJob):
            world.ended_at["7"] = world.clock.now()

    world.fail = dies
    action = await act(world, ledger, Intent(kind=Kind.REQUEUE, target="7"))
    assert action.outcome is Outcome.CONTRADICTED
    assert "ended at once" in action.says
