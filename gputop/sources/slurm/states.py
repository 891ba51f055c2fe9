"""Slurm's state words as base and flags."""

from gputop.model.states import State
from gputop.model.text import clean


def node_state(complete: str) -> State:
    """sinfo's StateComplete, such as mixed+drain; the same form that scontrol writes in upper case."""
    base, *flags = clean(complete.strip().lower(), 200).split("+")
    return State(base or "unknown", frozenset(flag for flag in flags if flag))


def job_state(text: str) -> State:
    """squeue's State; a word that is a condition and not a base says what the job will be next."""
    word, *flags = clean(text.strip().lower(), 200).split(",")
    if word in ("requeue_hold", "special_exit", "requeued", "requeue_fed"):
        return State("pending", frozenset({word, *flags}))
    return State(word or "unknown", frozenset(flag for flag in flags if flag))
