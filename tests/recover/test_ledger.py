"""The ledger: on disk before anything is sent, private, one run a card, and its troubles are said."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gputop.model.actions import Action, Intent, Kind, Outcome, Phase, Step
from gputop.recover.ledger import AlreadyTaken, Ledger, LedgerError
from tests.recover.run import DRAIN, RESUME, reopened
from tests.recover.world import NOW, job, node


def action(action_id: str = "a1", intent: Intent = DRAIN, **more: object) -> Action:
    asked = Step(at=NOW, phase=Phase.ASKED, says="asked by ann")
    facts: dict[str, object] = {"by": "ann (uid 7)", "asked_at": NOW, "phase": Phase.ASKED, "steps": (asked,)}
    return Action(id=action_id, intent=intent, **{**facts, **more})  # type: ignore[arg-type]


def ended(one: Action) -> Action:
    return msgspec.structs.replace(
        one, phase=Phase.CLOSED, outcome=Outcome.CONFIRMED, says="drained", closed_at=NOW + 1, undo=RESUME
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path / "ledger.sqlite")
    yield made
    made.close()


def test_what_was_reserved_is_there_after_the_process_is_gone_with_its_first_step(ledger: Ledger) -> None:
    ledger.reserve(action())
    again = Ledger(ledger.path)
    (found,) = again.open_actions()
    assert found == action()
    again.close()


def test_an_end_is_kept_with_its_undo(ledger: Ledger) -> None:
    ledger.reserve(action())
    ledger.close_action(ended(action()))
    (found,) = ledger.recent(5)
    assert found == ended(action())


def test_an_action_under_way_in_this_engine_is_not_one_left_by_an_earlier_engine(ledger: Ledger) -> None:
    ledger.reserve(action())
    assert ledger.open_actions() == ()
    assert [one.id for one in reopened(ledger).open_actions()] == ["a1"]


@pytest.mark.parametrize(
    ("second", "close_first"),
    [
        pytest.param(action("a1"), False, id="the same card while it runs"),
        pytest.param(action("a1"), True, id="the same card after it ran"),
        pytest.param(action("a2", RESUME), False, id="another card on the same target"),
    ],
)
def test_a_second_reservation_is_taken_already(ledger: Ledger, second: Action, close_first: bool) -> None:
    ledger.reserve(action())
    if close_first:
        ledger.close_action(ended(action()))
    with pytest.raises(AlreadyTaken):
        ledger.reserve(second)
    assert ledger.trouble == "", "somebody being faster is no fault of the file"


def test_a_target_is_free_again_after_its_action_ended(ledger: Ledger) -> None:
    ledger.reserve(action())
    ledger.close_action(ended(action()))
    ledger.reserve(action("a2", RESUME))


def test_a_reservation_is_all_there_or_not_at_all(ledger: Ledger) -> None:
    bad = msgspec.structs.replace(action(), steps=(Step(at="no number", phase=Phase.ASKED, says=""),))  # type: ignore[arg-type]
    with pytest.raises(LedgerError):
        ledger.reserve(bad)
    assert ledger.recent(5) == ()
    ledger.reserve(action())


def test_the_subject_before_the_first_call_is_kept_whole(ledger: Ledger) -> None:
    requeue = Intent(kind=Kind.REQUEUE, target="7")
    ledger.reserve(action())
    ledger.reserve(action("a2", requeue))
    assert ledger.before("a1") is None
    ledger.remember("a1", node(state="mixed+planned"))
    ledger.remember("a2", job(excluded=("gpu9",)))
    assert ledger.before("a1") == node(state="mixed+planned")
    assert ledger.before("a2") == job(excluded=("gpu9",))


def test_only_calls_that_went_out_count_as_sent(ledger: Ledger) -> None:
    ledger.reserve(action())
    assert ledger.last_sent("a1") is None
    ledger.step("a1", Step(at=NOW + 1, phase=Phase.ASKED, says="sending"), sent=True)
    ledger.step("a1", Step(at=NOW + 9, phase=Phase.SEEN, says="seen"))
    assert ledger.last_sent("a1") == NOW + 1


def test_a_step_of_no_action_is_refused_as_a_ledger_error(ledger: Ledger) -> None:
    with pytest.raises(LedgerError):
        ledger.step("nobody", Step(at=NOW, phase=Phase.SEEN, says=""))


def test_decisions_are_kept_with_who_and_when(ledger: Ledger) -> None:
    ledger.decide(NOW, "dismissed", "c1", DRAIN, "ann (uid 7)", "not tonight")
    rows = sqlite3.connect(ledger.path).execute("SELECT at, what, proposal, by, says FROM decisions").fetchall()
    assert rows == [(NOW, "dismissed", "c1", "ann (uid 7)", "not tonight")]


def test_a_full_disk_is_a_trouble_until_a_write_succeeds(ledger: Ledger) -> None:
    full(ledger)
    with pytest.raises(LedgerError, match="full"):
        ledger.decide(NOW, "approved", "c1", DRAIN, "ann", "x" * 100_000)
    assert "full" in ledger.trouble
    roomy(ledger)
    ledger.decide(NOW, "approved", "c1", DRAIN, "ann", "")
    assert ledger.trouble == ""


def full(ledger: Ledger) -> None:
    (pages,) = ledger._db.execute("PRAGMA page_count").fetchone()
    ledger._db.execute(f"PRAGMA max_page_count = {pages}")


def roomy(ledger: Ledger) -> None:
    ledger._db.execute("PRAGMA max_page_count = 1000000")


def test_an_end_that_could_not_be_written_is_written_before_the_next_reservation(ledger: Ledger) -> None:
    ledger.reserve(action())
    full(ledger)
    with pytest.raises(LedgerError):
        ledger.close_action(msgspec.structs.replace(ended(action()), says="x" * 100_000))
    roomy(ledger)
    ledger.reserve(action("a2"))
    assert {one.id: one.outcome for one in ledger.recent(5)} == {"a1": Outcome.CONFIRMED, "a2": None}


def test_a_ledger_locked_by_somebody_is_a_ledger_error(ledger: Ledger) -> None:
    ledger._db.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="locked"):
        ledger.reserve(action())
    assert "locked" in ledger.trouble
    other.execute("ROLLBACK")
    other.close()
    ledger.reserve(action())


def test_a_write_cut_off_half_way_leaves_no_transaction_behind(ledger: Ledger) -> None:
    with pytest.raises(KeyboardInterrupt), ledger._writing():
        raise KeyboardInterrupt
    ledger.reserve(action())


def test_a_damaged_file_is_refused_by_name_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    content = b"not a database at all " * 99
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite"):
        Ledger(path)
    assert path.read_bytes() == content


def test_a_record_that_cannot_be_decoded_is_a_ledger_error(ledger: Ledger) -> None:
    ledger.reserve(action())
    ledger._db.execute("UPDATE actions SET intent = x'00'")
    with pytest.raises(LedgerError):
        ledger.recent(5)


def test_a_folder_that_is_not_there_is_a_ledger_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="gone"):
        Ledger(tmp_path / "gone" / "ledger.sqlite")


def test_nobody_else_may_read_it_nor_its_journal(ledger: Ledger) -> None:
    ledger.reserve(action())
    modes = {path.name: path.stat().st_mode & 0o777 for path in ledger.path.parent.iterdir()}
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}
