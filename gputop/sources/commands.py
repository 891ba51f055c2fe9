"""Running a command somewhere: here, or on a login node; always an argv list, never a shell string."""

from typing import Protocol

from msgspec import Struct


class Completed(Struct, frozen=True, kw_only=True):
    """A command that ran to its end."""

    status: int
    """Exit status; negative is the signal that ended it."""
    stdout: bytes
    stderr: bytes


class CommandRunner(Protocol):
    """Somewhere commands can be run."""

    @property
    def where(self) -> str:
        """For people: "local", or the login node's alias."""
        ...

    async def run(self, argv: tuple[str, ...], *, timeout: float) -> Completed:  # noqa: ASYNC109 - enforced where it runs
        """Runs argv with Slurm's own environment cleaned; raises SourceDown on a timeout or a lost connection.

        A raise says nothing about whether the command took effect.
        """
        ...
