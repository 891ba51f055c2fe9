"""The columns this probe sends, in its order; names and units are those of gputop's model."""

GPU = (
    "present", "temp", "temp_margin", "temp_mem", "power", "power_limit", "sm_clock", "sm_clock_max", "mem_clock",
    "util", "mem_util", "mem_used", "mem_total", "pstate", "persistence", "clock_reasons", "hw_thermal_us",
    "power_brake_us", "sw_thermal_us", "sw_power_us", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max",
    "pcie_replay", "ecc_mode", "ecc_unc", "ecc_cor", "sram_threshold", "remap_cor", "remap_unc", "remap_pending",
    "remap_failed", "retired_pending", "recovery_action", "fabric_state", "fabric_status", "mig", "nvlinks_up",
    "nvlinks", "nvlink_errors",
)  # fmt: skip

HOST = (
    "load", "cpus", "cpu_busy", "mem_total", "mem_available", "swap_used", "blocked", "zombies", "disk_used",
    "tmp_used", "nvml_ms", "nvml_calls", "probe_cpu_ms",
)  # fmt: skip

PORT = (
    "state", "phys_state", "rate", "link_downed", "link_error_recovery", "symbol_error", "rcv_errors",
    "xmit_discards", "buffer_overrun", "integrity_errors", "rcv_data", "xmit_data",
)  # fmt: skip

NOT_SUPPORTED = "~not_supported"
DENIED = "~denied"
LOST = "~lost"
TIMED_OUT = "~timed_out"
ERROR = "~error"
