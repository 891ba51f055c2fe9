"""Resume a node: back into service. Freely where the drain is ours, by a typed name where it is not."""

from msgspec import Struct

from gputop.model.actions import Intent, Refusal, Refused
from gputop.model.calls import ResumeNode
from gputop.model.nodes import Node
from gputop.model.snapshot import Snapshot
from gputop.model.text import plural
from gputop.recover.plan import Look, Send, Sight, Stage, Subject, Until


class Resume(Struct, frozen=True):
    intent: Intent

    def refuse(self, snap: Snapshot) -> tuple[Refusal, ...]:
        node = snap.nodes.get(self.intent.target)
        if node is None:
            return (Refusal(Refused.GONE, f"{self.intent.target} is not among Slurm's nodes"),)
        if not (node.state.drain or node.state.down or node.state.has("fail")):
            return (Refusal(Refused.DONE, f"nothing keeps {node.name} out of service: it is {node.state}"),)
        return ()

    def effects(self, snap: Snapshot, now: float) -> tuple[str, ...]:
        node = snap.nodes.get(self.intent.target)
        if node is None:
            return ()
        present = [snap.gpu_table.at(row, "present") == 1 for row in snap.gpu_table.rows_of(node.name)]
        seen = (
            f"The probe sees {sum(present)} of {plural(node.gpus, 'GPU')}." if present else "Nobody has read its GPUs."
        )
        whose = "nobody gave a reason"
        if node.reason is not None:
            whose = f"{node.reason.owner or 'somebody'} gave the reason: {node.reason.text}"
        return (f"{node.name} takes jobs again at once.", f"It is {node.state}; {whose}.", seen)

    def typed(self, snap: Snapshot) -> str:
        node = snap.nodes.get(self.intent.target)
        ours = node is not None and node.reason is not None and node.reason.ours
        return "" if ours else self.intent.target

    def stages(self, before: Subject, action_id: str) -> tuple[Stage, ...]:
        def seen(subject: Subject | None) -> Look:
            if not isinstance(subject, Node):
                return Look(Sight.NOT_YET, "the node is not in Slurm's answer")
            state = subject.state
            if state.drain or state.down or state.has("fail"):
                return Look(Sight.NOT_YET, f"{subject.name} is {state}")
            return Look(Sight.THERE, f"{subject.name} is {state}")

        return (Send(ResumeNode(self.intent.target)), Until(15.0, seen))

    def undo(self) -> Intent | None:
        return None
