"""The screen by its keys: what is pressed is what is meant, once, and never where nothing may be done."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from textual import events

from gputop.model.actions import Action, Intent, Kind, Outcome, Phase, Proposal, ProposalState, Refusal, Refused
from gputop.model.calls import Abilities, Ability
from gputop.model.columns import GPU, GpuId, HostId
from gputop.model.commands import Approve, Command, Dismiss, Propose
from gputop.model.errors import EngineError
from gputop.model.hosts import Host, KernelLog, Link, LinkState
from gputop.model.jobs import Job
from gputop.model.nodes import Node, Reason
from gputop.model.reading import CODE_OF, Unknown, Why
from gputop.model.snapshot import About, Snapshot, Source
from gputop.model.states import State
from gputop.stream.frames import Frame, diff
from gputop.tui.app import GputopApp
from gputop.tui.card import CardScreen
from gputop.tui.fleet import FleetScreen
from gputop.tui.line_table import LineTable
from gputop.tui.themes import load_palette

NOW = 1_800_000_000.0


def cluster(nodes: int = 16, jobs: int = 4) -> Snapshot:
    """A cluster on which something is wrong in every way."""
    names = [f"gpu{k:04}" for k in range(1, nodes + 1)]
    snap = Snapshot(
        time=NOW,
        about=About(cluster="alpha", version="0"),
        sources={
            n: Source(name=n, period=10.0, read_at=NOW) for n in ("slurm.nodes", "slurm.jobs", "slurm.site", "probe")
        },
        nodes={name: Node(name=name, state=State("idle"), gpus=8, partitions=("train",)) for name in names},
        links={name: Link(state=LinkState.UP, since=NOW, mode="probe") for name in names},
        hosts={name: Host(hostname=name, driver="590") for name in names},
        klogs={names[0]: KernelLog(source=Unknown(Why.DENIED, "not in adm"))},
        jobs={
            str(k): Job(
                id=str(k),
                raw_id=str(k),
                user="ann",
                name=f"[red]{k}[/red]",
                state=State("running"),
                nodes=(names[k % nodes],),
                gpus=8,
                start_time=NOW - 60,
            )
            for k in range(1, jobs + 1)
        },
        abilities=Abilities(account="root", nodes=Ability.YES, jobs=Ability.YES, marks=Ability.YES),
    )
    gpus = snap.gpu_table.with_ids(
        {
            8 * k + g: GpuId(node=name, index=g, uuid=f"GPU-{k}-{g}", pci=f"0000:{g:02x}:00")
            for k, name in enumerate(names)
            for g in range(8)
        }
    )
    rows = np.arange(len(gpus))
    known = np.zeros(len(gpus), np.uint8)
    gpus = gpus.with_values(
        rows,
        {
            spec.name: (np.full(len(gpus), 1.0), known)
            for spec in GPU
            if spec.name not in ("recovery_action", "remap_failed", "ecc_unc", "remap_pending")
        },
    )
    lost = np.array([8 * 2 + 5])
    gpus = gpus.with_values(
        lost,
        {
            "present": (np.array([0.0]), np.zeros(1, np.uint8)),
            "power": (np.array([np.nan]), np.array([CODE_OF[Why.LOST]], np.uint8)),
        },
    )
    hosts = snap.host_table.with_ids({k: HostId(node=name) for k, name in enumerate(names)})
    at = (np.full(nodes, NOW), np.zeros(nodes, np.uint8))
    hosts = hosts.with_values(np.arange(nodes), {"sampled_at": at, "gpus_read_at": at})
    return replace(snap, gpu_table=gpus, host_table=hosts)


class FakeFeed:
    """A feed that gives what the test puts in, and keeps what the screen sends."""

    def __init__(self, *, live: bool = True) -> None:
        self._queue: asyncio.Queue[Frame | str] = asyncio.Queue()
        self._live = live
        self._last: Snapshot | None = None
        self.sent: list[Command] = []
        self.closed = False

    @property
    def live(self) -> bool:
        return self._live

    @property
    def last(self) -> Snapshot:
        assert self._last is not None
        return self._last

    def put(self, snap: Snapshot) -> None:
        self._queue.put_nowait(diff(self._last, snap, 1))
        self._last = snap

    def end(self, words: str) -> None:
        self._queue.put_nowait(words)

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            frame = await self._queue.get()
            if isinstance(frame, str):
                raise EngineError(frame)
            yield frame

    async def send(self, command: Command) -> None:
        self.sent.append(command)

    async def close(self) -> None:
        self.closed = True

    def of(self, kind: type[Command]) -> list[Command]:
        return [one for one in self.sent if isinstance(one, kind)]


def app_on(feed: FakeFeed, *, read_only: bool = False) -> GputopApp:
    return GputopApp(feed, read_only=read_only, palette=load_palette("dark"), monotonic=lambda: 1.0)


async def settle(pilot: object) -> None:
    await pilot.pause(0.3)  # type: ignore[attr-defined]


def table(app: GputopApp) -> LineTable:
    return next(one for one in app.screen_stack[1].query(LineTable) if one.display and one.id == "nodes")


def card_of(feed: FakeFeed, **changes: object) -> Proposal:
    asked = feed.of(Propose)[-1]
    assert isinstance(asked, Propose)
    facts: dict[str, object] = {
        "id": asked.id,
        "intent": asked.intent,
        "title": f"{asked.intent.kind} {asked.intent.target}",
        "commands": ("scontrol x",),
        "effects": ("something happens",),
        "fingerprint": "f",
        "created": NOW,
        "expires": NOW + 600,
    }
    return Proposal(**{**facts, **changes})  # type: ignore[arg-type]


def offer(feed: FakeFeed, card: Proposal) -> None:
    feed.put(replace(feed.last, proposals={**feed.last.proposals, card.id: card}))


async def opened(pilot: object, feed: FakeFeed, key: str = "d", **changes: Any) -> Proposal:
    await pilot.press(key)  # type: ignore[attr-defined]
    await settle(pilot)
    card = card_of(feed, **changes)
    offer(feed, card)
    await settle(pilot)
    return card


async def test_what_is_wrong_stands_first_and_a_missing_value_says_why() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        first = table(app).row(0)
        assert first.key == "gpu0003"
        assert "GPU 5 lost" in first.cells[-1][0]
        assert ("7/8", "bad") in first.cells


async def test_y_acts_once_however_often_it_is_pressed() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        card = await opened(pilot, feed)
        assert card.intent == Intent(kind=Kind.DRAIN, target="gpu0003")
        await pilot.press("y", "y", "y")
        await settle(pilot)
        assert feed.of(Approve) == [Approve(proposal=card.id)]


async def test_y_before_the_card_is_painted_does_nothing() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("d", "y", "y")
        await settle(pilot)
        assert feed.of(Approve) == []


async def test_a_card_that_arrived_but_was_not_painted_yet_has_a_dead_key() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("d")
        await settle(pilot)
        card = card_of(feed)
        app.snap = replace(app.snap, proposals={card.id: card})
        app.look()
        assert isinstance(app.screen, CardScreen)
        app.screen.action_approve()
        await settle(pilot)
        assert feed.of(Approve) == []
        app.screen.action_approve()
        await settle(pilot)
        assert len(feed.of(Approve)) == 1


async def test_the_target_is_frozen_while_rows_move_and_the_cursor_follows_its_id() -> None:
    feed = FakeFeed()
    snap = cluster()
    feed.put(snap)
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("down", "down")
        chosen = table(app).cursor
        drained = Node(name="gpu0016", state=State("down"), gpus=8, reason=Reason(text="x", owner="root", at=NOW))
        await pilot.press("d")
        feed.put(replace(feed.last, nodes={**snap.nodes, "gpu0016": drained}))
        await settle(pilot)
        assert table(app).keys[0] == "gpu0016"
        assert table(app).cursor == chosen
        asked = feed.of(Propose)[-1]
        assert isinstance(asked, Propose)
        assert asked.intent.target == chosen


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"state": ProposalState.STALE}, id="stale"),
        pytest.param({"refusals": (Refusal(Refused.FOREIGN, "somebody else's"),)}, id="held back"),
        pytest.param({"typed": "cancel"}, id="needs a typed word"),
    ],
)
async def test_a_card_that_must_not_act_has_a_dead_key(changes: dict[str, Any]) -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await opened(pilot, feed, **changes)
        await pilot.press("y")
        await settle(pilot)
        assert feed.of(Approve) == []


@pytest.mark.slow
async def test_a_typed_word_acts_only_when_it_is_the_word() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        card = await opened(pilot, feed, "K", typed="cancel")
        await pilot.press(*"cancle", "enter")
        await settle(pilot)
        assert feed.of(Approve) == []
        await pilot.press(*"cancel", "enter")
        await settle(pilot)
        assert feed.of(Approve) == [Approve(proposal=card.id, typed="cancel")]


async def test_pasted_text_is_never_keys() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await opened(pilot, feed)
        app.screen.post_message(events.Paste("yyyy\ny"))
        await settle(pilot)
        assert feed.of(Approve) == []


async def test_closing_a_card_dismisses_it() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        card = await opened(pilot, feed)
        await pilot.press("escape")
        await settle(pilot)
        assert feed.of(Dismiss) == [Dismiss(proposal=card.id)]
        assert isinstance(app.screen, FleetScreen)


async def test_the_proof_line_shows_each_step_and_its_end_and_u_proposes_the_undo() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        card = await opened(pilot, feed)
        await pilot.press("y")
        undo = Intent(kind=Kind.RESUME, target="gpu0003")
        done = Action(
            id=card.id,
            intent=card.intent,
            by="root",
            asked_at=NOW,
            phase=Phase.CLOSED,
            outcome=Outcome.CONFIRMED,
            says="seen",
            undo=undo,
        )
        feed.put(replace(feed.last, actions={card.id: done}))
        await settle(pilot)
        assert "CONFIRMED" in str(app.screen.query_one("#card").render())
        await pilot.press("u")
        await settle(pilot)
        asked = feed.of(Propose)[-1]
        assert isinstance(asked, Propose)
        assert asked.intent == undo


@pytest.mark.parametrize("where", ["fleet", "node", "job"])
@pytest.mark.parametrize("how", ["read-only screen", "read-only engine", "replay"])
async def test_where_nothing_may_be_done_no_acting_key_is_bound(where: str, how: str) -> None:
    feed = FakeFeed(live=how != "replay")
    snap = cluster()
    assert snap.about is not None
    if how == "read-only engine":
        snap = replace(snap, about=msgspec.structs.replace(snap.about, read_only=True))
    feed.put(snap)
    app = app_on(feed, read_only=how == "read-only screen")
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        if where != "fleet":
            await pilot.press(*(["enter"] if where == "node" else ["2", "enter"]))
            await settle(pilot)
        bound = {binding.binding.action for binding in app.screen.active_bindings.values()}
        assert not [action for action in bound if action.startswith("act(") or action == "undo"]
        await pilot.press("d", "e", "r", "x", "h", "l", "K", "u", "y")
        await settle(pilot)
        assert feed.sent == []


async def test_hostile_names_are_shown_as_they_are() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot)
        lines = [strip.text for strip in (app.screen.query_one("#jobs", LineTable).render_line(y) for y in range(6))]
        assert any("[red]1[/red]" in line for line in lines)


async def test_an_engine_that_is_gone_is_said_and_what_was_known_stays() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        feed.end("the engine is gone")
        await settle(pilot)
        assert app.view().gone == "the engine is gone"
        assert len(table(app).keys) == 16


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10), (400, 100)])
async def test_every_screen_opens_at_every_size(size: tuple[int, int]) -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for keys in (
            ["m"],
            ["s"],
            ["tab"],
            ["tab"],
            ["1", "enter"],
            ["escape"],
            ["2", "enter"],
            ["escape"],
            ["question_mark"],
            ["escape"],
        ):
            await pilot.press(*keys)
            await settle(pilot)
        assert isinstance(app.screen, FleetScreen)


async def test_a_filter_shows_only_what_matches_and_escape_clears_it() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("slash", *"gpu0007", "enter")
        await settle(pilot)
        assert list(table(app).keys) == ["gpu0007"]
        await pilot.press("escape")
        await settle(pilot)
        assert len(table(app).keys) == 16


@pytest.mark.slow
async def test_a_resize_storm_and_ten_thousand_jobs_are_survived() -> None:
    feed = FakeFeed()
    feed.put(cluster(jobs=10_000))
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("2")
        for width in range(40, 200, 7):
            await pilot.resize_terminal(width, 10 + width % 40)
        await settle(pilot)
        assert len(app.screen.query_one("#jobs", LineTable).keys) == 10_000


async def test_q_says_goodbye() -> None:
    feed = FakeFeed()
    feed.put(cluster())
    app = app_on(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        await settle(pilot)
        await pilot.press("q")
        await pilot.pause(0.2)
    assert feed.closed
