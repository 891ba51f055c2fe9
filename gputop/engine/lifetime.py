"""When an engine that a screen started may end; pure."""

from msgspec import Struct

ABANDONED_SECONDS = 900.0
"""How long it goes on after its last reader vanished without a word."""
UNATTENDED_SECONDS = 60.0
"""How long it waits for its first reader."""


class Lifetime(Struct, frozen=True, kw_only=True):
    """Who reads, and how the last one went."""

    started: float
    readers: int = 0
    last_left: float | None = None
    """When the number of readers fell to zero."""
    last_clean: bool = False
    """Whether the last one said goodbye."""

    def joined(self) -> "Lifetime":
        return Lifetime(started=self.started, readers=self.readers + 1)

    def left(self, now: float, *, clean: bool) -> "Lifetime":
        """A reader is gone; clean when it said goodbye."""
        readers = max(0, self.readers - 1)
        if readers:
            return Lifetime(started=self.started, readers=readers)
        return Lifetime(started=self.started, readers=0, last_left=now, last_clean=clean)

    def over(self, now: float, open_actions: int) -> bool:
        """Whether the engine should end: nobody reads, nothing is open, and the stated time has gone by."""
        if self.readers or open_actions:
            return False
        if self.last_left is None:
            return now - self.started > UNATTENDED_SECONDS
        return self.last_clean or now - self.last_left > ABANDONED_SECONDS
