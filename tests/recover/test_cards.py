"""The card: what is shown before the key, kept true while it is open, and safe to copy into a shell."""

import shlex
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.actions import Intent, Kind, ProposalState, Refused
from gputop.model.calls import Abilities, Ability
from gputop.model.nodes import Node
from gputop.model.states import State
from gputop.recover.fingerprint import fingerprint
from gputop.recover.marks import carries, is_ours, mark
from gputop.recover.plan import Send
from gputop.recover.plans import plan_for
from gputop.recover.proposals import LIFETIME, propose, redraw
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
    card_for,
    held_job,
    our_drain,
    waiting_job,
)
from tests.recover.world import NOW, World, job, node

COMMANDS = [
    pytest.param(
        msgspec.structs.replace(DRAIN, note="bad fan"),
        World(),
        ("scontrol update nodename=gpu1 state=drain 'reason=gputop[c1]: bad fan'",),
        id="drain",
    ),
    pytest.param(RESUME, our_drain(), ("scontrol update nodename=gpu1 state=resume",), id="resume"),
    pytest.param(
        REQUEUE,
        World(),
        (
            "scontrol requeue 7",
            "scontrol update jobid=7 StartTime=now",
            "scontrol update jobid=7 'AdminComment=gputop[c1]: requeued by hand'",
        ),
        id="requeue",
    ),
    pytest.param(
        HOLD,
        waiting_job(),
        ("scontrol hold 7", "scontrol update jobid=7 'AdminComment=gputop[c1]: held by hand'"),
        id="hold",
    ),
    pytest.param(
        RELEASE,
        held_job(),
        ("scontrol release 7", "scontrol update jobid=7 'AdminComment=gputop[c1]: released by hand'"),
        id="release",
    ),
    pytest.param(CANCEL, World(), ("scancel 7",), id="cancel"),
    pytest.param(
        msgspec.structs.replace(EXCLUDING, exclude=("gpu3", "gpu1")),
        World(jobs=(job(excluded=("gpu2", "gpu1"), nodes=()),)),
        (
            "scontrol requeuehold 7",
            "scontrol update jobid=7 ExcNodeList=gpu2,gpu1,gpu3 StartTime=now",
            "scontrol update jobid=7 'AdminComment=gputop[c1]: requeued without gpu3, gpu1'",
            "scontrol release 7",
        ),
        id="requeue excluding keeps the old list and its order",
    ),
]


@pytest.mark.parametrize(("intent", "world", "commands"), COMMANDS)
def test_a_card_shows_the_exact_commands_in_order(intent: Intent, world: World, commands: tuple[str, ...]) -> None:
    assert card_for(world, intent).commands == commands


@pytest.mark.parametrize(("intent", "make"), [pytest.param(i, make, id=name) for name, i, make in EVERY_KIND])
def test_the_commands_of_a_card_are_those_of_its_run(intent: Intent, make: type[World]) -> None:
    world = make()
    snap = world.snapshot()
    plan = plan_for(intent, snap.abilities)
    subject = snap.nodes["gpu1"] if intent.kind.on_node else snap.jobs["7"]
    calls = [stage.call for stage in plan.stages(subject, "c1") if isinstance(stage, Send)]
    assert [shlex.split(command) for command in card_for(world, intent).commands] == [
        list(world.argv(call)) for call in calls
    ]


@given(note=st.text(max_size=400), name=st.text(max_size=40))
def test_no_note_or_comment_reaches_the_card_or_a_shell_unescaped(note: str, name: str) -> None:
    world = World(jobs=(job(state="pending", nodes=(), name=name),))
    for intent in (msgspec.structs.replace(DRAIN, note=note), msgspec.structs.replace(HOLD, note=note)):
        card = card_for(world, intent)
        for command in card.commands:
            assert command.isprintable()
            words = shlex.split(command)
            assert words[0] == "scontrol"
            assert len(words) in (3, 4, 5)


@given(note=st.text(max_size=400), card_id=st.from_regex(r"\A[A-Za-z0-9-]{1,40}\Z"))
def test_a_mark_is_recognised_whatever_the_note(note: str, card_id: str) -> None:
    text = mark(card_id, note)
    assert is_ours(text)
    assert carries(text, card_id)
    assert not carries(text, card_id + "0")
    assert text.isprintable()


