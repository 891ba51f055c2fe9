"""The durable record of what was decided and done: SQLite, on disk before anything is sent."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gputop.model.actions import Action, Intent, Outcome, Phase, Step
from gputop.model.errors import GputopError
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.recover.plan import Subject

VERSION = 1
_TABLES = """
CREATE TABLE actions (
    id TEXT PRIMARY KEY, target TEXT NOT NULL, intent BLOB NOT NULL, by TEXT NOT NULL,
    asked_at REAL NOT NULL, phase TEXT NOT NULL, outcome TEXT, says TEXT NOT NULL DEFAULT '', closed_at REAL,
    undo BLOB, before BLOB
) STRICT;
CREATE UNIQUE INDEX one_open_action_a_target ON actions (target) WHERE outcome IS NULL;
CREATE TABLE steps (
    action TEXT NOT NULL REFERENCES actions (id), at REAL NOT NULL, phase TEXT NOT NULL, says TEXT NOT NULL,
    sent INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE decisions (
    at REAL NOT NULL, what TEXT NOT NULL, proposal TEXT NOT NULL, intent BLOB NOT NULL, by TEXT NOT NULL,
    says TEXT NOT NULL
) STRICT;
"""


class LedgerError(GputopError):
    """The ledger cannot be used; then nothing is done."""


class AlreadyTaken(LedgerError):
    """The proposal ran already, or the target has an open action."""


class Ledger:
    """One file; every call is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble = ""
        """Why it cannot be written now; "" while it can."""
        self._reserved: set[str] = set()
        self._unclosed: dict[str, Action] = {}
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"{path}: {error}") from error
        try:
            self._prepare()
        except LedgerError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._reading():
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise LedgerError(
                    f"{self.path}: written by a newer gputop (schema {version}); this one knows {VERSION}"
                )
            if version == 0:
                self._db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """A file that cannot be read, or holds what we cannot decode, is a LedgerError too."""
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise LedgerError(f"{self.path}: {error}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; a failure is kept in `trouble` until the next one succeeds."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
            self.trouble = ""
        except sqlite3.Error as error:
            self._rollback()
            if not isinstance(error, sqlite3.IntegrityError):
                self.trouble = str(error)
            raise LedgerError(f"{self.path}: {error}") from error
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")

    def reserve(self, action: Action) -> None:
        """Takes the target for this action, with its first steps; AlreadyTaken when somebody was first."""
        for ended in tuple(self._unclosed.values()):
            self.close_action(ended)
        try:
            with self._writing() as db:
                db.execute(
                    "INSERT INTO actions (id, target, intent, by, asked_at, phase) VALUES (?,?,?,?,?,?)",
                    (
                        action.id,
                        action.intent.target,
                        msgspec.json.encode(action.intent),
                        action.by,
                        action.asked_at,
                        action.phase,
                    ),
                )
                for step in action.steps:
                    _insert_step(db, action.id, step, sent=False)
        except LedgerError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise AlreadyTaken(
                    f"{action.intent.target}: approved already, or another action on it is open"
                ) from error
            raise
        self._reserved.add(action.id)

    def remember(self, action_id: str, before: Subject) -> None:
        """What the subject was just before the first call; a later look is judged against it."""
        with self._writing() as db:
            db.execute("UPDATE actions SET before = ? WHERE id = ?", (msgspec.json.encode(before), action_id))

    def step(self, action_id: str, step: Step, *, sent: bool = False) -> None:
        """One step; sent marks that a call is about to go out."""
        with self._writing() as db:
            _insert_step(db, action_id, step, sent=sent)

    def close_action(self, action: Action) -> None:
        """How it ended; an end that cannot be written now is written before the next action is reserved."""
        undo = None if action.undo is None else msgspec.json.encode(action.undo)
        try:
            with self._writing() as db:
                db.execute(
                    "UPDATE actions SET phase = ?, outcome = ?, says = ?, closed_at = ?, undo = ? WHERE id = ?",
                    (action.phase, action.outcome, action.says, action.closed_at, undo, action.id),
                )
        except LedgerError:
            self._unclosed[action.id] = action
            raise
        self._unclosed.pop(action.id, None)

    def decide(self, at: float, what: str, proposal: str, intent: Intent, by: str, says: str) -> None:
        """An approval, a dismissal or a refusal, as a label for later."""
        with self._writing() as db:
            row = (at, what, proposal, msgspec.json.encode(intent), by, says)
            db.execute("INSERT INTO decisions (at, what, proposal, intent, by, says) VALUES (?,?,?,?,?,?)", row)

    def open_actions(self) -> tuple[Action, ...]:
        """Those that an earlier engine left without an end; what was reserved through this object is under way."""
        found = self._actions("WHERE outcome IS NULL ORDER BY asked_at")
        return tuple(action for action in found if action.id not in self._reserved)

    def recent(self, limit: int) -> tuple[Action, ...]:
        """The newest, oldest first."""
        return tuple(reversed(self._actions(f"ORDER BY asked_at DESC LIMIT {int(limit)}")))

    def before(self, action_id: str) -> Subject | None:
        """What `remember` kept."""
        with self._reading():
            row = self._db.execute("SELECT before, intent FROM actions WHERE id = ?", (action_id,)).fetchone()
            if row is None or row[0] is None:
                return None
            intent = msgspec.json.decode(row[1], type=Intent)
            if intent.kind.on_node:
                return msgspec.json.decode(row[0], type=Node)
            return msgspec.json.decode(row[0], type=Job)

    def last_sent(self, action_id: str) -> float | None:
        """When its last call went out; None when none did."""
        with self._reading():
            row = self._db.execute("SELECT max(at) FROM steps WHERE action = ? AND sent = 1", (action_id,)).fetchone()
        return None if row is None else row[0]

    def _actions(self, where: str) -> tuple[Action, ...]:
        with self._reading():
            rows = self._db.execute(
                f"SELECT id, intent, by, asked_at, phase, outcome, says, closed_at, undo FROM actions {where}"  # noqa: S608 - constant clauses
            ).fetchall()
            return tuple(self._action(row) for row in rows)

    def _action(self, row: tuple[Any, ...]) -> Action:
        action_id, intent, by, asked_at, phase, outcome, says, closed_at, undo = row
        steps = self._db.execute("SELECT at, phase, says FROM steps WHERE action = ? ORDER BY rowid", (action_id,))
        return Action(
            id=str(action_id),
            intent=msgspec.json.decode(bytes(intent), type=Intent),
            by=str(by),
            asked_at=float(asked_at),
            phase=Phase(phase),
            outcome=None if outcome is None else Outcome(outcome),
            says=str(says),
            closed_at=None if closed_at is None else float(closed_at),
            undo=None if undo is None else msgspec.json.decode(bytes(undo), type=Intent),
            steps=tuple(Step(at=at, phase=Phase(step), says=words) for at, step, words in steps),
        )

    def close(self) -> None:
        self._db.close()


def _insert_step(db: sqlite3.Connection, action_id: str, step: Step, *, sent: bool) -> None:
    db.execute(
        "INSERT INTO steps (action, at, phase, says, sent) VALUES (?,?,?,?,?)",
        (action_id, step.at, step.phase, step.says, int(sent)),
    )
