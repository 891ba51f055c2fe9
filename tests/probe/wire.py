"""The login node's runner as the engine speaks to it: one process, framed requests in, framed answers out."""

import json
import os
import select
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from gputop.probe import bootstrap, wire
from gputop.sources.ssh.framing import FrameReader

Request = dict[str, object]


class Session:
    """Runs the runner; `together` goes out in one write with the program itself."""

    def __init__(self, together: Sequence[Request] = (), python: str = sys.executable) -> None:
        command, payload = bootstrap.package_runner({"nonce": "feed"})
        command = command.replace("exec python3", f"echo motd; exec {python}")
        self.process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._frames, self._ready = FrameReader("feed"), list[dict[str, Any]]()
        self._write(payload + b"".join(wire.encode(request, "feed") for request in together))

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, number: int, *argv: str, timeout: float = 20.0) -> None:
        self._write(wire.encode({"id": number, "argv": argv, "timeout": timeout}, "feed"))

    def answer(self, seconds: float = 20.0) -> dict[str, Any]:
        """The next answer, its output decoded."""
        assert self.process.stdout is not None
        ends = time.monotonic() + seconds
        while not self._ready and time.monotonic() < ends:
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                self._ready += map(json.loads, self._frames.feed(os.read(self.process.stdout.fileno(), 1 << 20)))
        found = self._ready.pop(0)
        return {**found, "stdout": b64decode(found["stdout"]), "stderr": b64decode(found["stderr"])}

    def end_of_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end_of_input()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()