@pytest.mark.parametrize(
    "text", ["", "gputop", "gputop: x", "gputop[]: x", "x gputop[a]: y", "GPUTOP[a]: x", "gputop[a"]
)
def test_what_only_looks_like_our_mark_is_not_ours(text: str) -> None:
    assert not is_ours(text)


@pytest.mark.parametrize("card_id", ["", "a]: drained by nobody", "a\nb", "x" * 41])
def test_an_id_that_cannot_stand_in_a_mark_is_refused_and_stays_so(card_id: str) -> None:
    world = World()
    card = card_for(world, DRAIN, card_id)
    assert [one.guard for one in card.refusals] == [Refused.STATE]
    assert redraw(card, world.snapshot(), NOW, ledger_trouble="").refusals == card.refusals


# ---- effects ----


def test_a_drain_names_who_runs_there_for_how_long_and_what_is_left() -> None:
    card = card_for(World((node(state="allocated"), node("gpu2"), node("gpu3", "down"))), DRAIN)
    assert card.effects == (
        "gpu1 takes no new jobs; 8 GPUs leave service once it is empty.",
        "1 job on it may finish: job 7 of ann, 8 GPUs for 1.1 h.",
        "Nodes in service after it: train keeps 1.",
        "Undone by resuming it, while the reason is ours.",
    )


def test_a_requeue_says_what_is_lost_and_that_nothing_takes_it_back() -> None:
    assert card_for(World(jobs=(job(restarts=3),)), REQUEUE).effects == (
        "The run of job 7 of ann, 8 GPUs for 1.1 h ends; what it did since its last checkpoint is lost.",
        "It goes back to the queue and starts when nodes are free; restarts so far: 3.",
        "A requeue cannot be undone.",
    )


@pytest.mark.parametrize(
    ("marks", "comment", "said"),
    [
        pytest.param(Ability.YES, "", False, id="the mark goes on the job"),
        pytest.param(Ability.YES, "gputop[old]: x", False, id="over our own older mark"),
        pytest.param(Ability.YES, "billing", True, id="somebody else's comment stays"),
        pytest.param(Ability.NO, "", True, id="the account may not"),
        pytest.param(Ability.UNKNOWN, "", True, id="nobody knows whether it may"),
    ],
)
def test_a_job_that_will_not_carry_our_mark_is_said_so(marks: Ability, comment: str, said: bool) -> None:
    world = World(jobs=(job(admin_comment=comment),))
    abilities = Abilities(account="root", nodes=Ability.YES, jobs=Ability.YES, marks=marks)
    snap = replace(world.snapshot(), abilities=abilities)
    card = propose("c1", REQUEUE, snap, NOW, by="ann", argv=world.argv, ledger_trouble="")
    assert any("Only the ledger" in effect for effect in card.effects) is said
    assert any("AdminComment" in command for command in card.commands) is not said


def test_the_blast_radius_of_an_open_card_follows_the_world() -> None:
    world = World(jobs=(job(nodes=("gpu2",)),))
    card = card_for(world, DRAIN)
    assert "No job runs on it." in card.effects
    world.job_table["7"] = job(nodes=("gpu1",))
    again = redraw(card, world.snapshot(), NOW, ledger_trouble="")
    assert again.state is ProposalState.OPEN
    assert any(effect.startswith("1 job on it may finish: job 7") for effect in again.effects)


def test_a_card_that_looks_the_same_is_the_same() -> None:
    for name, intent, make in EVERY_KIND:
        world = make()
        card = card_for(world, intent)
        assert redraw(card, world.snapshot(), NOW + 5, ledger_trouble="") is card, name


def test_a_refusal_that_comes_and_goes_is_shown_while_it_holds() -> None:
    world = World()
    card = card_for(world, DRAIN)
    full = redraw(card, world.snapshot(), NOW, ledger_trouble="disk full")
    assert [one.guard for one in full.refusals] == [Refused.LEDGER]
    assert redraw(full, world.snapshot(), NOW, ledger_trouble="").refusals == ()


