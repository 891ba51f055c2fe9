"""What one probe says about one node: the typed form of its JSON messages (`gputop/probe/` writes them)."""

from msgspec import Struct

Cell = float | str | None
"""A number; or a reason: "~" and a Why name in lower case, such as "~not_supported"; None is not read."""


class GpuRow(Struct, frozen=True, kw_only=True):
    """One GPU's identity and readings."""

    index: int
    uuid: str = ""
    pci: str = ""
    name: str = ""
    serial: str = ""
    vbios: str = ""
    cells: tuple[Cell, ...] = ()
    """In the order of Hello.gpu_columns."""


class PortRow(Struct, frozen=True, kw_only=True):
    """One InfiniBand port."""

    device: str
    port: int
    link_layer: str = ""
    netdev: str = ""
    cells: tuple[Cell, ...] = ()
    """In the order of Hello.port_columns."""


class ProcessRow(Struct, frozen=True, kw_only=True):
    gpu: str
    pid: int
    name: str = ""
    user: str = ""
    memory_mib: Cell = None


class Hello(Struct, frozen=True, kw_only=True, tag="hello"):
    """First message of a session: slow facts, and the order of the columns that follow."""

    version: int
    hostname: str
    user: str
    python: str = ""
    kernel: str = ""
    boot_id: str | None = None
    boot_time: float | None = None
    """Epoch seconds by the node's clock."""
    gpu_columns: tuple[str, ...]
    port_columns: tuple[str, ...]
    host_columns: tuple[str, ...]
    mode: str = "probe"


class Driver(Struct, frozen=True, kw_only=True, tag="driver"):
    """What the NVML child found, at its start and when that changes."""

    driver: Cell = None
    """Release, or "~why"; detail says more (no library, driver/library version mismatch)."""
    cuda: Cell = None
    nvml: Cell = None
    detail: str = ""


class Sample(Struct, frozen=True, kw_only=True, tag="sample"):
    """One period of one node."""

    seq: int
    mono: float
    """The node's monotonic clock when the sample was finished: ages come from it, not from wall clocks."""
    wall: float
    """The node's wall clock at that moment."""
    host: tuple[Cell, ...] = ()
    ports: tuple[PortRow, ...] | None = None
    """None when not read this period (sysfs unreadable is an empty tuple with a note)."""
    gpus: tuple[GpuRow, ...] | None = None
    """None when NVML did not answer within the period: what was known before ages."""
    gpus_mono: float | None = None
    """Monotonic time at which the NVML pass in `gpus` was finished."""
    hung_since: float | None = None
    """Monotonic time since which the NVML child has been stuck; None while it answers."""
    processes: tuple[ProcessRow, ...] | str | None = None
    """A list, "~why", or None when not read this period."""


class KernelLines(Struct, frozen=True, kw_only=True, tag="kernel"):
    """New lines of the kernel log."""

    source: str = ""
    """journalctl, dmesg, or "" with a reason in `why`."""
    why: str = ""
    """"~denied" and so on when it cannot be read."""
    detail: str = ""
    reset: bool = False
    """True when this replaces what was read before (first read of a session)."""
    lines: tuple[tuple[float | None, str], ...] = ()
    """(epoch seconds or None, text)."""
    dropped: int = 0


Message = Hello | Driver | Sample | KernelLines
