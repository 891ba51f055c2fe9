"""The engine's Unix socket: frames out to every reader, commands in, and who is at the other end."""

import asyncio
import contextlib
import grp
import os
import pwd
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from gputop.model.commands import Command, Goodbye
from gputop.model.errors import EngineError, LogError
from gputop.model.snapshot import Snapshot
from gputop.stream.frames import Frame, decode, diff, encode, keyframe

HELLO = b"GPUTOPS1"
"""Sent by both sides first; another version says another word."""
LENGTH = struct.Struct("<I")
MAX_FRAME = 512 * 1024 * 1024
MAX_COMMAND = 65_536
SLOW_BYTES = 8_000_000
"""A reader with so much unread gets no more until it has caught up, and then the whole picture."""
_PEERCRED = struct.Struct("3i")
_COMMANDS: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


class VersionDiffers(EngineError):
    """An engine of another gputop; neither attaching nor starting a second one will do."""


class Peer(Struct, frozen=True):
    """Who is at the other end, by the kernel's word."""

    id: str
    pid: int
    uid: int
    user: str


class _Client:
    """One attached reader."""

    def __init__(self, peer: Peer, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.writer = writer
        self.needs_key = True
        self.said_goodbye = False

    @property
    def behind(self) -> int:
        return self.writer.transport.get_write_buffer_size()

    def send(self, payload: bytes) -> None:
        """One that is just closing gets nothing more; its own task sees it off."""
        if not self.writer.transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self.writer.write(LENGTH.pack(len(payload)) + payload)


class Publisher:
    """Serves the stream; publish is called with each new snapshot."""

    def __init__(
        self,
        *,
        on_command: Callable[[Peer, Command], None],
        on_join: Callable[[Peer], None],
        on_leave: Callable[[Peer, bool], None],
    ) -> None:
        """on_leave's second argument: whether the reader said goodbye."""
        self._on_command = on_command
        self._on_join = on_join
        self._on_leave = on_leave
        self._clients: dict[str, _Client] = {}
        self._server: asyncio.AbstractServer | None = None
        self._last: Snapshot | None = None
        self._seq = 0
        self._count = 0

    async def serve(self, path: Path, group: str = "") -> None:
        """Listens at path; replaces the socket of an engine that is dead, never of one that answers."""
        _clear_stale(path)
        self._server = await asyncio.start_unix_server(self._serve_one, path=str(path))
        _restrict(path, group)

    def publish(self, snap: Snapshot) -> tuple[Frame, bytes]:
        """Sends what is new to everyone, and answers with the frame and its bytes, for the log."""
        self._seq += 1
        frame = diff(self._last, snap, self._seq)
        payload = encode(frame)
        self._last = snap
        whole = payload if frame.key else b""
        for client in self._clients.values():
            if client.behind > SLOW_BYTES:
                client.needs_key = True
                continue
            if client.needs_key:
                whole = whole or encode(keyframe(snap, self._seq))
                client.send(whole)
                client.needs_key = False
            else:
                client.send(payload)
        return frame, payload

    def whole(self) -> bytes:
        """The last published snapshot as a keyframe of the same number."""
        return b"" if self._last is None else encode(keyframe(self._last, self._seq))

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = self._identify(writer)
        client = _Client(peer, writer)
        try:
            writer.write(HELLO)
            if await asyncio.wait_for(reader.readexactly(len(HELLO)), 10) != HELLO:
                return
            if whole := self.whole():
                client.send(whole)
                client.needs_key = False
            self._clients[peer.id] = client
            self._on_join(peer)
            await self._listen(reader, client)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError, ValueError):
            pass
        finally:
            if self._clients.pop(peer.id, None) is not None:
                self._on_leave(peer, client.said_goodbye)
            writer.close()

    async def _listen(self, reader: asyncio.StreamReader, client: _Client) -> None:
        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > MAX_COMMAND:
                raise ValueError("a command too long")
            command = _COMMANDS.decode(await reader.readexactly(length))
            if isinstance(command, Goodbye):
                client.said_goodbye = True
                return
            self._on_command(client.peer, command)

    def _identify(self, writer: asyncio.StreamWriter) -> Peer:
        pid, uid, _ = _PEERCRED.unpack(
            writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
        )
        self._count += 1
        return Peer(id=f"r{self._count}", pid=pid, uid=uid, user=user_name(uid))

    def stop_listening(self) -> None:
        """Nobody new gets in; those who are attached stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """Ends everyone's stream."""
        self.stop_listening()
        for client in list(self._clients.values()):
            client.writer.close()


