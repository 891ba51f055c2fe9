"""The columns of what changes every period: GPUs, hosts and InfiniBand ports.

Order is on disk and on the wire of a session: columns are found by name, so new ones may be added anywhere.
"""

from msgspec import Struct


class Spec(Struct, frozen=True):
    """One column: its name, unit, and the steps it is kept in."""

    name: str
    unit: str
    doc: str
    scale: float = 1.0
    """Stored value = round(value * scale) / scale; what is shown, judged and recorded is the same number."""


GPU = (
    Spec("present", "bool", "1 while the driver answers for this GPU, 0 when it is lost; always known"),
    Spec("temp", "C", "GPU temperature"),
    Spec("temp_margin", "C", "degrees left before the driver slows the GPU"),
    Spec("temp_mem", "C", "memory temperature"),
    Spec("power", "W", "power drawn"),
    Spec("power_limit", "W", "enforced power limit"),
    Spec("sm_clock", "MHz", "SM clock"),
    Spec("sm_clock_max", "MHz", "highest SM clock"),
    Spec("mem_clock", "MHz", "memory clock"),
    Spec("util", "%", "share of time in which a kernel ran; not a measure of work"),
    Spec("mem_util", "%", "share of time in which memory was read or written"),
    Spec("mem_used", "MiB", "device memory in use"),
    Spec("mem_total", "MiB", "device memory"),
    Spec("pstate", "", "performance state, 0 is the highest"),
    Spec("persistence", "bool", "persistence mode"),
    Spec("clock_reasons", "bits", "0x8 HW slowdown, 0x20 SW thermal, 0x40 HW thermal, 0x80 power brake"),
    Spec("hw_thermal_us", "us", "counter: time slowed by HW thermal"),
    Spec("power_brake_us", "us", "counter: time slowed by HW power brake"),
    Spec("sw_thermal_us", "us", "counter: time slowed by SW thermal"),
    Spec("sw_power_us", "us", "counter: time under the SW power cap; normal at full load"),
    Spec("pcie_gen", "", "PCIe generation now"),
    Spec("pcie_gen_max", "", "highest PCIe generation of GPU and slot"),
    Spec("pcie_width", "lanes", "PCIe width now"),
    Spec("pcie_width_max", "lanes", "highest PCIe width of GPU and slot"),
    Spec("pcie_replay", "count", "counter: PCIe replays"),
    Spec("ecc_mode", "bool", "ECC on"),
    Spec("ecc_unc", "count", "volatile uncorrected ECC errors"),
    Spec("ecc_cor", "count", "volatile corrected ECC errors"),
    Spec("sram_threshold", "bool", "SRAM uncorrected errors passed the vendor's threshold"),
    Spec("remap_cor", "count", "rows remapped after corrected errors"),
    Spec("remap_unc", "count", "rows remapped after uncorrected errors"),
    Spec("remap_pending", "bool", "a row waits for a reset to be remapped"),
    Spec("remap_failed", "bool", "a row could not be remapped"),
    Spec("retired_pending", "bool", "a page waits for a reboot to be retired (Volta and older)"),
    Spec("recovery_action", "code", "prescribed: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset"),
    Spec("fabric_state", "code", "0 not supported, 1 not started, 2 in progress, 3 completed"),
    Spec("fabric_status", "code", "NVML status of the fabric registration; 0 is success"),
    Spec("mig", "bool", "MIG mode on"),
    Spec("nvlinks_up", "count", "active NVLinks"),
    Spec("nvlinks", "count", "NVLinks the GPU has"),
    Spec("nvlink_errors", "count", "counter: NVLink replay, recovery and CRC errors, all links"),
)  # fmt: skip

HOST = (
    Spec("sampled_at", "s", "epoch seconds of the last sample of any kind, by our clock", 10.0),
    Spec("gpus_read_at", "s", "epoch seconds when NVML last answered, by our clock", 10.0),
    Spec("clock_skew", "s", "the node's clock less ours", 10.0),
    Spec("load", "", "1-minute load average", 100.0),
    Spec("cpus", "count", "CPUs online"),
    Spec("cpu_busy", "%", "share of CPU time not idle since the last sample"),
    Spec("mem_total", "MiB", "memory"),
    Spec("mem_available", "MiB", "memory available"),
    Spec("swap_used", "MiB", "swap in use"),
    Spec("blocked", "count", "processes in uninterruptible sleep (D)"),
    Spec("zombies", "count", "zombie processes"),
    Spec("disk_used", "%", "root file system in use"),
    Spec("tmp_used", "%", "file system of the temporary folder in use"),
    Spec("nvml_ms", "ms", "time the last NVML pass took"),
    Spec("nvml_calls", "count", "NVML calls of the last pass"),
    Spec("probe_cpu_ms", "ms", "counter: CPU time of the probe and its child"),
    Spec("expected_gpus", "count", "GPUs this probe has seen since it or its history began"),
)

PORT = (
    Spec("state", "code", "InfiniBand port state: 1 down, 2 init, 3 armed, 4 active"),
    Spec("phys_state", "code", "physical state: 2 polling, 3 disabled, 5 link up"),
    Spec("rate", "Gb/s", "signalling rate", 10.0),
    Spec("link_downed", "count", "counter: times the link went down; an 8-bit 255 is saturated"),
    Spec("link_error_recovery", "count", "counter: link error recoveries"),
    Spec("symbol_error", "count", "counter: symbol errors"),
    Spec("rcv_errors", "count", "counter: receive errors"),
    Spec("xmit_discards", "count", "counter: discarded transmits"),
    Spec("buffer_overrun", "count", "counter: excessive buffer overruns"),
    Spec("integrity_errors", "count", "counter: local link integrity errors"),
    Spec("rcv_data", "4 B", "counter: data received, in units of 4 bytes, kept in steps of 1 GB", 4e-9),
    Spec("xmit_data", "4 B", "counter: data sent, in units of 4 bytes, kept in steps of 1 GB", 4e-9),
)

TABLES: dict[str, tuple[Spec, ...]] = {"gpus": GPU, "hosts": HOST, "ports": PORT}


class GpuId(Struct, frozen=True, kw_only=True):
    """Which GPU a row is. History goes by UUID; the slot is where the card sits now."""

    node: str
    index: int
    """NVML index; -1 for a GPU that Slurm expects and nobody has seen."""
    uuid: str = ""
    pci: str = ""
    """dddd:bb:dd, lower case."""
    name: str = ""
    serial: str = ""
    vbios: str = ""

    @property
    def key(self) -> str:
        return f"{self.node}/{self.pci or f'#{self.index}'}"


class HostId(Struct, frozen=True, kw_only=True):
    """Which host a row is."""

    node: str

    @property
    def key(self) -> str:
        return self.node


class PortId(Struct, frozen=True, kw_only=True):
    """Which InfiniBand or RoCE port a row is."""

    node: str
    device: str
    port: int
    link_layer: str = ""
    netdev: str = ""

    @property
    def key(self) -> str:
        return f"{self.node}/{self.device}/{self.port}"
