"""The plan of every kind of action."""

from typing import assert_never

from gputop.model.actions import Intent, Kind
from gputop.model.calls import Abilities
from gputop.recover.actions.cancel import Cancel
from gputop.recover.actions.drain import Drain
from gputop.recover.actions.hold import Hold
from gputop.recover.actions.release import Release
from gputop.recover.actions.requeue import Requeue
from gputop.recover.actions.requeue_excluding import RequeueExcluding
from gputop.recover.actions.resume import Resume
from gputop.recover.plan import Plan


def plan_for(intent: Intent, abilities: Abilities | None) -> Plan:
    """How an intent is carried out."""
    match intent.kind:
        case Kind.DRAIN:
            return Drain(intent)
        case Kind.RESUME:
            return Resume(intent)
        case Kind.REQUEUE:
            return Requeue(intent, abilities)
        case Kind.REQUEUE_EXCLUDING:
            return RequeueExcluding(intent, abilities)
        case Kind.HOLD:
            return Hold(intent, abilities)
        case Kind.RELEASE:
            return Release(intent, abilities)
        case Kind.CANCEL:
            return Cancel(intent)
        case _:
            assert_never(intent.kind)
