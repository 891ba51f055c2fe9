"""What every full screen does: shows a view, proposes actions, and binds none where none is allowed."""

import secrets
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from gputop.model.actions import Intent, Kind
from gputop.tui.keys import KEYS
from gputop.tui.view import View

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_ACTING = frozenset(key.action.split("(")[0] for key in KEYS if key.acts)
_REPLAYING = frozenset(key.action.split("(")[0] for key in KEYS if "replay" in key.where)


class BaseScreen(Screen[None]):
    """A screen over the stream."""

    AUTO_FOCUS = "LineTable"

    @property
    def gputop(self) -> "GputopApp":
        app: Any = self.app
        return app  # type: ignore[no-any-return]

    def show(self, view: View) -> None:
        """Draws the view."""

    def target(self, kind: Kind) -> str | None:
        """The node or job that an action of this kind would be about here; none on a screen without any."""
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Takes the acting keys away where nothing may be done, and the replay's where nothing is replayed."""
        if action in _ACTING:
            return self.gputop.can_act
        if action in _REPLAYING:
            return self.gputop.replay is not None
        return True

    def action_act(self, kind_name: str) -> None:
        """Opens the card for the selected target, frozen by its id now."""
        kind = Kind(kind_name)
        target = self.target(kind)
        if target is None:
            self.notify(f"{kind} is about a {'node' if kind.on_node else 'job'}: select one first", timeout=3)
            return
        if kind is Kind.REQUEUE_EXCLUDING:
            self.gputop.choose_exclusions(target)
            return
        self.gputop.propose(Intent(kind=kind, target=target))

    def action_undo(self) -> None:
        """Proposes to take the newest undoable action back."""
        actions = sorted(self.gputop.snap.actions.values(), key=lambda one: -one.asked_at)
        undo = next((one.undo for one in actions if one.undo is not None), None)
        if undo is None:
            self.notify("nothing here can be undone", timeout=3)
        else:
            self.gputop.propose(undo)

    def action_help(self) -> None:
        self.gputop.open_help()

    async def action_quit_gputop(self) -> None:
        await self.gputop.action_quit()

    def action_pause(self) -> None:
        self.gputop.pause()

    def action_seek(self, seconds: float) -> None:
        self.gputop.seek(seconds)

    def action_speed(self, factor: float) -> None:
        self.gputop.speed(factor)

    def action_back(self) -> None:
        self.app.pop_screen()


def new_id() -> str:
    """The id of a card; it becomes our mark's."""
    return secrets.token_hex(4)
