"""Rooms in a clean interpreter: importing one loads nothing it must not know, whatever the static graph says."""

import subprocess
import sys

import pytest

SCREEN = ("gputop.tui", "textual", "rich")
ROOMS = ("gputop.sources", "gputop.recover", "gputop.stream", "gputop.engine", *SCREEN, "asyncssh")


def others(*own: str) -> tuple[str, ...]:
    return tuple(room for room in ROOMS if room not in own)


FORBIDDEN = {
    "gputop.model": ROOMS,
    "gputop.stream.feed": others("gputop.stream"),
    "gputop.recover.executor": others("gputop.recover"),
    "gputop.sources.slurm.commands": others("gputop.sources"),
    "gputop.sources.ssh.fleet": others("gputop.sources", "asyncssh"),
    "gputop.engine.main": SCREEN,
    "gputop.tui.app": ("gputop.sources", "gputop.recover", "gputop.engine", "asyncssh"),
    "gputop.engine.launch": ("asyncssh", *SCREEN, "gputop.sources", "gputop.recover"),
    "gputop.cli": (*SCREEN, "asyncssh", "numpy", "gputop.engine"),
}


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_loads_nothing_it_must_not_know(room: str) -> None:
    code = f"import sys, {room}; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    wrong = [
        name for name in loaded if any(name == banned or name.startswith(banned + ".") for banned in FORBIDDEN[room])
    ]
    assert not wrong
