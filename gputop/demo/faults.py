"""The kinds of faults: what each does to the simulated cluster when it begins, and when it is over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputop.demo import kernel
from gputop.demo.hardware import HW_SLOWDOWN, HW_THERMAL, NVLINKS, POWER_BRAKE
from gputop.demo.machines import Reach
from gputop.demo.slurm.commands import Trouble
from gputop.demo.subjects import About, Subject

if TYPE_CHECKING:
    from gputop.demo.world import World

CRASH = {"hardware": 134, "nccl": 1, "out-of-memory": 137, "user": 2, "file-system": 5}
"""Class of a crash -> the exit code that it leaves."""
CRASH_SECONDS = 6.0
"""From a GPU that dies until the program that used it is gone."""
CRASH_WORDS = tuple(CRASH)


@dataclass(frozen=True, kw_only=True)
class Strike:
    """A fault at the moment it strikes."""

    subject: Subject
    strength: float
    text: str
    lasts: float


Effect = Callable[["World", Strike], None]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault."""

    about: About
    says: str
    """What it is, and what its strength means."""
    begin: Effect
    end: Effect | None = None
    """None: it is not over by itself."""
    strength: float = 1.0
    words: tuple[str, ...] = ()
    """What `text` may be; () is any text, or none."""


def _log_gpus(world: "World", strike: Strike, line: Callable[[int], str]) -> None:
    for node in strike.subject.nodes:
        for gpu in strike.subject.gpus:
            world.machines[node].log(world.now, line(gpu))


def _rows(world: "World", strike: Strike) -> list[int]:
    per_node = world.hardware.per_node
    return [node * per_node + gpu for node in strike.subject.nodes for gpu in strike.subject.gpus]


def _set(column: str, value: Callable[[Strike], float], *, crashes: bool = False, code: int = 0) -> Effect:
    """A reading takes another value; with a code the driver logs it, and the job there may crash of it."""

    def begin(world: "World", strike: Strike) -> None:
        world.hardware.column(column)[_rows(world, strike)] = int(value(strike))
        if code:
            _log_gpus(world, strike, lambda gpu: kernel.xid(gpu, code))
        if crashes:
            world.crash_jobs(strike.subject, CRASH["hardware"], CRASH_SECONDS)

    return begin


def _back(column: str, value: float) -> Effect:
    def end(world: "World", strike: Strike) -> None:
        world.hardware.column(column)[_rows(world, strike)] = int(value)

    return end


def _xid(world: "World", strike: Strike) -> None:
    code = int(strike.strength)
    _log_gpus(world, strike, lambda gpu: kernel.xid(gpu, code, "python3" if code in (13, 31, 43, 45, 94) else ""))
    if code in (48, 64, 74, 79, 95, 109, 119, 120, 140, 31, 13):
        world.crash_jobs(strike.subject, CRASH["hardware"], CRASH_SECONDS)


def _lose(world: "World", strike: Strike) -> None:
    world.hardware.lost[_rows(world, strike)] = True
    _log_gpus(world, strike, lambda gpu: kernel.xid(gpu, 79))
    world.crash_jobs(strike.subject, CRASH["hardware"], CRASH_SECONDS)


