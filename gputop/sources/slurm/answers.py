"""What a command's exit status and words mean: accepted, refused, or unknown."""

from gputop.model.calls import Answer, AnswerKind
from gputop.model.text import clean
from gputop.sources.commands import Completed

_NOBODY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "connect failure",
    "Connection refused",
    "Unexpected message received",
    "Communication connection failure",
    "Transport endpoint",
)
"""Slurm's words when the controller did not answer: the call may still take effect."""


def answer(done: Completed) -> Answer:
    """A status of 0 is accepted, never more."""
    words = said(done)
    if any(phrase in words for phrase in _NOBODY):
        return Answer(AnswerKind.UNKNOWN, words)
    if done.status == 0:
        return Answer(AnswerKind.ACCEPTED, words)
    if done.status < 0:
        return Answer(AnswerKind.UNKNOWN, f"ended by signal {-done.status}")
    return Answer(AnswerKind.REFUSED, words or f"exit status {done.status}")


def said(done: Completed) -> str:
    """Standard error, else standard output, as one line."""
    return clean((done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace"), 400)


def nobody_home(words: str) -> bool:
    """Whether these words mean that the controller did not answer."""
    return any(phrase in words for phrase in _NOBODY)
