"""Which nodes a requeued job should keep away from: its own, those with trouble chosen beforehand."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from gputop.tui.themes import Palette


class ExcludeScreen(ModalScreen[tuple[str, ...] | None]):
    """Answers with the chosen nodes, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "done", show=False, priority=True),
        Binding("escape", "no", show=False),
    ]
    DEFAULT_CSS = """
    ExcludeScreen { align: center middle; background: $background 60%; }
    ExcludeScreen Vertical {
        width: 80;
        max-width: 96%;
        height: auto;
        max-height: 90%;
        border: round $accent;
        padding: 0 1;
        background: $panel;
    }
    ExcludeScreen SelectionList { height: auto; max-height: 16; border: none; }
    """

    def __init__(self, job: str, nodes: tuple[tuple[str, str, bool], ...], palette: Palette) -> None:
        """nodes: (name, what is wrong with it, chosen beforehand)."""
        super().__init__()
        self._job = job
        self._choices = nodes
        self._palette = palette

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(f"Requeue job {self._job} away from:", markup=False)
            yield SelectionList[str](
                *(
                    Selection(f"{name}  {says}".replace("[", r"\["), name, chosen)
                    for name, says, chosen in self._choices
                )
            )
            yield Static("space chooses, enter draws the card, esc goes back", markup=False)

    def on_mount(self) -> None:
        self.query_one(SelectionList).focus()

    def action_done(self) -> None:
        chosen = set(self.query_one(SelectionList).selected)
        self.dismiss(tuple(name for name, _, _ in self._choices if name in chosen))

    def action_no(self) -> None:
        self.dismiss(None)
