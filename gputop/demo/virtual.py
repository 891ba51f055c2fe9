"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing is left to do."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Waits for nobody: instead of sleeping, time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("virtual time stands still: every task waits for something that no timer brings")
            self.time += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For work without real I/O; asyncio.sleep and timeouts take no real time."""

    def __init__(self) -> None:
        self._waiting = _Selector()
        super().__init__(self._waiting)

    def time(self) -> float:
        return self._waiting.time


class VirtualClock:
    """model.clock.Clock on such a loop."""

    def __init__(self, epoch: float) -> None:
        """epoch: what it shows when the loop begins, in seconds since 1970."""
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(work: Coroutine[Any, Any, T]) -> T:
    """asyncio.run in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
