"""Time is an argument: whoever needs it asks the one injected clock."""

from typing import Protocol


class Clock(Protocol):
    """The engine's time. Real, or virtual in tests and simulated weeks."""

    def now(self) -> float:
        """Seconds since the epoch; never goes back, and no step of the machine's clock moves it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after that much of this clock's time."""
        ...
