"""Actions as table rows; pure."""

import time

from gputop.model.actions import Action, Outcome
from gputop.tui.line_table import Column, Row
from gputop.tui.view import View

COLUMNS = (
    Column("WHEN", 8),
    Column("WHAT", 18),
    Column("TARGET", 12),
    Column("BY", 18, drop=2),
    Column("HOW FAR", 12),
    Column("LAST WORD", 20, grow=True),
)
WORD = {
    Outcome.CONFIRMED: "ok",
    Outcome.CONTRADICTED: "bad",
    Outcome.UNKNOWN: "unknown",
    Outcome.REFUSED: "warn",
}


def action_rows(view: View) -> list[Row]:
    """Newest first."""
    return [_row(action) for action in sorted(view.snap.actions.values(), key=lambda one: -one.asked_at)]


def _row(action: Action) -> Row:
    outcome = action.outcome
    return Row(
        action.id,
        (
            (time.strftime("%H:%M:%S", time.localtime(action.asked_at)), "dim"),
            (str(action.intent.kind), "title"),
            (action.intent.target, "text"),
            (action.by, "dim"),
            (str(outcome or action.phase), WORD[outcome] if outcome else "accent"),
            (action.says, "text"),
        ),
    )
