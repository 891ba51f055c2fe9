"""What a screen reads: a live engine or a recorded session; it cannot tell, but that a replay takes no command."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from gputop.model.clock import Clock
from gputop.model.commands import Command
from gputop.model.errors import EngineError
from gputop.stream.frames import Frame, keyframe
from gputop.stream.log_reader import SessionReader
from gputop.stream.session_log import LogFile
from gputop.stream.socket import Connection


class Feed(Protocol):
    """A stream of frames, and perhaps a way back."""

    @property
    def live(self) -> bool:
        """Whether this is now; a replay is not."""
        ...

    def frames(self) -> AsyncIterator[Frame]:
        """A keyframe first, then what follows; raises EngineError when there is no more to come from a live one."""
        ...

    async def send(self, command: Command) -> None:
        """Hands a command to the engine; a replay raises EngineError."""
        ...

    async def close(self) -> None: ...


class LiveFeed:
    """A running engine, recorded to a file on the way if asked."""

    def __init__(self, connection: Connection, record: Path | None = None) -> None:
        self._connection = connection
        self._record = record
        self._file: LogFile | None = None

    @property
    def live(self) -> bool:
        return True

    async def frames(self) -> AsyncIterator[Frame]:
        async for frame, payload in self._connection.payloads():
            if self._record is not None:
                self._write(frame, payload)
            yield frame

    def _write(self, frame: Frame, payload: bytes) -> None:
        if self._file is None and self._record is not None:
            about = frame.about
            cluster = getattr(about, "cluster", "")
            self._file = LogFile(self._record, cluster, getattr(about, "version", ""), frame.time)
        if self._file is not None:
            self._file.append(payload, frame.time, key=frame.key)

    async def send(self, command: Command) -> None:
        await self._connection.send(command)

    async def close(self) -> None:
        if self._file is not None:
            self._file.close()
        await self._connection.close()


class ReplayFeed:
    """A session log in its own tempo: pause, speed, seek."""

    def __init__(self, reader: SessionReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._speed = 1.0
        self._paused = False
        self._position = reader.start
        self._moved_at = clock.now()
        self._seek: float | None = None
        self._changed = asyncio.Event()

    @property
    def live(self) -> bool:
        return False

    @property
    def start(self) -> float:
        return self._reader.start

    @property
    def end(self) -> float:
        return self._reader.end

    @property
    def speed(self) -> float:
        return self._speed

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def position(self) -> float:
        """Recorded time that is shown now."""
        if self._paused:
            return self._position
        return min(self.end, self._position + (self._clock.now() - self._moved_at) * self._speed)

    def pause(self) -> None:
        self._hold(self.position)
        self._paused = True

    def resume(self) -> None:
        self._hold(self.position)
        self._paused = False

    def set_speed(self, speed: float) -> None:
        """Recorded seconds a second, 0.25 to 64."""
        self._hold(self.position)
        self._speed = min(64.0, max(0.25, speed))

    def seek(self, at: float) -> None:
        """Goes to that recorded time; a keyframe follows."""
        self._seek = min(self.end, max(self.start, at))
        self._hold(self._seek)

    def _hold(self, position: float) -> None:
        self._position, self._moved_at = position, self._clock.now()
        self._changed.set()

    async def frames(self) -> AsyncIterator[Frame]:
        at = self.start
        while True:
            self._seek = None
            snap = self._reader.snapshot_at(at)
            yield keyframe(snap, 0)
            for frame in self._reader.frames(at):
                if frame.time <= snap.time:
                    continue
                if not await self._reached(frame.time):
                    break
                yield frame
            while self._seek is None:
                await self._wait(3600.0)
            at = self._seek

    async def _reached(self, at: float) -> bool:
        """Waits until the position is there; False when somebody seeks meanwhile."""
        while self._seek is None:
            missing = at - self.position
            if missing <= 0:
                return True
            await self._wait(3600.0 if self._paused else missing / self._speed)
        return False

    async def _wait(self, seconds: float) -> None:
        """Until then, or until a control is used."""
        self._changed.clear()
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleeping, changing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changing.cancel()

    async def send(self, command: Command) -> None:
        raise EngineError("a replay cannot act")

    async def close(self) -> None:
        self._reader.close()
