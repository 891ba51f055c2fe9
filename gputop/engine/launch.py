"""Attaching to a cluster's engine, and starting one where none runs. Imports nothing heavy: the screen waits for it."""

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from gputop.config import Chosen
from gputop.engine.lock import private_folder
from gputop.model.commands import Command
from gputop.model.errors import EngineError
from gputop.stream.feed import LiveFeed
from gputop.stream.frames import Frame
from gputop.stream.socket import Connection, VersionDiffers, attach

TRIES = 10
START_SECONDS = 20.0
"""How long a new engine may take until it says that it is ready."""


async def attach_or_start(chosen: Chosen, config_path: Path | None, *, read_only: bool) -> Connection:
    """The running engine of this cluster, or a new one.

    An engine that is just ending, and a screen that starts one at the same moment, both pass: it is tried anew.
    """
    for attempt in range(TRIES):
        try:
            return await attach(chosen.socket_path)
        except VersionDiffers:
            raise
        except EngineError:
            pass
        try:
            await asyncio.to_thread(start_engine, chosen, config_path, read_only=read_only)
        except EngineError as error:
            if attempt == TRIES - 1 or "already runs" not in str(error):
                raise
            await asyncio.sleep(0.3)
    return await attach(chosen.socket_path)


def start_engine(chosen: Chosen, config_path: Path | None, *, read_only: bool) -> None:
    """Starts an engine in a session of its own and waits for its word; raises EngineError with what it said."""
    folder = private_folder(chosen.state_dir)
    argv = [sys.executable, "-m", "gputop.engine", "--cluster", chosen.name]
    if config_path is not None:
        argv += ["--config", str(config_path.resolve())]
    if read_only:
        argv.append("--read-only")
    reader, writer = os.pipe()
    log = os.open(folder / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        subprocess.Popen(  # noqa: S603 - our own interpreter and module; it must outlive this process
            [*argv, "--ready-fd", str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(writer,),
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(writer)
        os.close(log)
    said = _read_word(reader)
    if said != "ready":
        raise EngineError(said or f"the engine ended without a word; see {folder / 'engine.log'}")


def _read_word(fd: int) -> str:
    said = b""
    try:
        while len(said) < 4096:
            ready, _, _ = select.select([fd], [], [], START_SECONDS)
            if not ready:
                return f"the engine did not get ready within {START_SECONDS:.0f} s"
            part = os.read(fd, 4096)
            if not part:
                break
            said += part
    finally:
        os.close(fd)
    return said.decode("utf-8", "replace").strip()


class EngineFeed:
    """A live feed that finds or starts its engine when it is first read: the screen paints before that."""

    def __init__(self, chosen: Chosen, config_path: Path | None, *, read_only: bool, record: Path | None) -> None:
        self._chosen = chosen
        self._config_path = config_path
        self._read_only = read_only
        self._record = record
        self._feed: LiveFeed | None = None

    @property
    def live(self) -> bool:
        return True

    async def frames(self) -> AsyncIterator[Frame]:
        connection = await attach_or_start(self._chosen, self._config_path, read_only=self._read_only)
        self._feed = LiveFeed(connection, self._record)
        async for frame in self._feed.frames():
            yield frame

    async def send(self, command: Command) -> None:
        if self._feed is None:
            raise EngineError("the engine is not there yet")
        await self._feed.send(command)

    async def close(self) -> None:
        if self._feed is not None:
            await self._feed.close()
