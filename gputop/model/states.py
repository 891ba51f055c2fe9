"""Slurm states as base and flags, the only form that every release agrees on."""

from msgspec import Struct


class State(Struct, frozen=True):
    """A node or job state, lower case: a base such as idle or running, and its flags.

    Nodes: StateComplete of sinfo (`mixed+drain`). Jobs have a base and seldom a flag.
    """

    base: str
    flags: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "+".join((self.base, *sorted(self.flags)))

    def has(self, *flags: str) -> bool:
        """Whether any of these flags is set."""
        return not self.flags.isdisjoint(flags)

    @property
    def drain(self) -> bool:
        """Marked to take no new jobs."""
        return "drain" in self.flags

    @property
    def drained(self) -> bool:
        """Out of service and empty: a drain flag, base idle or down, and nothing completing."""
        return self.drain and self.base in ("idle", "down") and not self.has("completing")

    @property
    def draining(self) -> bool:
        """A drain flag, and work that is still running or completing."""
        return self.drain and not self.drained

    @property
    def down(self) -> bool:
        return self.base in ("down", "error")

    @property
    def silent(self) -> bool:
        """slurmctld does not hear the node's slurmd (the `*` of sinfo)."""
        return self.has("not_responding")

    @property
    def powered_down(self) -> bool:
        """Switched off on purpose by power saving: no failure, and not to be polled."""
        return self.has("power_down", "powering_down", "powered_down", "powering_up", "power_up")

    @property
    def explains_reason(self) -> bool:
        """Whether Slurm's reason text is about now; 24.11 and 25.11 keep old ones on healthy nodes."""
        return self.drain or self.down or self.has("fail", "reboot_requested", "reboot_issued")
