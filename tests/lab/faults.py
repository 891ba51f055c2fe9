"""Faults by name, for the command line and tests; the line after a fault names what ends it, and heal ends many."""

from collections.abc import Callable

from tests.lab.lab import Lab

Fault = Callable[[Lab, str, int], None]


def _log(text: str) -> Fault:
    return lambda lab, node, gpu: lab.nodes[node].log(text.format(pci=_pci(gpu)))


def _put(key: str, value: str | None) -> Fault:
    return lambda lab, node, gpu: lab.nodes[node].put({key.format(gpu=gpu): value})


def _pci(gpu: int) -> str:
    return f"0000:{('0a', '18', '3b', '44', '87', '90', 'b8', 'c1')[gpu % 8]}:00"


def _link(state: str, physical: str) -> Fault:
    def fault(lab: Lab, node: str, port: int) -> None:
        lab.nodes[node].port_file(port, "state", state)
        lab.nodes[node].port_file(port, "phys_state", physical)

    return fault


def _unsupported(lab: Lab, node: str, gpu: int) -> None:
    lab.nodes[node].put({f"gpu.{gpu}.unsupported.{key}": "1" for key in ("power", "util", "temp_mem", "ecc_unc")})


def _denied(lab: Lab, node: str, gpu: int) -> None:
    lab.nodes[node].put({f"gpu.{gpu}.deny.{key}": "1" for key in ("power", "util", "temp_mem", "ecc_unc")})


def _listen(lab: Lab, node: str, _gpu: int) -> None:
    lab.nodes[node].start_sshd()
    lab.nodes[node].wait_sshd()


FAULTS: dict[str, Fault] = {
    "gpu-lost": _put("gpu.{gpu}.lost", "1"),
    "gpu-back": _put("gpu.{gpu}.lost", None),
    "gpu-gone": lambda lab, node, gpu: lab.nodes[node].put({"gone": str(gpu), "count": "7"}),
    "gpu-returned": lambda lab, node, _gpu: lab.nodes[node].put({"gone": None, "count": None}),
    "gpu-hang": _put("gpu.{gpu}.hang", "1"),
    "gpu-answers": _put("gpu.{gpu}.hang", None),
    "nvml-hang": _put("hang", "1"),
    "nvml-hang-hard": lambda lab, node, _gpu: lab.nodes[node].put({"hang": "1", "hang_hard": "1"}),
    "nvml-answers": lambda lab, node, _gpu: lab.nodes[node].put({"hang": None, "hang_hard": None}),
    "not-supported": _unsupported,
    "no-permission": _denied,
    "driver-mismatch": _put("error", "18"),
    "driver-ok": _put("error", None),
    "xid-79": _log("NVRM: Xid (PCI:{pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    "xid-48": _log("NVRM: Xid (PCI:{pci}): 48, pid=4242, name=python3, DBE (double bit error) ECC Error"),
    "xid-13": _log("NVRM: Xid (PCI:{pci}): 13, pid=4242, name=python3, Graphics SM Warp Exception on (GPC 1, TPC 3)"),
    "throttle": lambda lab, node, gpu: lab.nodes[node].put(
        {f"gpu.{gpu}.clock_reasons": "72", f"gpu.{gpu}.sm_clock": "960", f"gpu.{gpu}.hw_thermal_us": "5000000"}
    ),
    "throttle-over": lambda lab, node, gpu: lab.nodes[node].put(
        {f"gpu.{gpu}.clock_reasons": None, f"gpu.{gpu}.sm_clock": None}
    ),
    "power-brake": lambda lab, node, gpu: lab.nodes[node].put(
        {f"gpu.{gpu}.clock_reasons": "136", f"gpu.{gpu}.sm_clock": "990", f"gpu.{gpu}.power_brake_us": "5000000"}
    ),
    "ecc": _put("gpu.{gpu}.ecc_unc", "3"),
    "ecc-over": _put("gpu.{gpu}.ecc_unc", None),
    "remap-pending": _put("gpu.{gpu}.remap_pending", "1"),
    "recovery-action": _put("gpu.{gpu}.recovery_action", "2"),
    "pcie-down": _put("gpu.{gpu}.pcie_width", "8"),
    "nvlink-down": _put("gpu.{gpu}.nvlinks_up", "17"),
    "ib-down": _link("1: DOWN", "3: Disabled"),
    "ib-up": _link("4: ACTIVE", "5: LinkUp"),
    "ib-errors": lambda lab, node, port: lab.nodes[node].port_file(port, "counters/symbol_error", "4711"),
    "own-journal": lambda lab, node, _gpu: lab.nodes[node].own_journal(has=True),
    "no-journal": lambda lab, node, _gpu: lab.nodes[node].own_journal(has=False),
    "heal": lambda lab, node, _gpu: lab.nodes[node].heal(),
    "listener-killed": lambda lab, node, _gpu: lab.nodes[node].kill_listener(),
    "listener-started": _listen,
    "sessions-killed": lambda lab, node, _gpu: lab.nodes[node].kill_sessions(),
    "frozen": lambda lab, node, _gpu: lab.nodes[node].freeze(),
    "thawed": lambda lab, node, _gpu: lab.nodes[node].thaw(),
    "logins-denied": lambda lab, node, _gpu: lab.nodes[node].deny_logins(deny=True),
    "logins-allowed": lambda lab, node, _gpu: lab.nodes[node].deny_logins(deny=False),
    "new-host-key": lambda lab, node, _gpu: lab.nodes[node].new_host_key(),
    "slurmd-stopped": lambda lab, node, _gpu: lab.slurm.stop_slurmd(node),
    "slurmd-started": lambda lab, node, _gpu: lab.slurm.start_slurmd(node),
    "reboot": lambda lab, node, _gpu: lab.reboot(node),
    "slurmctld-stopped": lambda lab, _node, _gpu: lab.slurm.stop_controller(),
    "slurmctld-started": lambda lab, _node, _gpu: lab.slurm.start_controller(),
    "slurmctld-restarted": lambda lab, _node, _gpu: lab.slurm.restart_controller(),
    "slurmctld-frozen": lambda lab, _node, _gpu: lab.slurm.freeze_controller(),
    "slurmctld-thawed": lambda lab, _node, _gpu: lab.slurm.thaw_controller(),
}
