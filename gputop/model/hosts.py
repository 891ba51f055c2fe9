"""A node as we see it ourselves over SSH: the link, the slow facts, the kernel's words, the processes."""

from enum import StrEnum

from msgspec import Struct

from gputop.model.reading import Reading, Unknown, Why


class LinkState(StrEnum):
    """The short state of the SSH link to a host."""

    WAITING = "waiting"
    """Not tried yet, or backing off before the next try."""
    CONNECTING = "connecting"
    UP = "up"
    AUTH_FAILED = "auth-failed"
    HOST_KEY = "host-key"
    """The host key is unknown or has changed; never overridden."""
    DENIED = "denied-by-policy"
    """The site lets nobody in without a job there (pam_slurm_adopt): policy, not a failure."""
    TIMEOUT = "timeout"
    """No answer in time, or a session that went silent."""
    REFUSED = "refused"
    """Nobody listens, or the name or route is wrong."""
    NO_PROBE = "no-probe"
    """The login works, but the probe cannot run there."""
    OFF = "off"
    """Powered down by Slurm on purpose; not polled."""


class Link(Struct, frozen=True, kw_only=True):
    """The SSH link to one node."""

    state: LinkState
    since: float
    """Epoch seconds when this state began."""
    detail: str = ""
    """What the last try ran into, in words."""
    tries: int = 0
    """Failed tries in a row."""
    mode: str = ""
    """"probe", or "nvidia-smi" for the fallback without Python."""


class KernelLine(Struct, frozen=True):
    """One line of the kernel log that matters to us."""

    at: Reading[float]
    """Epoch seconds by the node's clock."""
    text: str


class KernelLog(Struct, frozen=True, kw_only=True):
    """The tail of a node's kernel log."""

    source: Reading[str]
    """journalctl or dmesg; Unknown(denied) where this account may not read it: then "no XID" is not known."""
    lines: tuple[KernelLine, ...] = ()
    """Newest last, at most KEEP_LINES."""
    dropped: int = 0
    """Lines left out at the node because too many came at once."""


KEEP_LINES = 64


class DriverHang(Struct, frozen=True):
    """The NVML child is stuck in the driver; no second one is started."""

    since: float
    """Epoch seconds."""


class Host(Struct, frozen=True, kw_only=True):
    """Slow facts of a node, sent once per session and when they change."""

    hostname: str
    boot_id: Reading[str] = Unknown(Why.NOT_READ)
    boot_time: Reading[float] = Unknown(Why.NOT_READ)
    kernel: str = ""
    python: str = ""
    user: str = ""
    """The account the probe runs as."""
    driver: Reading[str] = Unknown(Why.NOT_READ)
    """Driver release; Unknown names why NVML cannot be used (no library, driver/library mismatch: reboot needed)."""
    cuda: Reading[str] = Unknown(Why.NOT_READ)
    nvml: Reading[str] = Unknown(Why.NOT_READ)
    hang: DriverHang | None = None


class GpuProcess(Struct, frozen=True):
    """A compute process on a GPU."""

    gpu: str
    """UUID."""
    pid: int
    name: str
    user: str
    memory_mib: Reading[float]


class ProcessList(Struct, frozen=True, kw_only=True):
    """Compute processes of a node; read rarely, since asking holds the driver's lock."""

    read_at: float
    items: Reading[tuple[GpuProcess, ...]]
