"""The way onto a node: any login shell, any Python from 3.6, a noisy session, a home full of traps."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.model.sample import Hello
from gputop.probe import bootstrap
from tests.probe.build import end, pythons, read, start
from tests.probe.wire import Session

SHELLS = [path for name in ("sh", "dash", "bash", "zsh", "tcsh", "csh", "fish", "ksh") if (path := shutil.which(name))]
TRAPS = ("json", "zlib", "select", "socket", "signal", "ctypes", "pynvml", "struct", "importlib", "sitecustomize")


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose files have the names of modules, with a PYTHONPATH that leads there."""
    for name in TRAPS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the home was imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    return tmp_path


@pytest.mark.parametrize("python", pythons())
def test_it_runs_on_every_python_that_is_here(python: str) -> None:
    process = start(f"py{os.getpid()}", python=python)
    hello = read(process, 1)[0]
    end(process)
    assert isinstance(hello, Hello)
    assert Path(python).name in ("python", "python3", "python" + hello.python.rsplit(".", 1)[0])


@pytest.mark.parametrize("shell", SHELLS)
def test_every_login_shell_that_is_here_takes_the_command(shell: str) -> None:
    process = start(f"sh{os.getpid()}", shell=shell)
    hello = read(process, 1)[0]
    end(process)
    assert isinstance(hello, Hello)


def test_files_of_the_home_are_not_imported_and_none_are_written(trapped: Path) -> None:
    process = start(f"home{os.getpid()}", folder=trapped)
    messages = read(process, 3)
    end(process)
    assert isinstance(messages[0], Hello)
    assert sorted(path.name for path in trapped.rglob("*")) == sorted(f"{name}.py" for name in TRAPS)


@pytest.mark.parametrize("entry", ["main", "runner"])
def test_all_that_is_sent_is_python_3_6(entry: str) -> None:
    sources = json.loads(bootstrap._sources(entry))
    assert ("pynvml" in sources) == (entry == "main")
    for source in sources.values():
        ast.parse(source, feature_version=(3, 6))


def test_it_reads_its_own_bytes_and_not_one_more() -> None:
    with Session(together=[{"id": 7, "argv": ["true"], "timeout": 5}]) as session:
        assert [session.answer()["id"] for _ in range(2)] == [0, 7]


def test_a_payload_that_is_cut_short_starts_nothing() -> None:
    command, payload = bootstrap.package_probe({"nonce": "n"})
    command = command.replace("python3", sys.executable)
    done = subprocess.run(["/bin/sh", "-c", command], input=payload[:-1], capture_output=True, timeout=20)
    assert (done.returncode, done.stdout) == (3, b"")


def test_options_arrive_as_they_were_whatever_is_in_them() -> None:
    hostile = "'\"\\$(id)`id`!{}\n\u2028é"
    command, payload = bootstrap.package_probe({"nonce": "n", "cluster": hostile})
    assert hostile not in command
    assert len(payload) == int(command.rsplit(" ", 1)[1])
    start_line = bootstrap._START.format(package="p", entry="main", options=json.dumps({"cluster": hostile}))
    call = next(node for node in ast.walk(ast.parse(start_line)) if isinstance(node, ast.Constant))
    assert json.loads(str(call.value)) == {"cluster": hostile}
