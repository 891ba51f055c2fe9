"""Rooms in a clean interpreter: importing one loads nothing it must not know, whatever the static graph says."""

import subprocess
import sys

import pytest

FORBIDDEN = {
    "gputop.model": ("gputop.sources", "gputop.recover", "gputop.stream", "gputop.engine", "gputop.tui", "asyncssh", "textual"),
    "gputop.stream.feed": ("gputop.sources", "gputop.recover", "gputop.engine", "gputop.tui", "asyncssh", "textual"),
    "gputop.recover.executor": ("gputop.sources", "gputop.stream", "gputop.engine", "gputop.tui", "asyncssh", "textual"),
    "gputop.sources.slurm.commands": ("gputop.recover", "gputop.stream", "gputop.engine", "gputop.tui", "asyncssh", "textual"),
    "gputop.sources.ssh.fleet": ("gputop.recover", "gputop.stream", "gputop.engine", "gputop.tui", "textual", "rich"),
    "gputop.engine.main": ("gputop.tui", "textual", "rich"),
    "gputop.tui.app": ("gputop.sources", "gputop.recover", "gputop.engine", "asyncssh"),
    "gputop.engine.launch": ("asyncssh", "textual", "gputop.sources", "gputop.recover"),
    "gputop.cli": ("textual", "rich", "asyncssh", "numpy", "msgspec.json", "gputop.engine", "gputop.tui"),
}  # fmt: skip


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_loads_nothing_it_must_not_know(room: str) -> None:
    code = f"import sys, {room}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    wrong = [
        name for name in loaded if any(name == banned or name.startswith(banned + ".") for banned in FORBIDDEN[room])
    ]
    assert not wrong
