"""Nodes as sinfo and scontrol print them."""

from collections.abc import Callable, Iterable

from ClusterShell.NodeSet import NodeSet

from gputop.demo.slurm.controller import Controller
from gputop.demo.slurm.records import NodeRecord

VERSION = "22.05.8"


def state(node: NodeRecord, controller: Controller) -> str:
    """StateComplete: base and flags."""
    running = [key for key in node.jobs if controller.jobs[key].running]
    flags = []
    if node.down:
        base = "down"
    elif running:
        used = sum(controller.jobs[key].spec.cpus for key in running)
        base = "allocated" if used >= node.cpus else "mixed"
    else:
        base = "idle"
    if node.drain:
        flags.append("drain")
    if len(running) < len(node.jobs):
        flags.append("completing")
    if node.not_responding:
        flags.append("not_responding")
    return "+".join([base, *flags])


def sinfo_state(node: NodeRecord, controller: Controller) -> str:
    """As sinfo of 22.05 has it, which calls every node that drains allocated."""
    complete = state(node, controller)
    return complete.replace("mixed", "allocated") if node.drain else complete


def _gres_used(node: NodeRecord, controller: Controller) -> str:
    gpus = [gpu for key, held in node.jobs.items() if controller.jobs[key].running for gpu in held]
    return f"gpu:h100:{len(gpus)}(IDX:{indices(gpus)})"


def indices(gpus: Iterable[int]) -> str:
    """0-2,5, or N/A for none."""
    numbers = sorted(gpus)
    return str(NodeSet.fromlist([f"x{n}" for n in numbers])).strip("x[]") if numbers else "N/A"


def folded(names: Iterable[str]) -> str:
    """A hostlist as Slurm writes it."""
    return str(NodeSet.fromlist(list(names)))


def _explained(node: NodeRecord) -> bool:
    return node.drain or node.down


def _stamp(node: NodeRecord) -> str:
    return str(int(node.reason_at)) if _explained(node) and node.reason_at else "Unknown"


def _owner(node: NodeRecord) -> str:
    numbers = {"root": 0, "slurm": 64030}
    if not _explained(node) or not node.reason_user:
        return "Unknown"
    return f"{node.reason_user}({numbers.get(node.reason_user, 1000)})"


def sinfo_field(name: str) -> Callable[[NodeRecord, str, Controller], str] | None:
    """How a field of sinfo -O is printed for a node in one of its partitions; None for one that sinfo does not know."""
    return {
        "nodelist": lambda node, _p, _c: node.name,
        "statecomplete": lambda node, _p, c: sinfo_state(node, c),
        "partition": lambda node, p, c: p + ("*" if p == c.default_partition else ""),
        "gres": lambda node, _p, _c: f"gpu:h100:{node.gpus}",
        "gresused": lambda node, _p, c: _gres_used(node, c),
        "userlong": lambda node, _p, _c: _owner(node),
        "timestamp": lambda node, _p, _c: _stamp(node),
        "version": lambda node, _p, _c: VERSION,
        "reason": lambda node, _p, _c: (node.reason or "none") if _explained(node) else "none",
    }.get(name.lower())


def scontrol_node(node: NodeRecord, controller: Controller) -> str:
    """One line of `scontrol show node -o`."""
    running = [controller.jobs[key] for key in node.jobs if controller.jobs[key].running]
    words = state(node, controller).upper()
    line = (
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=1 CPUAlloc={sum(job.spec.cpus for job in running)} "
        f"CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=1.00 AvailableFeatures=(null) ActiveFeatures=(null) "
        f"Gres=gpu:h100:{node.gpus} NodeAddr={node.name} NodeHostName={node.name} Version={VERSION} "
        f"OS=Linux RealMemory=2000000 AllocMem=0 FreeMem=1900000 Sockets={node.cpus} Boards=1 State={words} "
        f"ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions={','.join(node.partitions)}  "
        f"BootTime={int(node.boot_time)} SlurmdStartTime={int(node.boot_time) + 30} "
        f"LastBusyTime={int(controller.now)} CfgTRES=cpu={node.cpus},mem=2000000M,billing={node.cpus} AllocTRES= "
        f"CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s "
    )
    if _explained(node) and node.reason:
        line += f"Reason={node.reason} [{node.reason_user}@{int(node.reason_at)}]"
    return line
