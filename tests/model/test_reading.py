"""Readings, columns and text: nothing unreadable becomes a number, nothing hostile reaches a screen."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model.columns import GPU, PORT, GpuId
from gputop.model.reading import WHY_CODES, Unknown, Why
from gputop.model.states import State
from gputop.model.table import Table, empty_table
from gputop.model.text import clean


def table(rows: int) -> Table[GpuId]:
    empty: Table[GpuId] = empty_table(GPU)
    return empty.with_ids({k: GpuId(node="gpu0001", index=k, pci=f"0000:{k:02x}:00") for k in range(rows)})


def test_a_new_row_was_not_read() -> None:
    assert table(1).at(0, "temp") == Unknown(Why.NOT_READ)


@given(st.sampled_from([why for why in WHY_CODES if why]), st.floats(allow_nan=True))
def test_a_reason_wins_over_whatever_value_came_with_it(why: Why, value: float) -> None:
    code = np.array([WHY_CODES.index(why)], np.uint8)
    changed = table(1).with_values(np.array([0]), {"temp": (np.array([value]), code)})
    assert changed.at(0, "temp") == Unknown(why)


@given(st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_value_that_is_no_number_is_an_error_not_a_zero(value: float) -> None:
    changed = table(1).with_values(np.array([0]), {"power": (np.array([value]), np.zeros(1, np.uint8))})
    assert changed.at(0, "power") == Unknown(Why.ERROR)


def test_a_table_shares_what_did_not_change() -> None:
    before = table(2)
    after = before.with_values(np.array([1]), {"temp": (np.array([70.0]), np.zeros(1, np.uint8))})
    assert after["power"] is before["power"]
    assert before.at(1, "temp") == Unknown(Why.NOT_READ)
    assert after.at(1, "temp") == 70.0


def test_rows_are_appended_without_a_gap() -> None:
    with pytest.raises(IndexError, match="gap"):
        table(0).with_ids({1: GpuId(node="n", index=0)})


def test_every_column_name_is_used_once() -> None:
    assert len({spec.name for spec in GPU}) == len(GPU)
    assert len({spec.name for spec in PORT}) == len(PORT)


@given(st.text(max_size=300))
def test_clean_text_is_one_printable_line(text: str) -> None:
    line = clean(text)
    assert "\x1b" not in line
    assert all(char.isprintable() or char == " " for char in line if ord(char) < 0x2000)
    assert not set(line) & set("\n\r\x07\u202e\u2066")


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\nJobId=9 JobState=FAILED", "a JobId=9 JobState=FAILED"),
        ("\x1b]0;title\x07name", "name"),
        ("\u202egnp.exe", "gnp.exe"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("emoji 🔥 stays", "emoji 🔥 stays"),
    ],
)
def test_escape_sequences_and_direction_marks_are_taken_out(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


def test_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 2000, 10) == "xxxxxxxxx…"


def test_a_draining_node_with_work_is_not_drained() -> None:
    assert State("idle", frozenset({"drain"})).drained
    assert not State("mixed", frozenset({"drain"})).drained
    assert not State("idle", frozenset({"drain", "completing"})).drained
    assert State("down", frozenset({"drain", "not_responding"})).drained
