"""The gate: one guard at a time, each in words, and nothing but its arguments decides."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.actions import Action, Intent, Kind, Outcome, Phase, Refusal, Refused
from gputop.model.calls import Abilities, Ability
from gputop.model.jobs import Job
from gputop.model.nodes import Node, Reason
from gputop.model.reading import Unknown, Why
from gputop.model.snapshot import Snapshot, Source
from gputop.recover.gate import refusals
from gputop.recover.plans import plan_for
from tests.recover.run import (
    CANCEL,
    DRAIN,
    EVERY_KIND,
    EXCLUDING,
    FOREIGN,
    HOLD,
    OURS,
    RELEASE,
    REQUEUE,
    RESUME,
    held_job,
    waiting_job,
)
from tests.recover.world import NOW, World, job, node

KINDS = [pytest.param(intent, make().snapshot(), id=name) for name, intent, make in EVERY_KIND]


def gate(intent: Intent, snap: Snapshot, now: float = NOW, trouble: str = "") -> tuple[Refusal, ...]:
    return refusals(plan_for(intent, snap.abilities), snap, now, ledger_trouble=trouble)


def guards(intent: Intent, snap: Snapshot, now: float = NOW, trouble: str = "") -> list[Refused]:
    return [one.guard for one in gate(intent, snap, now, trouble)]


def may(nodes: Ability = Ability.YES, jobs: Ability = Ability.YES, account: str = "ops") -> Abilities:
    return Abilities(account=account, nodes=nodes, jobs=jobs, marks=Ability.NO, detail="ask for sudo")


@pytest.mark.parametrize(("intent", "snap"), KINDS)
def test_the_door_is_open_when_nothing_speaks_against_it(intent: Intent, snap: Snapshot) -> None:
    assert gate(intent, snap) == ()


@pytest.mark.parametrize(("intent", "snap"), KINDS)
def test_read_only_is_a_refusal_of_every_kind(intent: Intent, snap: Snapshot) -> None:
    assert snap.about is not None
    closed = replace(snap, about=msgspec.structs.replace(snap.about, read_only=True))
    assert guards(intent, closed) == [Refused.READ_ONLY]


@pytest.mark.parametrize(("intent", "snap"), KINDS)
def test_a_ledger_in_trouble_is_a_refusal_of_every_kind(intent: Intent, snap: Snapshot) -> None:
    (refusal,) = gate(intent, snap, trouble="disk full")
    assert refusal.guard is Refused.LEDGER
    assert "disk full" in refusal.says


@pytest.mark.parametrize(("intent", "snap"), KINDS)
@pytest.mark.parametrize(
    ("read_at", "trouble", "words"),
    [
        pytest.param(NOW - 21, "", "last read 21 s ago", id="older than two periods"),
        pytest.param(NOW - 21, "no answer", "no answer", id="old, and why"),
        pytest.param(Unknown(Why.NOT_READ), "", "never read", id="never read"),
        pytest.param(Unknown(Why.NOT_READ), "no munge", "no munge", id="never read, and why"),
    ],
)
def test_nothing_is_done_on_what_is_not_fresh(
    intent: Intent, snap: Snapshot, read_at: float | Unknown, trouble: str, words: str
) -> None:
    name = "slurm.nodes" if intent.kind.on_node else "slurm.jobs"
    late = Source(name=name, period=10, read_at=read_at, trouble=trouble)
    (refusal,) = gate(intent, replace(snap, sources={**snap.sources, name: late}))
    assert refusal.guard is Refused.STALE
    assert words in refusal.says


@pytest.mark.parametrize(("intent", "snap"), KINDS)
def test_a_source_that_is_not_there_was_never_read(intent: Intent, snap: Snapshot) -> None:
    assert guards(intent, replace(snap, sources={})) == [Refused.STALE]


def test_two_periods_to_the_second_are_still_fresh() -> None:
    assert gate(DRAIN, World().snapshot(), NOW + 20) == ()


@pytest.mark.parametrize(
    ("held_target", "open_still", "expected"),
    [
        pytest.param("gpu1", True, [Refused.BUSY], id="an open action on the same node"),
        pytest.param("gpu1", False, [], id="an ended action on it"),
        pytest.param("gpu2", True, [], id="an open action on another node"),
    ],
)
def test_one_action_at_a_time_on_one_subject(held_target: str, open_still: bool, expected: list[Refused]) -> None:
    other = Action(
        id="a",
        intent=Intent(kind=Kind.RESUME, target=held_target),
        by="bob",
        asked_at=NOW,
        phase=Phase.ACCEPTED if open_still else Phase.CLOSED,
        outcome=None if open_still else Outcome.CONFIRMED,
    )
    found = gate(DRAIN, replace(World().snapshot(), actions={"a": other}))
    assert [one.guard for one in found] == expected
    assert all("bob" in one.says for one in found)


@pytest.mark.parametrize(
    ("intent", "abilities", "refused"),
    [
        pytest.param(DRAIN, may(nodes=Ability.NO), True, id="an account that may not change nodes"),
        pytest.param(DRAIN, may(nodes=Ability.UNKNOWN), False, id="nobody knows: Slurm is asked"),
        pytest.param(DRAIN, may(jobs=Ability.NO), False, id="jobs have no say over nodes"),
        pytest.param(CANCEL, may(jobs=Ability.NO), True, id="the jobs of others"),
        pytest.param(CANCEL, may(jobs=Ability.NO, account="ann"), False, id="one's own job"),
        pytest.param(CANCEL, may(jobs=Ability.UNKNOWN), False, id="nobody knows about jobs"),
        pytest.param(CANCEL, may(nodes=Ability.NO), False, id="nodes have no say over jobs"),
        pytest.param(CANCEL, None, False, id="rights not read yet"),
    ],
)
def test_what_slurm_is_known_to_refuse_is_not_tried(intent: Intent, abilities: Abilities | None, refused: bool) -> None:
    found = gate(intent, replace(World().snapshot(), abilities=abilities))
    assert [one.guard for one in found] == ([Refused.ABILITY] if refused else [])
    assert all("ops" in one.says and "ask for sudo" in one.says for one in found)


SUBJECTS = [
    pytest.param(World(jobs=(job("7+0"),)), "7+0", CANCEL, Refused.STATE, "heterogeneous", id="a part of a het job"),
    pytest.param(
        World(jobs=(job("9_[2-5]", "pending", array_id="9", tasks=4),)),
        "9_3",
        HOLD,
        Refused.UNKNOWN,
        "not read apart",
        id="a waiting task that was read as part of a bundle only",
    ),
    pytest.param(
        World(jobs=(job("9_[2-5]", "pending", array_id="9", tasks=4),)),
        "9",
        REQUEUE,
        Refused.STATE,
        "name one task",
        id="the array itself",
    ),
    pytest.param(
        World(jobs=(job("9_[2-5]", "pending", array_id="9", tasks=4),)),
        "9_[2-5]",
        RELEASE,
        Refused.STATE,
        "4 waiting tasks",
        id="a bundle",
    ),
    pytest.param(
        World(jobs=(job(state="completing"),)), "7", CANCEL, Refused.DONE, "ending already", id="it is ending already"
    ),
    pytest.param(
        World(jobs=(job(state="completing"),)), "7", REQUEUE, Refused.STATE, "completing", id="requeue of an ending run"
    ),
    pytest.param(held_job(), "7", HOLD, Refused.DONE, "JobHeldAdmin", id="held already, and why"),
    pytest.param(
        World(jobs=(job(state="failed"),)), "7", HOLD, Refused.STATE, "next requeue", id="a hold of an ended job"
    ),
    pytest.param(waiting_job(), "7", RELEASE, Refused.DONE, "not held", id="a release of what is not held"),
    pytest.param(
        World(jobs=(job(excluded=Unknown(Why.NOT_READ)),)),
        "7",
        EXCLUDING,
        Refused.UNKNOWN,
        "would be lost",
        id="an exclude list that nobody has read would be replaced",
    ),
    pytest.param(
        World(), "7", msgspec.structs.replace(EXCLUDING, exclude=()), Refused.STATE, "no node", id="excludes nothing"
    ),
    pytest.param(
        World((node(), node("gpu2", "idle+drain"), node("gpu3", "down"), node("gpu4", "idle+not_responding"))),
        "7",
        EXCLUDING,
        Refused.STATE,
        "0 nodes in service",
        id="nodes that are out are no nodes left",
    ),
    pytest.param(
        World((node(), node("gpu2"), node("gpu3", partitions=("debug",)))),
        "7",
        msgspec.structs.replace(EXCLUDING, exclude=("gpu1", "gpu2")),
        Refused.STATE,
        "0 nodes",
        id="nodes of another partition are no nodes left",
    ),
    pytest.param(
        World(jobs=(job(excluded=("gpu2", "gpu3")),)),
        "7",
        EXCLUDING,
        Refused.STATE,
        "0 nodes",
        id="what it excludes already counts",
    ),
    pytest.param(
        World(jobs=(job(state="failed", nodes=(), last_nodes=("gpu1", "gpu2", "gpu3")),)),
        "7",
        EXCLUDING,
        Refused.STATE,
        "2 nodes in service would be left, and the job needs 3",
        id="an ended job needs as many as it had",
    ),
    pytest.param(
        World((node(state="idle+fail", reason=FOREIGN),)), "gpu1", DRAIN, Refused.FOREIGN, "bad fan", id="fail state"
    ),
    pytest.param(
        World((node(state="idle+drain", reason=OURS),)), "gpu1", DRAIN, Refused.DONE, "gputop[abc]", id="our own drain"
    ),
    pytest.param(World(), "gpu1", RESUME, Refused.DONE, "idle", id="nothing to resume"),
]


@pytest.mark.parametrize(("world", "target", "intent", "guard", "words"), SUBJECTS)
def test_an_action_refuses_its_subject_in_words(
    world: World, target: str, intent: Intent, guard: Refused, words: str
) -> None:
    (refusal,) = gate(msgspec.structs.replace(intent, target=target), world.snapshot())
    assert refusal.guard is guard
    assert words in refusal.says


ALLOWED = [
    pytest.param(World(jobs=(job(state="failed"),)), REQUEUE, id="a failed job is run again"),
    pytest.param(World(jobs=(job(state="completed"),)), REQUEUE, id="so is a completed one"),
    pytest.param(World(jobs=(job("9_1", array_id="9", task_id="1"),)), REQUEUE, id="one task of an array"),
    pytest.param(
        World((node(), node("gpu2", partitions=("debug",))), (job(partition="train,debug"),)),
        EXCLUDING,
        id="a node of the job's second partition is a node left",
    ),
    pytest.param(World((node(state="down"), node("gpu2"))), DRAIN, id="a down node that carries no reason"),
    pytest.param(World((node(state="allocated+planned"), node("gpu2"))), DRAIN, id="a busy node"),
    pytest.param(World((node(state="down", reason=FOREIGN), node("gpu2"))), RESUME, id="a down node comes back"),
    pytest.param(World((node(state="idle+drain", reason=FOREIGN),)), RESUME, id="a foreign drain, by its typed name"),
]


@pytest.mark.parametrize(("world", "intent"), ALLOWED)
def test_what_may_be_done_is_not_refused(world: World, intent: Intent) -> None:
    target = intent.target if intent.kind.on_node else next(iter(world.job_table))
    assert gate(msgspec.structs.replace(intent, target=target), world.snapshot()) == ()


def test_every_reason_is_listed_and_the_most_telling_comes_first() -> None:
    snap = World((node(state="idle+drain", reason=FOREIGN),)).snapshot()
    assert snap.about is not None
    running = Action(id="a", intent=DRAIN, by="bob", asked_at=NOW, phase=Phase.ASKED)
    snap = replace(
        snap,
        about=msgspec.structs.replace(snap.about, read_only=True),
        actions={"a": running},
        abilities=may(nodes=Ability.NO),
    )
    assert guards(DRAIN, snap, NOW + 100, "disk full") == [
        Refused.READ_ONLY,
        Refused.LEDGER,
        Refused.STALE,
        Refused.FOREIGN,
        Refused.BUSY,
        Refused.ABILITY,
    ]


BASES = st.sampled_from(["idle", "mixed", "allocated", "down", "error", "unknown", "future"])
FLAGS = st.frozensets(st.sampled_from(["drain", "fail", "completing", "not_responding", "maintenance", "planned"]))
JOB_STATES = st.sampled_from(["pending", "running", "completing", "failed", "completed", "suspended", "configuring"])
REASONS = st.none() | st.builds(Reason, text=st.text(max_size=30), owner=st.text(max_size=8), at=st.just(NOW))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    def any_node(name: str) -> Node:
        flags = draw(FLAGS)
        return node(name, "+".join((draw(BASES), *flags)), reason=draw(REASONS))

    def any_job() -> Job:
        return job(
            state=draw(JOB_STATES),
            reason=draw(st.sampled_from(["", "BeginTime", "JobHeldUser", "Resources", "BadConstraints"])),
            priority=draw(st.sampled_from([0, 100, Unknown(Why.NOT_READ)])),
            batch=draw(st.booleans()),
            requeueable=draw(st.booleans()),
            excluded=draw(st.sampled_from([(), ("gpu2",), Unknown(Why.ERROR)])),
            required=draw(st.sampled_from([(), ("gpu1",)])),
            gpus=draw(st.sampled_from([8, Unknown(Why.NOT_READ)])),
            start_time=draw(st.sampled_from([NOW - 60, Unknown(Why.NOT_READ)])),
            admin_comment=draw(st.sampled_from(["", "gputop[x]: y", "billing"])),
        )

    return World((any_node("gpu1"), any_node("gpu2")), (any_job(),))


@given(world=worlds(), which=st.integers(0, len(EVERY_KIND) - 1))
def test_the_same_world_gets_the_same_answer_and_is_not_touched(world: World, which: int) -> None:
    intent = EVERY_KIND[which][1]
    snap = world.snapshot()
    nodes, jobs = dict(snap.nodes), dict(snap.jobs)
    first = gate(intent, snap)
    assert gate(intent, snap) == first
    assert (snap.nodes, snap.jobs) == (nodes, jobs)
    assert all(one.says for one in first)


@given(world=worlds())
def test_no_drain_goes_over_a_drain_or_a_reason(world: World) -> None:
    if gate(DRAIN, world.snapshot()) == ():
        one = world.node_table["gpu1"]
        assert one.reason is None
        assert not one.state.drain


@given(world=worlds())
def test_no_requeue_of_what_cannot_be_requeued(world: World) -> None:
    for intent in (REQUEUE, EXCLUDING):
        if gate(intent, world.snapshot()) == ():
            one = world.job_table["7"]
            assert one.batch
            assert one.requeueable
            assert not one.pending
            assert not one.completing
            assert intent is REQUEUE or not isinstance(one.excluded, Unknown)


@given(world=worlds(), which=st.integers(0, len(EVERY_KIND) - 1))
def test_effects_never_say_zero_for_what_is_not_known(world: World, which: int) -> None:
    intent = EVERY_KIND[which][1]
    snap = world.snapshot()
    words = " ".join(plan_for(intent, snap.abilities).effects(snap, NOW))
    assert words
    if isinstance(world.job_table["7"].gpus, Unknown) and not intent.kind.on_node:
        assert "GPUs unknown" in words
