"""Jobs as table rows; pure."""

from gputop.model.jobs import Job
from gputop.model.reading import Unknown
from gputop.tui.line_table import Column, Row
from gputop.tui.view import View
from gputop.tui.words import reading, span

COLUMNS = (
    Column("JOB", 10),
    Column("USER", 10),
    Column("PARTITION", 9, drop=4),
    Column("STATE", 12),
    Column("GPUS", 5, right=True),
    Column("NODES", 14, drop=1),
    Column("TIME", 10, right=True, drop=2),
    Column("RESTARTS", 8, right=True, drop=3),
    Column("NAME", 12, drop=5, grow=True),
    Column("WHY IT WAITS", 14, grow=True),
)
SORTS = ("state", "job", "user", "gpus")
_ORDER = {"running": 0, "completing": 1, "configuring": 1, "pending": 2}


def job_keys(view: View, *, sort: str, only: str) -> list[str]:
    """Every job that matches, in the order asked for."""
    jobs = [job for job in view.snap.jobs.values() if matches(job, only)]
    jobs.sort(key=lambda job: (len(job.raw_id), job.raw_id, job.id))
    jobs.sort(key=lambda job: _order(job, sort))
    return [job.id for job in jobs]


def _order(job: Job, sort: str) -> tuple[float, str]:
    match sort:
        case "state":
            return float(_ORDER.get(job.state.base, 3)), ""
        case "user":
            return 0.0, job.user
        case "gpus":
            return (-job.gpus if isinstance(job.gpus, int) else 1.0), ""
    return 0.0, ""


def matches(job: Job, only: str) -> bool:
    if not only:
        return True
    texts = (job.id, job.user, job.name, job.partition, str(job.state), job.reason, *job.nodes)
    return any(only.lower() in text.lower() for text in texts)


def job_row(view: View, job: Job) -> Row:
    """One job's line."""
    state = f"{job.state.base} (held)" if job.held else job.state.base
    return Row(
        job.id,
        (
            (job.id, "title" if job.running else "text"),
            (job.user, "text"),
            (job.partition, "dim"),
            (state, state_word(job)),
            (reading(job.gpus) if not job.bundle else f"{reading(job.gpus)}×{job.tasks}", "text"),
            (nodes_words(job), "text" if job.nodes else "dim"),
            (elapsed(view, job), "text"),
            (str(job.restarts), "warn" if job.restarts else "dim"),
            (job.name, "dim"),
            (job.reason or job.dependency, "warn" if job.held else "dim"),
        ),
    )


def state_word(job: Job) -> str:
    """The theme's word for a job's state."""
    if job.running:
        return "busy"
    if job.held:
        return "warn"
    if job.state.base in ("failed", "node_fail", "timeout", "out_of_memory", "boot_fail"):
        return "bad"
    return "text" if job.pending else "dim"


def nodes_words(job: Job) -> str:
    """gpu0001, or gpu0001 +3; where it ran before, in brackets."""
    names = job.nodes or job.last_nodes
    if not names:
        return "-"
    words = names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
    return words if job.nodes else f"({words})"


def elapsed(view: View, job: Job) -> str:
    """How long it runs, or ran."""
    if job.pending or isinstance(job.start_time, Unknown):
        return "-"
    end = job.end_time if job.ended and isinstance(job.end_time, float) else view.now
    return span(end - job.start_time)
