"""Drain a node: it takes no new jobs, and those that run there finish."""

from msgspec import Struct

from gputop.model.actions import Intent, Kind, Refusal, Refused
from gputop.model.calls import DrainNode
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.model.text import plural
from gputop.recover.jobs_on import listed, nodes_left, running_on
from gputop.recover.marks import carries, mark
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until


class Drain(Struct, frozen=True):
    """Never DOWN, which would kill; never over somebody else's reason."""

    intent: Intent

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        node = snap.nodes.get(self.intent.target)
        if node is None:
            return (Refusal(Refused.GONE, f"{self.intent.target} is not among Slurm's nodes"),)
        reason = node.reason
        if node.state.drain and reason is not None and reason.ours:
            return (Refusal(Refused.DONE, f"{node.name} is drained already by gputop: {reason.text}"),)
        if reason is not None:
            who = reason.owner or "somebody"
            return (Refusal(Refused.FOREIGN, f"{node.name} carries a reason of {who} that is kept: {reason.text}"),)
        if node.state.drain:
            return (Refusal(Refused.FOREIGN, f"{node.name} is drained already, by somebody who gave no reason"),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        node = snap.nodes.get(self.intent.target)
        if node is None:
            return ()
        jobs = running_on(snap, node.name)
        running = f"{plural(len(jobs), 'job')} on it may finish: {listed(jobs, now)}" if jobs else "no job runs on it"
        left = [
            f"{name} keeps {nodes_left(snap, frozenset({name}), frozenset({node.name}))}" for name in node.partitions
        ]
        return (
            f"{node.name} takes no new jobs; {plural(node.gpus, 'GPU')} leave service once it is empty.",
            f"{running[:1].upper()}{running[1:]}.",
            f"Nodes in service after it: {', '.join(left) or 'it is in no partition'}.",
            "Undone by resuming it, while the reason is ours.",
        )

    def typed(self, snap: Snapshot) -> str:
        return ""

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        def seen(subject: Subject | None) -> Look:
            if not isinstance(subject, Node):
                return Look(Sight.NOT_YET, "the node is not in Slurm's answer")
            text = subject.reason.text if subject.reason else ""
            if subject.state.drain and carries(text, action_id):
                return Look(Sight.THERE, f"{subject.name} is {subject.state}, reason {text}")
            if subject.state.drain and text:
                return Look(Sight.WRONG, f"{subject.name} is drained with another reason: {text}")
            return Look(Sight.NOT_YET, f"{subject.name} is {subject.state}")

        note = self.intent.note or "drained by hand"
        return (Send(DrainNode(self.intent.target, mark(action_id, note))), Until(15.0, seen))

    def undo(self) -> Intent | None:
        return Intent(kind=Kind.RESUME, target=self.intent.target)
