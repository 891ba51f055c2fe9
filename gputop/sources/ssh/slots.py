"""How many handshakes may go on at once; one that takes long no longer counts, so that dead hosts delay nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SLOT_SECONDS = 1.0
"""A handshake that still waits after so long costs no CPU: its slot goes to the next host."""


class Slots:
    """Bounds what is costly, not what waits."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A slot, for SLOT_SECONDS at most."""
        await self._free.acquire()
        slot = _Slot(self._free)
        timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, slot.give_back)
        try:
            yield
        finally:
            timer.cancel()
            slot.give_back()


class _Slot:
    """Given back once."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free: asyncio.Semaphore | None = free

    def give_back(self) -> None:
        if self._free is not None:
            self._free.release()
            self._free = None
