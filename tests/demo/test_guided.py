"""The guided scenario, followed to its end by keys alone, as its guide says; and the guide by itself."""

import asyncio

import pytest
from textual.pilot import Pilot

from gputop.demo.guide import Guide
from gputop.demo.live import Demo
from gputop.demo.scenario import load_scenario
from gputop.engine.launch import EngineFeed
from gputop.tui.app import GputopApp
from gputop.tui.card import CardScreen
from gputop.tui.exclude import ExcludeScreen
from gputop.tui.guide_bar import GuideBar
from gputop.tui.themes import load_palette


class Player:
    """Reads the guide's line and presses keys; looks at nothing else."""

    def __init__(self, app: GputopApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def told(self) -> str:
        return str(self.app.screen_stack[1].query_one(GuideBar).content)

    async def until_told(self, words: str, seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while words not in self.told:
                await self.pilot.pause(0.3)

    async def select(self, pane: str, text: str) -> None:
        """The row with that text, by the filter."""
        await self.pilot.press(pane, "slash", *text, "enter")
        await self.pilot.pause(0.5)

    async def approve(self) -> None:
        """y on a card that lets it, then back to the fleet without the filter."""
        async with asyncio.timeout(30):
            while not (isinstance(self.app.screen, CardScreen) and self.app.snap.proposals):
                await self.pilot.pause(0.2)
        await self.pilot.pause(1.0)
        await self.pilot.press("y")
        await self.pilot.pause(2.0)
        while isinstance(self.app.screen, CardScreen):
            await self.pilot.press("escape")
            await self.pilot.pause(0.3)
        await self.pilot.press("slash", "escape")

    async def drain(self, node: str) -> None:
        await self.select("1", node)
        await self.pilot.press("d")
        await self.approve()

    async def requeue_without(self, job: str) -> None:
        await self.select("2", job)
        await self.pilot.press("x")
        async with asyncio.timeout(10):
            while not isinstance(self.app.screen, ExcludeScreen):
                await self.pilot.pause(0.2)
        await self.pilot.press("enter")
        await self.approve()

    async def resume(self, node: str) -> None:
        await self.select("1", node)
        await self.pilot.press("e")
        await self.approve()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore:.*subprocess.*still running:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
async def test_the_guided_scenario_can_be_followed_by_keys_alone() -> None:
    demo = await asyncio.to_thread(Demo.start, "guided", nodes=64, seed=1)
    try:
        guide = Guide(load_scenario("guided"), demo.began)
        feed = EngineFeed(demo.chosen, demo.config, read_only=False, record=None)
        app = GputopApp(feed, read_only=False, palette=load_palette("dark"), guide=guide.line)
        async with app.run_test(size=(160, 50)) as pilot:
            player = Player(app, pilot)
            await player.until_told("SIMULATED")
            await player.until_told("gpu0007 lost GPU 3")
            await player.drain("gpu0007")
            await player.until_told("Now its job")
            await player.requeue_without("llama-70b")
            await player.until_told("gpu0021 is too hot")
            await player.drain("gpu0021")
            await player.until_told("moe-pretrain still runs there")
            await player.requeue_without("moe-pretrain")
            await player.until_told("gpu0007 has new parts")
            await player.resume("gpu0007")
            await player.until_told("eval-sweep tasks fail alike")
            ends = {(str(a.intent.kind), a.intent.target): str(a.outcome) for a in app.snap.actions.values()}
            assert set(ends.values()) == {"confirmed"}, ends
            assert len(ends) == 5
            ran = {job.name: job for job in app.snap.jobs.values()}
            assert "gpu0007" not in ran["llama-70b"].nodes
            assert "gpu0021" not in ran["moe-pretrain"].nodes
            await pilot.press("q")
    finally:
        await asyncio.to_thread(demo.close)
    assert not demo.folder.exists()
