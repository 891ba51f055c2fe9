"""One probe's channel: bytes in, messages out, and how it ended."""

import asyncio
import secrets
from collections.abc import Callable

import asyncssh
import msgspec

from gputop.model.errors import SourceError
from gputop.model.sample import Message
from gputop.sources.ssh.framing import FrameReader

_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def new_nonce() -> str:
    """A mark that a login shell's noise cannot contain by chance, or by a user's malice."""
    return secrets.token_hex(8)


class ProbeSession(asyncssh.SSHClientSession[bytes]):
    """Calls back for every message; `ended` is set when the channel is closed."""

    def __init__(self, nonce: str, heard: Callable[[Message], None]) -> None:
        self._frames = FrameReader(nonce)
        self._heard = heard
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self.ended = asyncio.Event()
        self.stderr = ""
        self.status: int | None = None
        self.signal = ""
        self.trouble = ""

    def how_it_ended(self) -> str:
        """For a session that had been up."""
        if self.trouble:
            return f"connection lost: {self.trouble}"
        if self.signal:
            return f"the probe was ended by signal {self.signal}"
        if self.status is not None:
            said = self.stderr.strip().split("\n")[-1]
            return f"the probe ended with status {self.status}{': ' if said else ''}{said}"
        return "connection lost: closed"

    @property
    def noise(self) -> bytes:
        return bytes(self._frames.noise)

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            if len(self.stderr) < 4000:
                self.stderr += data.decode("utf-8", "replace")
            return
        try:
            for payload in self._frames.feed(data):
                self._heard(_DECODER.decode(payload))
        except (SourceError, msgspec.MsgspecError) as error:
            self.trouble = str(error)
            if self._channel is not None:
                self._channel.abort()

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.signal = signal

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self.trouble:
            self.trouble = str(exc) or type(exc).__name__
        self.ended.set()