def test_a_card_lives_ten_minutes_to_the_second() -> None:
    world = World()
    card = card_for(world, DRAIN)
    assert card.expires - card.created == LIFETIME == 600
    world.clock.time += 600
    assert redraw(card, world.snapshot(), NOW + 600, ledger_trouble="").state is ProposalState.OPEN
    assert redraw(card, world.snapshot(), NOW + 600.1, ledger_trouble="").state is ProposalState.STALE


@pytest.mark.parametrize("state", [ProposalState.APPROVED, ProposalState.DISMISSED, ProposalState.STALE])
def test_a_card_that_is_over_is_not_drawn_again(state: ProposalState) -> None:
    world = World()
    card = msgspec.structs.replace(card_for(world, DRAIN), state=state)
    world.node_table.clear()
    assert redraw(card, world.snapshot(), NOW + 9999, ledger_trouble="x") is card


# ---- fingerprints ----

IN_SERVICE = st.sampled_from(["idle", "mixed", "allocated"])
PASSING = st.frozensets(st.sampled_from(["planned", "completing", "not_responding", "reserved", "maintenance"]))


def with_state(base: str, flags: frozenset[str]) -> Node:
    return msgspec.structs.replace(node(), state=State(base, flags))


@given(base=IN_SERVICE, flags=PASSING, used=st.integers(0, 8))
def test_a_node_in_service_stays_itself_while_work_comes_and_goes(base: str, flags: frozenset[str], used: int) -> None:
    busy = msgspec.structs.replace(with_state(base, flags), gpus_allocated=used, switch="leaf1", version="25.11")
    assert fingerprint(busy) == fingerprint(node())


@given(base=IN_SERVICE, flags=PASSING, mark_flag=st.sampled_from(["drain", "fail", "reboot_issued", "powered_down"]))
def test_a_node_that_leaves_service_is_another_subject(base: str, flags: frozenset[str], mark_flag: str) -> None:
    assert fingerprint(with_state(base, flags | {mark_flag})) != fingerprint(with_state(base, flags))
    assert fingerprint(with_state("down", flags)) != fingerprint(with_state(base, flags))


@pytest.mark.parametrize("change", [{"text": "other"}, {"owner": "bob"}, {"at": NOW + 60}])
def test_another_reason_is_another_subject(change: dict[str, object]) -> None:
    before = node(state="idle+drain", reason=FOREIGN)
    after = node(state="idle+drain", reason=msgspec.structs.replace(FOREIGN, **change))
    assert fingerprint(before) != fingerprint(after)


@given(priority=st.integers(1, 9999), name=st.text(max_size=9), comment=st.text(max_size=9))
def test_a_job_stays_itself_whatever_is_written_on_it(priority: int, name: str, comment: str) -> None:
    written = msgspec.structs.replace(job(), priority=priority, name=name, comment=comment, admin_comment=comment)
    assert fingerprint(written) == fingerprint(job())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(job(), job(restarts=1), id="it was restarted"),
        pytest.param(job(), job(submit_time=NOW), id="a reused number"),
        pytest.param(job(), job("7_1"), id="another task"),
        pytest.param(job(state="pending"), job(), id="it started"),
        pytest.param(job(), job(state="completing"), id="it is ending"),
        pytest.param(job(), job(state="failed"), id="it ended"),
        pytest.param(job(state="pending"), job(state="pending", priority=0), id="somebody held it"),
        pytest.param(job(), None, id="it is gone"),
    ],
)
def test_a_job_that_moved_on_is_another_subject(before: object, after: object) -> None:
    assert fingerprint(before) != fingerprint(after)  # type: ignore[arg-type]


@pytest.mark.parametrize("intent", [DRAIN, Intent(kind=Kind.CANCEL, target="7")])
def test_a_card_on_nothing_shows_no_command_and_says_that_it_is_gone(intent: Intent) -> None:
    world = World()
    world.node_table.clear()
    world.job_table.clear()
    card = card_for(world, intent)
    assert card.commands == ()
    assert card.refusals[0].guard is Refused.GONE
