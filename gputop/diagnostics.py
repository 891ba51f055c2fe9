"""Messages to standard error, and what exit codes mean; with cli the one place that knows either."""

import sys
from enum import IntEnum

from gputop.model.actions import Outcome


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    """Done; for an action: confirmed by a fresh read."""
    FAILED = 1
    """Something we did not foresee, or a check of `doctor` that found something missing."""
    USAGE = 2
    """Wrong arguments, or a configuration that must be changed."""
    REFUSED = 3
    """A guard or Slurm refused the action; nothing was done."""
    CONTRADICTED = 4
    """The action was sent, and a fresh read shows something else."""
    UNKNOWN = 5
    """The action may or may not have taken effect; somebody has to look."""
    UNREACHABLE = 6
    """Slurm or the engine could not be reached."""
    INTERRUPTED = 130


OF_OUTCOME = {
    Outcome.CONFIRMED: Exit.OK,
    Outcome.REFUSED: Exit.REFUSED,
    Outcome.CONTRADICTED: Exit.CONTRADICTED,
    Outcome.UNKNOWN: Exit.UNKNOWN,
}


def say(message: str) -> None:
    """One message for a person."""
    print(f"gputop: {message}", file=sys.stderr, flush=True)