def _clear_stale(path: Path) -> None:
    """Takes away the socket of an engine that is dead."""
    if len(str(path)) > 100:
        raise EngineError(f"{path}: too long for a socket; set state_dir to a shorter path")
    if path.is_socket():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
            raise EngineError(f"{path}: another engine answers there")
        path.unlink()


def _restrict(path: Path, group: str) -> None:
    """For this account alone, or for a group as well."""
    path.chmod(0o600)
    if group:
        try:
            os.chown(path, -1, grp.getgrnam(group).gr_gid)
        except (KeyError, OSError) as error:
            raise EngineError(f"socket_group {group!r}: {error}") from error
        path.chmod(0o660)


def _owner(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_uid
    except OSError as error:
        raise EngineError(f"no engine at {path}") from error


def user_name(uid: int) -> str:
    """The account's name, or its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


async def _payload(reader: asyncio.StreamReader) -> bytes:
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    if length > MAX_FRAME:
        raise EngineError("the engine sent a frame too large to be one")
    return await reader.readexactly(length)


class Connection:
    """A reader's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes) -> None:
        """first is the keyframe that every engine sends at once."""
        self._reader = reader
        self._writer = writer
        self._first = first

    async def frames(self) -> AsyncIterator[Frame]:
        """Frames until the engine ends; then EngineError."""
        async for frame, _ in self.payloads():
            yield frame

    async def payloads(self) -> AsyncIterator[tuple[Frame, bytes]]:
        """Frames with the bytes they came as."""
        try:
            payload = self._first
            while True:
                yield decode(payload), payload
                payload = await _payload(self._reader)
        except (OSError, EOFError) as error:
            raise EngineError("the engine is gone") from error
        except LogError as error:
            raise EngineError(f"the engine sent what this gputop cannot read: {error}") from error

    async def send(self, command: Command) -> None:
        """Hands a command to the engine."""
        payload = msgspec.msgpack.encode(command)
        try:
            self._writer.write(LENGTH.pack(len(payload)) + payload)
            await self._writer.drain()
        except OSError as error:
            raise EngineError("the engine is gone") from error

    async def close(self) -> None:
        """Says goodbye and hangs up."""
        with contextlib.suppress(EngineError, OSError):
            await self.send(Goodbye())
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def attach(path: Path) -> Connection:
    """Connects to the engine at path; EngineError says why not."""
    owner = _owner(path)
    try:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=MAX_FRAME)
    except OSError as error:
        raise EngineError(f"no engine answers at {path}: {error.strerror}") from error
    _, uid, _ = _PEERCRED.unpack(
        writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size)
    )
    if uid not in (os.getuid(), 0, owner):
        writer.close()
        raise EngineError(f"{path}: answered by uid {uid}, which is not ours: not trusted")
    writer.write(HELLO)
    try:
        hello = await asyncio.wait_for(reader.readexactly(len(HELLO)), 10)
        first = await asyncio.wait_for(_payload(reader), 10) if hello == HELLO else b""
    except (OSError, EOFError, TimeoutError) as error:
        writer.close()
        raise EngineError(f"the engine at {path} does not greet: it may be ending") from error
    if hello != HELLO:
        writer.close()
        raise VersionDiffers(f"the engine at {path} speaks another version: end it, and start it again")
    return Connection(reader, writer, first)
