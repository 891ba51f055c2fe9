"""Commands on a login node: one long-lived runner there, argv lists framed both ways, never a shell."""

import asyncio
import base64
import contextlib
import json
import shlex
from typing import Any

import asyncssh
import msgspec
from msgspec import Struct

from gputop.model.clock import Clock
from gputop.model.errors import SourceDown, SourceError
from gputop.probe.bootstrap import package_runner
from gputop.sources.commands import Completed
from gputop.sources.ssh.connect import Connector, Refused
from gputop.sources.ssh.failures import classify, lacks_python
from gputop.sources.ssh.framing import FrameReader
from gputop.sources.ssh.session import new_nonce
from gputop.sources.ssh.settings import SshSettings

START_SECONDS = 30.0
OUR_SEPARATORS = "\x1e\x1f"
_CLEAN_ENVIRONMENT = (
    "env -u SLURM_CLUSTERS -u SLURM_BITSTR_LEN -u SQUEUE_FORMAT -u SQUEUE_FORMAT2 -u SQUEUE_STATES -u SQUEUE_USERS "
    "-u SQUEUE_PARTITION -u SQUEUE_SORT -u SQUEUE_ARRAY -u SINFO_FORMAT -u SINFO_PARTITION -u SINFO_SORT "
    "SLURM_TIME_FORMAT=%s LC_ALL=C.UTF-8 "
)


class _Result(Struct, frozen=True):
    id: int
    status: int
    stdout: str
    stderr: str
    timed_out: bool


class _RunnerSession(asyncssh.SSHClientSession[bytes]):
    """Frames back to whoever waits for them."""

    def __init__(self, nonce: str) -> None:
        self._frames = FrameReader(nonce, 256 * 1024 * 1024)
        self.waiting: dict[int, asyncio.Future[_Result]] = {}
        self.stderr = ""
        self.status: int | None = None
        self.ended = asyncio.Event()

    def expect(self, number: int) -> asyncio.Future[_Result]:
        """The answer to a request; SourceDown when the connection is lost."""
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.waiting[number] = future
        return future

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.stderr = (self.stderr + data.decode("utf-8", "replace"))[-4000:]
            return
        for payload in self._frames.feed(data):
            result = msgspec.json.decode(payload, type=_Result)
            future = self.waiting.pop(result.id, None)
            if future is not None and not future.done():
                future.set_result(result)

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(SourceDown("login node", "the connection was lost"))
        self.waiting.clear()


class LoginNode:
    """Implements CommandRunner on a host reached by SSH."""

    def __init__(self, settings: SshSettings, host: str, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._connector = Connector(settings, clock)
        self._connection: asyncssh.SSHClientConnection | None = None
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._session: _RunnerSession | None = None
        self._nonce = ""
        self._next = 0
        self._starting = asyncio.Lock()

    @property
    def where(self) -> str:
        return self._host

    async def run(self, argv: tuple[str, ...], *, timeout: float) -> Completed:  # noqa: ASYNC109 - enforced there
        async with self._starting:
            await self._ensure()
        if self._session is None:
            return await self._without_python(argv, timeout)
        result = await self._request(argv, timeout)
        if result.timed_out:
            raise SourceDown(argv[0], f"no answer within {timeout:.0f} s on {self._host}")
        stdout, stderr = base64.b64decode(result.stdout), base64.b64decode(result.stderr)
        if result.status == 127 and not stdout:
            raise SourceError(argv[0], f"cannot be started on {self._host}: {stderr.decode('utf-8', 'replace')}")
        return Completed(status=result.status, stdout=stdout, stderr=stderr)

    async def _ensure(self) -> None:
        """A live runner, or a live connection where no Python is."""
        if self._session is not None and not self._session.ended.is_set():
            return
        if self._session is None and self._connection is not None and not self._connection.is_closed():
            return
        self._drop()
        try:
            self._connection = await self._connector.connect(self._host)
        except Refused as refused:
            state, words = classify(
                refused.cause,
                refused.banner,
                has_keys=refused.has_keys,
                other_key=refused.other_key,
                jump=refused.jump,
            )
            raise SourceDown(self._host, f"{state}: {words}") from refused
        try:
            await self._start(self._connection)
        except BaseException:
            self._drop()
            raise

    async def _start(self, connection: asyncssh.SSHClientConnection) -> None:
        """The runner there; without Python there, nothing."""
        self._nonce = new_nonce()
        command, payload = package_runner({"nonce": self._nonce})
        session = _RunnerSession(self._nonce)
        ready = session.expect(0)
        try:
            self._channel, _ = await connection.create_session(lambda: session, command, encoding=None)
            with contextlib.suppress(OSError):  # closed already: how it ended says why
                self._channel.write(payload)
            await asyncio.wait_for(ready, START_SECONDS)
        except asyncssh.Error as error:
            raise SourceDown(self._host, str(error)) from error
        except (SourceDown, TimeoutError) as error:
            if not lacks_python(session.status, session.stderr):
                said = session.stderr.strip()[-200:] or "no answer"
                raise SourceDown(self._host, f"the runner did not start: {said}") from error
        else:
            self._session = session
        finally:
            ready.cancel()

    async def _request(self, argv: tuple[str, ...], limit: float) -> _Result:
        session, channel = self._session, self._channel
        if session is None or channel is None:
            raise SourceDown(self._host, "not connected")
        self._next += 1
        number = self._next
        future = session.expect(number)
        payload = json.dumps({"id": number, "argv": argv, "timeout": limit}).encode()
        try:
            channel.write(b"\x01" + self._nonce.encode() + b" " + str(len(payload)).encode() + b"\n" + payload + b"\n")
            return await asyncio.wait_for(future, limit + 5)
        except BrokenPipeError as error:
            raise SourceDown(argv[0], f"the connection to {self._host} was lost") from error
        except TimeoutError as error:
            self._drop()
            raise SourceDown(argv[0], f"no answer from {self._host} within {limit + 5:.0f} s") from error
        finally:
            session.waiting.pop(number, None)

    async def _without_python(self, argv: tuple[str, ...], limit: float) -> Completed:
        if self._connection is None:
            raise SourceDown(self._host, "not connected")
        try:
            line = shell_line(argv)
        except ValueError as error:
            raise SourceError(argv[0], str(error)) from error
        try:
            done: Any = await self._connection.run(
                line, check=False, timeout=limit, encoding=None, stdin=asyncssh.DEVNULL
            )
        except (TimeoutError, asyncssh.Error, OSError) as error:
            self._drop()
            raise SourceDown(argv[0], f"on {self._host}: {error}") from error
        status = done.returncode
        if status == 127 and not done.stdout:
            raise SourceError(argv[0], f"cannot be started on {self._host}: {done.stderr.decode('utf-8', 'replace')}")
        return Completed(status=-1 if status is None else status, stdout=done.stdout, stderr=done.stderr)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._connection, self._session, self._channel = None, None, None

    async def close(self) -> None:
        """Ends the connection; a command that runs is left to its own time limit."""
        self._drop()
        await self._connector.close()


def shell_line(argv: tuple[str, ...]) -> str:
    """argv for a login shell, where there is no Python to hand it to; raises ValueError for control characters."""
    for token in argv:
        if any(not char.isprintable() and char not in OUR_SEPARATORS and char != " " for char in token):
            raise ValueError(f"a control character in {token[:60]!r}: not sent to a shell")
    return _CLEAN_ENVIRONMENT + shlex.join(argv)
