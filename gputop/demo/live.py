"""A simulated cluster that runs: its simulator process, and a folder with all that a client and an engine need."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from gputop.config import Chosen, choose_cluster, load_config
from gputop.model.errors import SourceError

NAME = "simulated"
START_SECONDS = 120.0
"""Until every port of the largest cluster is open, on a slow machine."""
END_SECONDS = 5.0
QUICK_NODES = 256
"""Up to this size all is read more often than on a real cluster, so that a demo is lively."""

_CONFIG = """# A simulated cluster; this folder goes when the demo ends.
[clusters.{name}]
login = "login"
ssh_config = ["{folder}/ssh_config"]
state_dir = "{folder}/state"
connections = 64
{periods}"""
_QUICK = "period = 2\nslurm_period = 4\nsite_period = 60\n"


class Demo:
    """Everything of one demo; `close` leaves nothing behind."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", began: float) -> None:
        self.folder = folder
        self.began = began
        """When the scenario began, in epoch seconds."""
        self.config = folder / "config.toml"
        self._process = process

    @classmethod
    def start(cls, scenario: str, *, nodes: int, seed: int) -> Self:
        """Returns when every host listens; raises SourceError with what the simulator said."""
        folder = Path(tempfile.mkdtemp(prefix="gputop-demo-"))
        argv = [
            *(sys.executable, "-m", "gputop.demo.server", "--folder", str(folder)),
            *("--scenario", scenario, "--nodes", str(nodes), "--seed", str(seed)),
        ]
        log = folder / "simulator.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        try:
            began = _until_ready(process, log)
        except BaseException:
            _end(process)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        demo = cls(folder, process, began)
        periods = _QUICK if nodes <= QUICK_NODES else ""
        demo.config.write_text(_CONFIG.format(name=NAME, folder=folder, periods=periods))
        return demo

    @property
    def pid(self) -> int:
        """The simulator's process."""
        return self._process.pid

    @property
    def chosen(self) -> Chosen:
        """The cluster as its configuration names it."""
        return choose_cluster(load_config(self.config), NAME)

    def close(self) -> None:
        """Ends the engine, when it has not gone by itself, then the simulator; the folder goes with them."""
        end_engine(self.folder)
        _end(self._process)
        shutil.rmtree(self.folder, ignore_errors=True)


def end_engine(folder: Path) -> None:
    """It ends by itself after a reader's goodbye; else it is told to, and waited for."""
    for word in (0, signal.SIGTERM, signal.SIGKILL):
        gives_up = time.monotonic() + END_SECONDS / 2
        while (pid := engine_pid(folder)) and time.monotonic() < gives_up:
            if word:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, word)
            time.sleep(0.05)


def engine_pid(folder: Path) -> int:
    """The engine of the demo in that folder while it runs, else 0."""
    for lock in folder.glob("state/*/lock"):
        word = lock.read_text(errors="replace").strip()
        if word.isdigit() and Path(f"/proc/{word}").exists():
            command = Path(f"/proc/{word}/cmdline").read_bytes().split(b"\0")
            if str(folder / "config.toml").encode() in command:
                return int(word)
    return 0


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The end of its standard input ends it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    process.kill()
    process.wait()


def _until_ready(process: "subprocess.Popen[bytes]", log: Path) -> float:
    """When the scenario began; raises SourceError with what the log says."""
    said = b""
    stdout = process.stdout
    while stdout is not None and not said.endswith(b"\n"):
        ready, _, _ = select.select([stdout], [], [], START_SECONDS)
        part = os.read(stdout.fileno(), 200) if ready else b""
        if not part:
            words = log.read_text(errors="replace").strip() if ready else f"not ready in {START_SECONDS:.0f} s"
            raise SourceError(
                "simulator", words.split("\n")[-1].removeprefix("gputop demo: ") or "ended without a word"
            )
        said += part
    return float(said.split()[1])
