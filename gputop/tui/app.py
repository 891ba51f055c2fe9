"""The application: takes frames in, shows the screen that is open, hands commands out. It only wires."""

import time
from collections import deque
from collections.abc import Callable

from textual.app import App

from gputop.model.actions import Intent, Kind
from gputop.model.commands import Approve, Command, Dismiss, Propose
from gputop.model.errors import GputopError
from gputop.model.health import Level
from gputop.model.snapshot import Snapshot
from gputop.stream.feed import Feed, ReplayFeed
from gputop.stream.frames import Frame, apply
from gputop.tui.base_screen import BaseScreen, new_id
from gputop.tui.card import CardScreen
from gputop.tui.exclude import ExcludeScreen
from gputop.tui.fleet import FleetScreen
from gputop.tui.glyphs import for_terminal
from gputop.tui.help import HelpScreen
from gputop.tui.history import record
from gputop.tui.job_detail import JobScreen
from gputop.tui.node_detail import NodeScreen
from gputop.tui.themes import Palette, load_palette
from gputop.tui.view import View

Guide = Callable[[Snapshot], str]
LOOK_SECONDS = 0.2
"""Frames are applied as they come and drawn at most so often."""


class GputopApp(App[int]):
    """Knows the stream and the screens."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "gputop"

    def __init__(
        self,
        feed: Feed,
        *,
        read_only: bool,
        palette: Palette,
        guide: Guide | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._feed = feed
        self._read_only = read_only
        self._palette = palette
        self._guide = guide
        self._glyphs = for_terminal()
        self._monotonic = monotonic
        self._received = monotonic()
        self._dirty = True
        self._looked = 0.0
        self._gone = ""
        self.snap = Snapshot()
        self.history: dict[str, deque[float | None]] = {}
        self.register_theme(palette.textual)
        self.theme = palette.textual.name
        self.animation_level = "none"

    @property
    def replay(self) -> ReplayFeed | None:
        """The replay's controls; None when live."""
        return self._feed if isinstance(self._feed, ReplayFeed) else None

    @property
    def can_act(self) -> bool:
        about = self.snap.about
        return self._feed.live and not self._read_only and not (about is not None and about.read_only)

    def on_mount(self) -> None:
        self.push_screen(FleetScreen(self._palette, self._glyphs))
        self.run_worker(self._listen(), exit_on_error=False)
        self.set_interval(LOOK_SECONDS, self._tick)

    async def _listen(self) -> None:
        """Follows the stream; its end is shown, and what was known stays."""
        try:
            async for frame in self._feed.frames():
                self._take(frame)
        except GputopError as error:
            self._gone = str(error)
            self._dirty = True

    def _take(self, frame: Frame) -> None:
        before, self.snap = self.snap, apply(self.snap if self.snap.time else None, frame)
        self._received = self._monotonic()
        self._dirty = True
        record(self.history, before, self.snap)
        if self.snap.proposals is not before.proposals or self.snap.actions is not before.actions:
            self.look()

    def _tick(self) -> None:
        second = int(self._monotonic())
        if self._dirty or second != int(self._looked):
            self.look()

    def view(self) -> View:
        """The moment to draw: a live picture's ages go on while no frame comes, a replay's stand with it."""
        passed = self._monotonic() - self._received if self._feed.live and self.snap.time else 0.0
        return View(
            snap=self.snap, now=self.snap.time + passed, live=self._feed.live, can_act=self.can_act, gone=self._gone
        )

    def guidance(self, view: View) -> str:
        """What a demo says about itself and what to press next; "" on a real cluster."""
        return self._guide(view.snap) if self._guide is not None else ""

    def look(self) -> None:
        """Draws what is open."""
        top = next((one for one in reversed(self.screen_stack) if isinstance(one, BaseScreen)), None)
        if top is None or not top.is_mounted:
            return
        self._dirty, self._looked = False, self._monotonic()
        view = self.view()
        top.show(view)
        if isinstance(self.screen, CardScreen) and self.screen.is_mounted:
            self.screen.show(view)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.look)

    def open_node(self, name: str) -> None:
        self._open(NodeScreen(name, self._palette, self._glyphs))

    def open_job(self, job: str) -> None:
        self._open(JobScreen(job, self._palette, self._glyphs))

    def _open(self, screen: BaseScreen) -> None:
        self.push_screen(screen)
        self.call_after_refresh(self.look)

    def open_action(self, action_id: str) -> None:
        self.push_screen(CardScreen(action_id, self._palette))
        self.call_after_refresh(self.look)

    def open_help(self) -> None:
        self.push_screen(HelpScreen(self._palette, self._glyphs, can_act=self.can_act, live=self._feed.live))

    def choose_exclusions(self, job_id: str) -> None:
        """Asks which of a job's nodes to keep away from, then draws the card."""
        job = self.snap.jobs.get(job_id)
        names = job.nodes or job.last_nodes if job is not None else ()
        health = self.view().health
        nodes = tuple(
            (name, health[name].says, health[name].level <= Level.DRAINED) for name in names if name in health
        )

        def chosen(exclude: tuple[str, ...] | None) -> None:
            if exclude:
                self.propose(Intent(kind=Kind.REQUEUE_EXCLUDING, target=job_id, exclude=exclude))

        self.push_screen(ExcludeScreen(job_id, nodes, self._palette), chosen)

    def propose(self, intent: Intent) -> None:
        """Asks the engine for a card, and opens it."""
        card_id = new_id()
        self.push_screen(CardScreen(card_id, self._palette))
        self._send(Propose(id=card_id, intent=intent))

    def approve(self, card_id: str, typed: str) -> None:
        self._send(Approve(proposal=card_id, typed=typed))

    def dismiss_proposal(self, card_id: str) -> None:
        self._send(Dismiss(proposal=card_id))

    def _send(self, command: Command) -> None:
        self.run_worker(self._sending(command), exit_on_error=False)

    async def _sending(self, command: Command) -> None:
        try:
            await self._feed.send(command)
        except GputopError as error:
            self.notify(str(error), severity="error", timeout=6)

    def pause(self) -> None:
        if self.replay is not None:
            if self.replay.paused:
                self.replay.resume()
            else:
                self.replay.pause()
            self.look()

    def seek(self, seconds: float) -> None:
        if self.replay is not None:
            self.replay.seek(self.replay.position + seconds)

    def speed(self, factor: float) -> None:
        if self.replay is not None:
            self.replay.set_speed(self.replay.speed * factor)

    async def action_quit(self) -> None:
        """A clean quit: the engine hears a goodbye."""
        await self._feed.close()
        self.exit(0)


def run(feed: Feed, *, read_only: bool, theme: str | None, guide: Guide | None = None) -> int:
    """Shows the feed until the person leaves; answers with the exit code. guide: a simulated cluster's next step."""
    app = GputopApp(feed, read_only=read_only, palette=load_palette(theme), guide=guide)
    result = app.run()
    return app.return_code or 0 if result is None else result
