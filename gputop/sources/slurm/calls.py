"""A call as the command that carries it out; names and ids are checked, free text is one argument of its own."""

import re
from typing import assert_never

from gputop.model.calls import (
    Call,
    CancelJob,
    DrainNode,
    HoldJob,
    MarkJob,
    ReleaseJob,
    RequeueJob,
    ResumeNode,
    UpdateJob,
)
from gputop.model.text import clean

_NODE = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}$")
_JOB = re.compile(r"^\d{1,10}(?:_\d{1,10}|\+\d{1,10})?$")
REASON_LIMIT = 300


def argv(call: Call) -> tuple[str, ...]:
    """The exact command; raises ValueError for a target that is not exactly one node or one job."""
    match call:
        case DrainNode(node=node, reason=reason):
            return ("scontrol", "update", f"nodename={_node(node)}", "state=drain", f"reason={_text(reason)}")
        case ResumeNode(node=node):
            return ("scontrol", "update", f"nodename={_node(node)}", "state=resume")
        case RequeueJob(job=job, hold=hold):
            return ("scontrol", "requeuehold" if hold else "requeue", _job(job))
        case UpdateJob(job=job, excluded=excluded, start_now=start_now):
            changes = [] if excluded is None else [f"ExcNodeList={','.join(_node(one) for one in excluded)}"]
            if start_now:
                changes.append("StartTime=now")
            return ("scontrol", "update", f"jobid={_job(job)}", *changes)
        case HoldJob(job=job):
            return ("scontrol", "hold", _job(job))
        case ReleaseJob(job=job):
            return ("scontrol", "release", _job(job))
        case CancelJob(job=job):
            return ("scancel", _job(job))
        case MarkJob(job=job, text=text):
            return ("scontrol", "update", f"jobid={_job(job)}", f"AdminComment={_text(text)}")
        case _:
            assert_never(call)


def _node(name: str) -> str:
    if not _NODE.match(name):
        raise ValueError(f"not a node name: {name!r}")
    return name


def _job(job: str) -> str:
    if not _JOB.match(job):
        raise ValueError(f"not one job or array task: {job!r}")
    return job


def _text(text: str) -> str:
    return clean(text, REASON_LIMIT)
