"""A driver that fails as told, and a probe started as a login shell would."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml

from gputop.model.sample import Message
from gputop.probe import bootstrap
from gputop.sources.ssh.framing import FrameReader


def pythons() -> list[str]:
    """Every Python from 3.6 on that is here and runs, which a name on the path does not promise."""
    named = [path for n in range(6, 15) if (path := shutil.which(f"python3.{n}"))]
    works = [path for path in named if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]
    return works or [sys.executable]


DECODER = msgspec.json.Decoder(Message)


class FakeNvml:
    """pynvml's face with every call failing in a chosen way, or answering with one GPU."""

    def __init__(self, failing: dict[str, int]) -> None:
        self._failing = failing
        self.failing_fields: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(pynvml, name)
        if not callable(getattr(pynvml, name)):
            return getattr(pynvml, name)
        if name in self._failing:
            return self._raiser(self._failing[name])
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": object(),
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId=b"00000000:0A:00.0"),
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=50, memory=20),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=1 << 30, total=2 << 30),
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetNvLinkState": 1,
        }
        if name == "nvmlDeviceGetFieldValues":
            return lambda _handle, ids: [self._field(number) for number in ids]
        return lambda *_arguments: answers.get(name, 7)

    def _field(self, number: int) -> SimpleNamespace:
        failed = self.failing_fields.get(number, pynvml.NVML_SUCCESS)
        kind = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        value = SimpleNamespace(ullVal=0 if failed else 6000)
        return SimpleNamespace(fieldId=number, nvmlReturn=failed, valueType=kind, value=value)

    @staticmethod
    def _raiser(code: int) -> Any:
        def fail(*_arguments: object) -> None:
            raise pynvml.NVMLError(code)

        return fail


def start(
    cluster: str,
    period: float = 0.2,
    *,
    python: str = sys.executable,
    shell: str = "/bin/sh",
    folder: Path | None = None,
    prefix: tuple[str, ...] = ("false",),
) -> "subprocess.Popen[bytes]":
    """The probe as a login shell on a node would start it, behind a noisy rc file."""
    options = {"nonce": "feed", "period": period, "cluster": cluster, "node": "n1", "kernel_prefix": prefix}
    command, payload = bootstrap.package_probe(options)
    command = command.replace("exec python3", f"echo welcome; exec {python}")
    pipe = subprocess.PIPE
    process = subprocess.Popen([shell, "-c", command], stdin=pipe, stdout=pipe, cwd=folder)
    assert process.stdin is not None
    process.stdin.write(payload)
    process.stdin.flush()
    return process


def read(process: "subprocess.Popen[bytes]", wanted: int, seconds: float = 20.0) -> list[Message]:
    assert process.stdout is not None
    frames, found = FrameReader("feed"), list[Message]()
    deadline = time.monotonic() + seconds
    while len(found) < wanted and time.monotonic() < deadline:
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            break
        found += [DECODER.decode(payload) for payload in frames.feed(data)]
    return found


def end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
