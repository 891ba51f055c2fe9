"""Writing the session log: private, bounded, and never a reason for the engine to stop."""

import os
import re
import time
from pathlib import Path

import msgspec
import zstandard

from gputop.model.errors import LogError
from gputop.stream.frames import SCHEMA
from gputop.stream.log_format import INDEX_MARK, KEY, LENGTH, MAGIC, TRAILER, TRAILER_MAGIC, Block, Header, pack_block

SUFFIX = ".gtlog"
BLOCK_BYTES = 1_000_000
BLOCK_SECONDS = 2.0
KEYFRAME_SECONDS = 300.0
LEVEL = 3
_OURS = re.compile(r"^\d{8}-\d{6}(?:-\d+)?\.gtlog$")


class LogFile:
    """One file, from its header to its index."""

    def __init__(self, path: Path, cluster: str, version: str, started: float) -> None:
        """Raises LogError when the file is there already, or cannot be made."""
        self.path = path
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o600)
        except FileExistsError as error:
            raise LogError(f"{path}: is there already; a recording never overwrites: name another file") from error
        except OSError as error:
            raise LogError(f"{path}: cannot be written: {error.strerror}") from error
        self.size = 0
        self._packer = zstandard.ZstdCompressor(level=LEVEL)
        self._blocks: list[Block] = []
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._pending_key = False
        self._first = self._last = 0.0
        self.keyed_at = float("-inf")
        header = msgspec.msgpack.encode(Header(schema=SCHEMA, cluster=cluster, started=started, version=version))
        self._write(MAGIC + LENGTH.pack(len(header)) + header)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def wants_key(self, at: float) -> bool:
        """Whether the next frame should be a keyframe."""
        return at - self.keyed_at >= KEYFRAME_SECONDS

    def append(self, payload: bytes, at: float, *, key: bool) -> None:
        """Takes one encoded frame; raises OSError when the disk does not take it."""
        if key:
            self.flush()
            self.keyed_at = at
            self._pending_key = True
        if not self._pending:
            self._first = at
        self._pending.append(LENGTH.pack(len(payload)) + payload)
        self._pending_bytes += len(payload) + LENGTH.size
        self._last = at
        if not self._blocks or self._pending_bytes >= BLOCK_BYTES or at - self._first >= BLOCK_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is pending as one block."""
        if not self._pending:
            return
        raw = b"".join(self._pending)
        data = self._packer.compress(raw)
        flags = KEY if self._pending_key else 0
        entry = Block(self.size, self._pending_key, len(self._pending), self._first, self._last, len(raw), len(data))
        self._pending, self._pending_bytes, self._pending_key = [], 0, False
        self._write(pack_block(flags, entry.frames, entry.first, entry.last, entry.raw, data))
        self._blocks.append(entry)

    def close(self) -> None:
        """Writes the index; a log without one is read block by block."""
        if self._fd < 0:
            return
        try:
            self.flush()
            index = msgspec.msgpack.encode(self._blocks)
            self._write(INDEX_MARK + LENGTH.pack(len(index)) + index + TRAILER.pack(self.size, TRAILER_MAGIC))
        finally:
            os.close(self._fd)
            self._fd = -1


class FlightRecorder:
    """The log of a running engine: a folder of files, rotated and bounded; its troubles are words, never exceptions."""

    def __init__(self, folder: Path, *, cluster: str, version: str, file_bytes: int, keep_bytes: int) -> None:
        self._folder = folder
        self._cluster = cluster
        self._version = version
        self._file_bytes = file_bytes
        self._keep_bytes = keep_bytes
        self._file: LogFile | None = None
        self._retry_at = float("-inf")
        self.trouble = ""
        """Why nothing is recorded right now; "" while all is well."""

    @property
    def path(self) -> str:
        return str(self._file.path) if self._file is not None else ""

    def wants_key(self, at: float) -> bool:
        """Whether the next frame should be a keyframe: at the start of a file, and every five minutes."""
        if self._file is not None and self._file.size >= self._file_bytes:
            self._end()
        return self._file is None or self._file.wants_key(at)

    def append(self, payload: bytes, at: float, *, key: bool) -> None:
        """Takes one encoded frame."""
        try:
            if self._file is None:
                if not key or at < self._retry_at:
                    return
                self._file = self._begin(at)
            self._file.append(payload, at, key=key)
            self.trouble = ""
        except (OSError, LogError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            self.trouble = f"not recording: {words}"
            self._retry_at = at + 60.0
            self._end()

    def _begin(self, at: float) -> LogFile:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make_room()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at))
        for number in range(100):
            name = f"{stamp}-{number}{SUFFIX}" if number else f"{stamp}{SUFFIX}"
            if not (self._folder / name).exists():
                return LogFile(self._folder / name, self._cluster, self._version, at)
        raise LogError(f"{self._folder}: a hundred logs of one second")

    def _make_room(self) -> None:
        """Deletes our oldest files beyond the bound, so that a new one has room to grow."""
        files = sorted(one for one in self._folder.iterdir() if _OURS.match(one.name) and one.is_file())
        total = sum(one.stat().st_size for one in files) + self._file_bytes
        for one in files:
            if total <= self._keep_bytes:
                break
            total -= one.stat().st_size
            one.unlink()

    def _end(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self.trouble = f"not recording: {error.strerror}"
            self._file = None

    def close(self) -> None:
        """Ends the file with its index."""
        self._end()
