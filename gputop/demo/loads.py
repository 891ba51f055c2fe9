"""What the jobs ask of their GPUs: they load, train in step with their slowest, save checkpoints, or hang."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputop.demo.hardware import Demand, Floats, Ints

LOADING_SECONDS = 45.0
SAVING_SECONDS = 20.0


@dataclass(kw_only=True)
class Load:
    """One running job on its GPUs."""

    rows: Ints
    """Its GPUs, as rows of Hardware."""
    started: float
    appetite: float
    """How hard it computes, 0 to 1: training is near 1, an evaluation below."""
    checkpoint_every: float
    hung: bool = False
    lazy: float = 1.0
    """A user's slow program: all of it computes only this share of the time."""
    checkpoint: float = 0.0
    """When the newest one was finished; 0 is never."""
    pace: float = 1.0
    """Speed of its slowest GPU, at which all go."""

    def phase(self, now: float) -> str:
        """loading, training, saving, or hung."""
        if self.hung:
            return "hung"
        age = now - self.started
        if age < LOADING_SECONDS:
            return "loading"
        return "saving" if (age - LOADING_SECONDS) % self.checkpoint_every > self._trains else "training"

    @property
    def _trains(self) -> float:
        return self.checkpoint_every - SAVING_SECONDS

    def note_checkpoint(self, now: float) -> None:
        """Remembers the newest complete checkpoint."""
        rounds = int((now - self.started - LOADING_SECONDS) // self.checkpoint_every)
        if rounds > 0 and not self.hung:
            self.checkpoint = self.started + LOADING_SECONDS + rounds * self.checkpoint_every


def demand(loads: list[Load], speed: Floats, now: float) -> Demand:
    """All loads together, on GPUs of that speed."""
    busy = np.zeros(len(speed))
    spinning: npt.NDArray[np.bool_] = np.zeros(len(speed), bool)
    memory = np.zeros(len(speed))
    for load in loads:
        rows = load.rows
        match load.phase(now):
            case "loading":
                memory[rows] = 0.85 * min(1.0, (now - load.started) / LOADING_SECONDS)
                busy[rows] = 0.02
            case "saving":
                memory[rows], busy[rows] = 0.87, 0.03
            case "hung":
                memory[rows], spinning[rows] = 0.87, True
            case _:
                own = speed[rows]
                load.pace = float(own.min())
                # The slowest computes all the time; the others are done sooner and spin until it is there.
                busy[rows] = load.appetite * load.lazy * load.pace / own
                memory[rows], spinning[rows] = 0.87, load.lazy == 1.0
    return Demand(busy=busy, spinning=spinning, memory=memory)
