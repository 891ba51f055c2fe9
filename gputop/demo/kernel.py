"""Lines that the NVIDIA driver and the kernel write when something breaks, in their form."""

PCI = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
"""Buses of the eight GPUs of an HGX H100 board."""

_XIDS = {
    13: "Graphics SM Warp Exception on (GPC 2, TPC 5, SM 1): Out Of Range Address",
    31: "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_4 faulted @ 0x7f3a_5e000000",
    43: "Ch 00000028",
    45: "Ch 00000010",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 3",
    63: "Row Remapper: New row (0x00000000014a2b3c) marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Failed to remap row 0x00000000014a2b3c",
    74: "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    109: "Ch 00000018, errorString CTX SWITCH TIMEOUT, Info 0x2c014",
    119: "Timeout after 6s of waiting for RPC response from GPU! Expected function 76 (GSP_RM_CONTROL) (0x2080 0x0).",
    120: "GSP task exception: load access fault (0x5) @ pc:0x11c9d8, partition:4#0, task:3",
    140: "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0, MMU:0, PCIE:0",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}
_ACTIONS = {1: "GPU Reset Required", 2: "Node Reboot Required", 3: "Drain P2P", 4: "Drain and Reset"}


def bus(gpu: int) -> str:
    """The PCI address of a GPU, as the driver writes it."""
    return f"0000:{PCI[gpu % len(PCI)]}:00"


def xid(gpu: int, code: int, process: str = "") -> str:
    """The driver's line for an XID."""
    who = f"pid=48213, name={process}" if process else "pid='<unknown>', name=<unknown>"
    return f"NVRM: Xid (PCI:{bus(gpu)}): {code}, {who}, {_XIDS.get(code, 'unknown error')}"


def recovery_action(gpu: int, action: int) -> str:
    """XID 154 with what the GPU asks for."""
    words = _ACTIONS.get(action, "Unknown")
    return f"NVRM: Xid (PCI:{bus(gpu)}): 154, GPU recovery action changed from 0x0 (None) to 0x{action:x} ({words})"


def port_down(port: int) -> str:
    return f"mlx5_core 0000:{PCI[port % len(PCI)]}:00.1 ib{port}: Link is Down"


def out_of_memory(process: str) -> str:
    return f"Out of memory: Killed process 48213 ({process}) total-vm:2109433848kB, anon-rss:2062110436kB"


def blocked(process: str) -> str:
    return f"INFO: task {process}:48213 blocked for more than 122 seconds."


def mount_silent(server: str) -> str:
    return f"nfs: server {server} not responding, still trying"
