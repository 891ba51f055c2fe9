"""Commands on this machine, in Slurm's own clean environment."""

import asyncio
import contextlib
import os
import signal

from gputop.model.errors import SourceDown, SourceError
from gputop.sources.commands import Completed

DROPPED_PREFIXES = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_")
DROPPED = frozenset({"SLURM_CLUSTERS", "SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML"})
"""Variables of a user's that change what Slurm's commands print."""
END_SECONDS = 2.0
"""How long a killed command may take to be gone."""
FIXED = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}


class LocalCommands:
    """Implements CommandRunner here."""

    def __init__(self, more: dict[str, str]) -> None:
        """more is added to the environment, such as SLURM_CONF."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)
        }
        self._environment = {**kept, **FIXED, **more}

    @property
    def where(self) -> str:
        return "local"

    async def run(self, argv: tuple[str, ...], *, timeout: float) -> Completed:  # noqa: ASYNC109 - enforced here
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise SourceError(argv[0], "not found here; install Slurm's client, or configure a login node") from error
        except OSError as error:
            raise SourceError(argv[0], f"cannot be started: {error.strerror}") from error
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(), timeout)
        except TimeoutError as error:
            await _end(process)
            raise SourceDown(argv[0], f"no answer within {timeout:.0f} s") from error
        except asyncio.CancelledError:
            await _end(process)
            raise
        return Completed(status=process.returncode or 0, stdout=stdout, stderr=stderr)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the command with everything it started, as far as this account may: a sudo's child may live on."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_SECONDS)
