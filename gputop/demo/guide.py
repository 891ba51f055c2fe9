"""What to press next: the scenario's steps, one after the other, each until the cluster shows that it was done."""

from gputop.demo.scenario import GuideStep, Scenario
from gputop.model.jobs import Job
from gputop.model.snapshot import Snapshot


class Guide:
    """Follows the snapshots of one screen."""

    def __init__(self, scenario: Scenario, began: float) -> None:
        """began: when the scenario began, in epoch seconds."""
        self._scenario = scenario
        self._began = began
        self._at = 0
        self._since: float | None = None

    @property
    def over(self) -> bool:
        """Whether every step is done."""
        return self._at >= len(self._scenario.guide)

    def line(self, snap: Snapshot) -> str:
        """What to say now."""
        while not self.over:
            step = self._scenario.guide[self._at]
            if snap.time - self._began < step.after:
                return "Watch; the next thing happens in a moment."
            if self._since is None:
                self._since = snap.time
            if not done(step, snap, shown_for=snap.time - self._since):
                return step.say
            self._at, self._since = self._at + 1, None
        if self._scenario.guide:
            return "That was all of it. Go on as you like; q quits."
        return f"Scenario {self._scenario.name}: {self._scenario.about}."


def done(step: GuideStep, snap: Snapshot, *, shown_for: float) -> bool:
    """Whether the cluster is as the step wants it."""
    match step.until:
        case "drained":
            node = snap.nodes.get(step.node)
            return node is not None and node.state.drain
        case "in service":
            node = snap.nodes.get(step.node)
            return node is not None and not node.state.drain and not node.state.down
        case "restarted":
            return any(job.restarts > 0 and not job.held for job in named(snap, step.job))
        case "held":
            return any(job.held for job in named(snap, step.job))
        case _:
            return shown_for >= step.reads


def named(snap: Snapshot, name: str) -> list[Job]:
    """The jobs of that name."""
    return [job for job in snap.jobs.values() if job.name == name]
