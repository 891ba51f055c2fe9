"""What must not have changed between the card and the key: who the subject is, and the state that was judged."""

from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.reading import Unknown
from gputop.recover.plan import Subject

_IN_SERVICE = frozenset({"idle", "mixed", "allocated"})
_PASSING = frozenset({"planned", "completing", "not_responding", "reserved", "maintenance", "blocked"})
"""Flags that come and go by themselves while a card is open; down and drain are not among them."""


def fingerprint(subject: Subject | None) -> str:
    """A text that differs when the subject does; "gone" for none."""
    match subject:
        case None:
            return "gone"
        case Job():
            return (
                f"job {subject.id} submitted {_text(subject.submit_time)} restarts {subject.restarts} {_phase(subject)}"
            )
        case Node():
            base = "up" if subject.state.base in _IN_SERVICE else subject.state.base
            flags = "+".join(sorted(subject.state.flags - _PASSING))
            reason = subject.reason
            why = "" if reason is None else f"{reason.owner} {_text(reason.at)} {reason.text}"
            return f"node {subject.name} {base} {flags} boot {_text(subject.boot_time)} reason {why}"


def _phase(job: Job) -> str:
    if job.pending:
        return "held" if job.held else "waiting"
    return "ended" if job.ended else job.state.base


def _text(value: float | Unknown) -> str:
    return "unknown" if isinstance(value, Unknown) else f"{value:.0f}"
