"""Commands on a login node: the arguments as they are, each under its limit, side by side."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.probe import runner
from tests.probe.build import pythons
from tests.probe.wire import Session

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=40)


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXT, max_size=5))
def test_arguments_arrive_as_they_are(words: list[str]) -> None:
    done = runner.execute(["printf", "%s\\0", *words], 10)
    assert done["status"] == 0
    import base64

    printed = base64.b64decode(done["stdout"]).decode().split("\0")[:-1]
    assert printed == (words or [""])


def test_answers_come_by_number_and_a_slow_command_holds_none_up() -> None:
    with Session() as session:
        assert session.answer()["id"] == 0
        session.ask(1, "sleep", "1")
        session.ask(2, "sh", "-c", "echo out; echo err >&2; exit 3")
        first, second = session.answer(), session.answer()
    assert (first["id"], first["status"], first["stdout"], first["stderr"]) == (2, 3, b"out\n", b"err\n")
    assert (second["id"], second["status"]) == (1, 0)


def test_ten_megabytes_come_through_whole_and_unreadable_bytes_with_them() -> None:
    with Session() as session:
        session.answer()
        session.ask(1, "sh", "-c", "printf '\\377\\001'; head -c 10000000 /dev/zero")
        assert session.answer()["stdout"] == b"\xff\x01" + bytes(10_000_000)


@pytest.mark.parametrize("word", ["no-such-command-here", "/etc/hostname", "a\0b", "\udc80"], ids=ascii)
def test_a_command_that_cannot_be_started_is_answered(word: str) -> None:
    done = runner.execute([word], 5)
    assert (done["status"], done["timed_out"]) == (127, False)
    assert done["stderr"]


def test_a_limit_ends_one_command_and_no_other() -> None:
    with Session() as session:
        session.answer()
        session.ask(1, "sh", "-c", "sleep 96 & sleep 96", timeout=0.5)
        session.ask(2, "sh", "-c", "sleep 1; echo alive")
        ended, other = session.answer(), session.answer()
    assert (ended["id"], ended["timed_out"], ended["status"]) == (1, True, -9)
    assert (other["id"], other["stdout"]) == (2, b"alive\n")


def test_the_end_of_input_lets_a_command_finish_and_leaves_nothing(tmp_path: Path) -> None:
    session = Session()
    session.answer()
    session.ask(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1; touch {tmp_path}/done")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.01)
    with session:
        pass
    assert session.process.returncode == 0
    assert (tmp_path / "done").exists()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_slurm_in_an_unusual_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folders = runner.environment()["PATH"].split(":")
    assert folders[0] == "/nowhere"
    assert {"/opt/slurm/bin", "/usr/local/slurm/bin", "/usr/local/bin", "/sbin"} <= set(folders)


@pytest.mark.parametrize("python", pythons())
def test_it_runs_on_every_python_that_is_here_in_a_plain_locale(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    with Session(python=python) as session:
        session.answer()
        session.ask(1, "printf", "%s", "é\u2028")
        assert session.answer()["stdout"].decode() == "é\u2028"
    assert os.environ["LC_ALL"] == "C"
