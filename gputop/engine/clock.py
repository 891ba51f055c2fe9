"""The machine's clock: real seconds since the epoch that no step of the system clock moves."""

import asyncio
import time


class SystemClock:
    """Wall time when it was made, carried on by the monotonic clock."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()  # noqa: TID251 - this is the injected clock

    def now(self) -> float:
        return self._epoch + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
