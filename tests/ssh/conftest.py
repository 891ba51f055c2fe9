"""A world of SSH servers for each test, in a home of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gputop.sources.ssh import host
from tests.ssh.world import World, running, stand_in


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(host, "package_probe", stand_in)
    async with running(tmp_path) as world:
        yield world
