"""What the SSH source needs to know."""

from msgspec import Struct


class SshSettings(Struct, frozen=True, kw_only=True):
    """How to reach nodes, and how often they are sampled."""

    cluster: str
    """Names the probe's socket on a node, so that two clusters' probes do not meet."""
    config: tuple[str, ...] = ()
    """OpenSSH client configuration files; empty means the user's and the system's."""
    user: str = ""
    """Login name; "" leaves it to the SSH configuration."""
    concurrency: int = 64
    """Handshakes at the same time; they are what costs CPU on both sides."""
    connect_timeout: float = 15.0
    """Seconds until a host must have answered and let us in."""
    keepalive: float = 15.0
    """Seconds between keepalives on a connection; two unanswered ones end it."""
    period: float = 5.0
    """Seconds between samples."""
    kernel_prefix: tuple[str, ...] = ()
    """Put before journalctl and dmesg on nodes."""
