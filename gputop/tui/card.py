"""The card: what would be done, to whom, what holds it back, which key does what; then the proof that it was done."""

import time
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gputop.model.actions import Action, Proposal, ProposalState
from gputop.tui.action_rows import WORD
from gputop.tui.themes import Palette
from gputop.tui.view import View

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp


class CardScreen(ModalScreen[None]):
    """One proposal by its id; keys do nothing until it has been painted, so that none meant for elsewhere acts."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", show=False),
        Binding("n,escape", "dismiss_card", show=False),
        Binding("r", "again", show=False),
        Binding("u", "undo", show=False),
    ]
    DEFAULT_CSS = """
    CardScreen { align: center middle; background: $background 60%; }
    CardScreen Vertical {
        width: 100;
        max-width: 96%;
        height: auto;
        max-height: 94%;
        border: round $accent;
        padding: 0 1;
        background: $panel;
        overflow-y: auto;
    }
    CardScreen Input { border: none; height: 1; margin-top: 1; display: none; background: $background; }
    CardScreen Input.shown { display: block; }
    """

    def __init__(self, card_id: str, palette: Palette) -> None:
        super().__init__()
        self.card_id = card_id
        self._palette = palette
        self._armed = False
        self._approved = False
        self._card: Proposal | None = None
        self._action: Action | None = None

    @property
    def gputop(self) -> "GputopApp":
        app: Any = self.app
        return app  # type: ignore[no-any-return]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("asking Slurm …", id="card")
            yield Input(id="word")

    def show(self, view: View) -> None:
        """Draws the proposal, or the action that came of it."""
        self._card = view.snap.proposals.get(self.card_id, self._card)
        self._action = view.snap.actions.get(self.card_id, self._action)
        if self._card is None and self._action is None:
            return
        wants_word = self._asks()
        word = self.query_one("#word", Input)
        if wants_word and not word.has_class("shown"):
            word.placeholder = f"type {self._card.typed} and press enter" if self._card else ""
            word.add_class("shown")
            word.focus()
        elif not wants_word and word.has_class("shown"):
            word.remove_class("shown")
        self.query_one("#card", Static).update(card_text(self._card, self._action, view.now, self._palette))
        if not self._armed:
            self.call_after_refresh(self._arm)

    def _arm(self) -> None:
        self._armed = True

    def _asks(self) -> bool:
        """Whether a typed word is what it waits for."""
        card = self._card
        if card is None or self._action is not None or self._approved or not card.typed:
            return False
        return card.state is ProposalState.OPEN and not [one for one in card.refusals if one.guard != "typed word"]

    def _ready(self) -> bool:
        card = self._card
        return (
            self._armed
            and not self._approved
            and self._action is None
            and card is not None
            and card.state is ProposalState.OPEN
            and not card.refusals
        )

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is never keys."""
        event.stop()
        event.prevent_default()

    def action_approve(self) -> None:
        if self._ready() and self._card is not None and not self._card.typed:
            self._approved = True
            self.gputop.approve(self.card_id, "")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        card = self._card
        if card is None or not self._armed or self._approved or card.state is not ProposalState.OPEN:
            return
        if event.value == card.typed:
            self._approved = True
            self.gputop.approve(self.card_id, event.value)
        else:
            self.query_one("#word", Input).value = ""
            self.notify(f"not {card.typed!r}: nothing was done", timeout=3)

    def action_dismiss_card(self) -> None:
        if self._card is not None and self._action is None and not self._approved:
            self.gputop.dismiss_proposal(self.card_id)
        self.app.pop_screen()

    def action_again(self) -> None:
        """Draws a fresh card for the same intent."""
        card = self._card
        if card is not None and self._action is None and (card.state is ProposalState.STALE or card.refusals):
            self.gputop.dismiss_proposal(self.card_id)
            self.app.pop_screen()
            self.gputop.propose(card.intent)

    def action_undo(self) -> None:
        if self._action is not None and self._action.undo is not None:
            undo = self._action.undo
            self.app.pop_screen()
            self.gputop.propose(undo)


def card_text(card: Proposal | None, action: Action | None, now: float, palette: Palette) -> Text:
    """The whole card as text."""
    text = Text()
    stale = card is not None and card.state is ProposalState.STALE and action is None
    title = card.title if card is not None else f"{action.intent.kind} {action.intent.target}" if action else ""
    text.append(title, palette["dim" if stale else "title"])
    for effect in card.effects if card is not None else ():
        text.append(f"\n  {effect}", palette["dim" if stale else "text"])
    if card is not None and card.commands:
        text.append("\n")
        for command in card.commands:
            text.append("\n  $ ", palette["dim"])
            text.append(command, palette["dim" if stale else "accent"])
    if action is not None:
        _proof(text, action, now, palette)
    elif card is not None:
        _offer(text, card, stale=stale, palette=palette)
    return text


def _offer(text: Text, card: Proposal, *, stale: bool, palette: Palette) -> None:
    text.append("\n")
    if stale:
        text.append("\n  the world changed since this was drawn: its key does nothing", palette["warn"])
        _keys(text, (("r", "draw it again"), ("esc", "close")), palette)
        return
    for refusal in card.refusals:
        text.append("\n  held back by ", palette["dim"])
        text.append(f"{refusal.guard}: ", palette["warn"])
        text.append(refusal.says, palette["text"])
    if card.refusals:
        _keys(text, (("r", "look again"), ("esc", "close")), palette)
    elif card.state is ProposalState.APPROVED:
        text.append("\n  approved, not yet begun", palette["accent"])
    elif card.typed:
        _keys(text, ((f"type {card.typed}", "and enter: do it"), ("esc", "no")), palette)
    else:
        _keys(text, (("y", "do it"), ("n", "no")), palette)


def _keys(text: Text, keys: tuple[tuple[str, str], ...], palette: Palette) -> None:
    text.append("\n\n  ")
    for key, label in keys:
        text.append(key, palette["key"])
        text.append(f" {label}    ", palette["text"])


def _proof(text: Text, action: Action, now: float, palette: Palette) -> None:
    """asked → accepted → seen → how it ended, each with its time."""
    text.append("\n")
    for step in action.steps:
        text.append(f"\n  {time.strftime('%H:%M:%S', time.localtime(step.at))} ", palette["dim"])
        word = WORD[action.outcome] if action.outcome and step is action.steps[-1] else "accent"
        text.append(f"{step.phase:<9}", palette[word])
        text.append(step.says, palette["text"])
    if action.open:
        text.append(f"\n  reading … {max(0.0, now - action.asked_at):.0f} s", palette["dim"])
        _keys(text, (("esc", "close; it goes on"),), palette)
        return
    text.append("\n\n  ")
    text.append(
        f" {str(action.outcome).upper()} ", palette[WORD[action.outcome]] if action.outcome else palette["text"]
    )
    if action.follow_up:
        text.append(f"  {action.follow_up}", palette["text"])
    keys = (("u", f"undo: {action.undo.kind} {action.undo.target}"),) if action.undo else ()
    _keys(text, (*keys, ("esc", "close")), palette)