def _hang_driver(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        machine = world.machines[node]
        machine.hung_since, machine.blocked = world.now, machine.blocked + 2
        machine.log(world.now, kernel.blocked("nvidia-smi"))
        world.hang_jobs_on(node)


def _unhang_driver(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.machines[node].hung_since, world.machines[node].blocked = 0.0, 0
        world.hang_jobs_on(node, hung=False)


def _slow_clock(bits: int, watts: float) -> Effect:
    def begin(world: "World", strike: Strike) -> None:
        rows = _rows(world, strike)
        world.hardware.clock_cap[rows] = strike.strength
        world.hardware.reasons[rows] |= bits
        world.hardware.extra_watts[rows] = watts

    return begin


def _full_clock(world: "World", strike: Strike) -> None:
    rows = _rows(world, strike)
    world.hardware.clock_cap[rows] = 1.0
    world.hardware.reasons[rows] = 0
    world.hardware.extra_watts[rows] = 0.0


def _slow_host(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.hardware.slowed[world.hardware.rows(node)] = strike.strength
        world.machines[node].extra_load = 160.0


def _host_well(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.hardware.slowed[world.hardware.rows(node)] = 1.0
        world.machines[node].extra_load = 0.0


def _slow_network(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.hardware.slowed[world.hardware.rows(node)] = strike.strength
        for port in strike.subject.ports:
            world.ports.symbol_errors[world.port_row(node, port)] += 4000


def _links_down(world: "World", strike: Strike) -> None:
    world.hardware.column("nvlinks_up")[_rows(world, strike)] = NVLINKS - int(strike.strength)
    world.hardware.column("nvlink_errors")[_rows(world, strike)] += 40
    _log_gpus(world, strike, lambda gpu: kernel.xid(gpu, 74))
    world.crash_jobs(strike.subject, CRASH["nccl"], CRASH_SECONDS)


def _port_down(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        for port in strike.subject.ports:
            world.ports.set_down(world.port_row(node, port))
            world.machines[node].log(world.now, kernel.port_down(port))


def _port_up(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        for port in strike.subject.ports:
            world.ports.set_up(world.port_row(node, port))


def _port_flap(world: "World", strike: Strike) -> None:
    for k in range(int(strike.strength)):
        world.later(60.0 * k, lambda: _port_down(world, strike))
        world.later(60.0 * k + 30.0, lambda: _port_up(world, strike))


def _recovery(world: "World", strike: Strike) -> None:
    world.hardware.column("recovery_action")[_rows(world, strike)] = int(strike.strength)
    _log_gpus(world, strike, lambda gpu: kernel.recovery_action(gpu, int(strike.strength)))


def _hang_job(world: "World", strike: Strike) -> None:
    world.loads[strike.subject.job].hung = True


def _crash_job(world: "World", strike: Strike) -> None:
    cause = strike.text or "user"
    node = strike.subject.nodes[0]
    if cause == "out-of-memory":
        world.machines[node].log(world.now, kernel.out_of_memory("python3"))
    if cause == "hardware":
        world.machines[node].log(world.now, kernel.xid(0, 95))
    world.crash_jobs(strike.subject, CRASH[cause], 0.0)


def _lazy_job(world: "World", strike: Strike) -> None:
    world.loads[strike.subject.job].lazy = strike.strength


def _reach(how: Reach, *, slurmd: bool) -> Effect:
    def begin(world: "World", strike: Strike) -> None:
        for node in strike.subject.nodes:
            world.machines[node].reach = how
            if slurmd:
                world.slurm.slurmd_dies(world.names[node])

    return begin


def _reachable(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        if world.machines[node].reach is Reach.SILENT:
            world.reboot(node, 0.0)
        world.machines[node].reach = Reach.UP


def _controller(trouble: Trouble) -> Effect:
    def begin(world: "World", strike: Strike) -> None:
        world.trouble_slurm(trouble, strike.strength)

    return begin


def _controller_well(world: "World", _strike: Strike) -> None:
    world.commands.thaw()


def _skew(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.machines[node].skew = strike.strength


def _fill_disk(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.machines[node].disk_used = strike.strength


def _roll_out(world: "World", strike: Strike) -> None:
    """Node after node takes the new driver, spread evenly over the time it lasts."""
    for k, node in enumerate(strike.subject.nodes):
        machine = world.machines[node]
        world.later(
            strike.lasts * k / len(strike.subject.nodes),
            lambda machine=machine: setattr(machine, "driver", strike.text or "595.21.03"),  # type: ignore[misc]
        )


def _hang_mount(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.machines[node].blocked += int(strike.strength)
        world.machines[node].log(world.now, kernel.mount_silent("scratch01"))
        world.hang_jobs_on(node)


def _mount_answers(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.machines[node].blocked = 0
        world.hang_jobs_on(node, hung=False)


def _reboot(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.reboot(node, strike.strength)


def _repair(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.hardware.replaced(node)
        world.reboot(node, strike.strength)


def _foreign_drain(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.slurm.drain(world.slurm.nodes[world.names[node]], strike.text or "INC0042 ram swap", "dcops")


def _undrained(world: "World", strike: Strike) -> None:
    for node in strike.subject.nodes:
        world.slurm.undrain(world.slurm.nodes[world.names[node]])


KINDS: dict[str, Kind] = {
    "xid": Kind(about="gpu", says="the driver logs an XID; strength is its code", strength=31, begin=_xid),
    "gpu-lost": Kind(about="gpu", says="falls off the bus (XID 79); the job on it dies", begin=_lose),
    "driver-hang": Kind(
        about="node", says="NVML answers no more, and the jobs there hang", begin=_hang_driver, end=_unhang_driver
    ),
    "throttle": Kind(
        about="gpu",
        says="HW thermal slowdown; strength is the share of the clock that is left",
        strength=0.55,
        begin=_slow_clock(HW_THERMAL | HW_SLOWDOWN, 160.0),
        end=_full_clock,
    ),
    "power-brake": Kind(
        about="gpu",
        says="HW power brake; strength is the share of the clock that is left",
        strength=0.5,
        begin=_slow_clock(POWER_BRAKE | HW_SLOWDOWN, 0.0),
        end=_full_clock,
    ),
    "ecc": Kind(
        about="gpu",
        says="uncorrected ECC errors (XID 48), strength of them; the job on it dies",
        strength=2,
        begin=_set("ecc_unc", lambda strike: strike.strength, crashes=True, code=48),
    ),
    "remap-pending": Kind(
        about="gpu", says="a row waits for a reset (XID 63)", begin=_set("remap_pending", lambda _s: 1, code=63)
    ),
    "remap-failed": Kind(
        about="gpu",
        says="a row cannot be remapped (XID 64); the job on it dies",
        begin=_set("remap_failed", lambda _s: 1, crashes=True, code=64),
    ),
    "recovery-action": Kind(
        about="gpu", says="the GPU asks for a repair (XID 154); strength is NVML's code", strength=1, begin=_recovery
    ),
    "pcie-downgrade": Kind(
        about="gpu",
        says="PCIe falls to so many lanes",
        strength=4,
        begin=_set("pcie_width", lambda strike: strike.strength),
        end=_back("pcie_width", 16),
    ),
    "nvlink-down": Kind(
        about="gpu", says="so many NVLinks go down (XID 74); the job on it dies", strength=1, begin=_links_down
    ),
    "ib-down": Kind(about="port", says="an InfiniBand port goes down", begin=_port_down, end=_port_up),
    "ib-flap": Kind(
        about="port", says="a port goes down so many times, for 30 s a minute", strength=4, begin=_port_flap
    ),
    "slow-clock": Kind(
        about="gpu",
        says="a straggler: the clock stays at this share of its own, and no slowdown bit is set",
        strength=0.7,
        begin=_slow_clock(0, 0.0),
        end=_full_clock,
    ),
    "slow-cpu": Kind(
        about="node",
        says="a straggler: the host's CPUs are taken; strength is the speed that is left",
        strength=0.75,
        begin=_slow_host,
        end=_host_well,
    ),
    "slow-network": Kind(
        about="port",
        says="a straggler: its ports make errors; strength is the speed that is left",
        strength=0.8,
        begin=_slow_network,
        end=_host_well,
    ),
    "job-hang": Kind(about="job", says="all of it spins in a collective, and nothing goes on", begin=_hang_job),
    "job-crash": Kind(about="job", says="it dies of the cause in text", begin=_crash_job, words=CRASH_WORDS),
    "slow-job": Kind(
        about="job",
        says="no fault: a user's program that computes only this share of the time",
        strength=0.4,
        begin=_lazy_job,
    ),
    "node-dead": Kind(
        about="node",
        says="the host answers nobody any more",
        begin=_reach(Reach.SILENT, slurmd=True),
        end=_reachable,
    ),
    "ssh-dead": Kind(
        about="node",
        says="nobody listens for SSH; all else goes on",
        begin=_reach(Reach.REFUSED, slurmd=False),
        end=_reachable,
    ),
    "pam-denied": Kind(
        about="node", says="a policy lets us in no more", begin=_reach(Reach.DENIED, slurmd=False), end=_reachable
    ),
    "slurmctld-down": Kind(
        about="slurmctld", says="nobody listens there", begin=_controller("down"), end=_controller_well
    ),
    "slurmctld-frozen": Kind(
        about="slurmctld",
        says="it answers nobody, and does later what it was sent",
        begin=_controller("frozen"),
        end=_controller_well,
    ),
    "slurmctld-slow": Kind(
        about="slurmctld",
        says="each answer takes strength seconds",
        strength=4,
        begin=_controller("slow"),
        end=_controller_well,
    ),
    "slurmctld-empty": Kind(
        about="slurmctld", says="it answers with nothing", begin=_controller("empty"), end=_controller_well
    ),
    "clock-skew": Kind(about="node", says="its clock is strength seconds ahead", strength=90, begin=_skew),
    "disk-full": Kind(about="node", says="its root file system is so many percent full", strength=99, begin=_fill_disk),
    "driver-rollout": Kind(
        about="node", says="node after node gets the driver in text, over the time it lasts", begin=_roll_out
    ),
    "mount-hung": Kind(
        about="node",
        says="a shared mount answers no more: strength processes wait for it, and jobs hang",
        strength=6,
        begin=_hang_mount,
        end=_mount_answers,
    ),
    "reboot": Kind(
        about="node",
        says="no fault: somebody reboots it; strength is the seconds until it is back",
        strength=90,
        begin=_reboot,
    ),
    "repair": Kind(
        about="node",
        says="a person repairs it: new parts, and a reboot of strength seconds",
        strength=30,
        begin=_repair,
    ),
    "foreign-drain": Kind(
        about="node",
        says="no fault: somebody else drains it, for the reason in text",
        begin=_foreign_drain,
        end=_undrained,
    ),
}
