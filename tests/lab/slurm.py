"""The lab's Slurm: its own munge, slurmctld, and one slurmd for each node."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from tests.lab.needs import program
from tests.lab.processes import alive, descendants, kill_all, parents, run, send, wait_for
from tests.lab.remnants import VARIABLE

_CONF = """ClusterName={cluster}
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmctldPidFile={base}/slurmctld.pid
SlurmctldLogFile={base}/slurmctld.log
SlurmctldDebug=info
SlurmdPidFile={base}/slurmd.%n.pid
SlurmdLogFile={base}/slurmd.%n.log
SlurmdDebug=error
SlurmdSpoolDir={base}/spool/%n
StateSaveLocation={base}/state
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={base}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=5,bf_interval=5,sched_min_interval=1
GresTypes=gpu
SlurmdParameters=config_overrides
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=10
KillWait=5
MinJobAge=300
InactiveLimit=0
ReturnToService=2
TreeWidth=65533
RebootProgram={base}/reboot
ResumeTimeout=60
JobRequeue=1
TopologyPlugin=topology/tree
NodeName={names} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=64 RealMemory=500000 Gres=gpu:h100:8 State=UNKNOWN
PartitionName=train Nodes={names} Default=YES MaxTime=INFINITE State=UP
PartitionName=debug Nodes={few} MaxTime=01:00:00 State=UP
"""


HERE = Path(__file__).parent


class LabSlurm:
    """Comes up with start, goes down with stop; each daemon can be ended and started alone."""

    def __init__(self, base: Path, nodes: tuple[str, ...], port: int) -> None:
        """port is slurmctld's; those of the slurmds follow it."""
        self._port = port
        self.base = base
        self.nodes = nodes
        self.conf = base / "slurm.conf"
        self.cluster = f"lab{port}"
        """No other lab that lives has it: ports are not shared."""
        self._controller: subprocess.Popen[bytes] | None = None
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}
        self._munge: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when every node is idle; TimeoutError names what did not come up, and the logs say why."""
        self._write()
        self._start_munge()
        self.start_controller()
        for node in self.nodes:
            self.start_slurmd(node)
        wait_for("all nodes to be idle", self.all_idle, 60 + len(self.nodes) / 4, 0.2)

    def _write(self) -> None:
        base, count = self.base, len(self.nodes)
        for folder in ("state", "spool", "munge", "dev", "reboots"):
            (base / folder).mkdir(mode=0o755)
        for k in range(8):
            os.mknod(base / f"dev/nvidia{k}", 0o666 | 0o020000, os.makedev(1, 3))
        (base / "reboot").write_text((HERE / "shims/reboot").read_text().replace("BASE", str(base)))
        (base / "reboot").chmod(0o755)
        first = self._port
        names = f"gpu[0001-{count:04}]" if count > 1 else "gpu0001"
        few = f"gpu[0001-{min(2, count):04}]" if count > 1 else "gpu0001"
        self.conf.write_text(
            _CONF.format(
                cluster=self.cluster, base=base, port=first, names=names, few=few, first=first + 1, last=first + count
            )
        )
        (base / "gres.conf").write_text(f"NodeName={names} Name=gpu Type=h100 File={base}/dev/nvidia[0-7]\n")
        half = max(1, count // 2)
        leaves = [f"SwitchName=leaf1 Nodes=gpu[0001-{half:04}]"]
        if count > half:
            leaves.append(f"SwitchName=leaf2 Nodes=gpu[{half + 1:04}-{count:04}]")
        spine = f"SwitchName=spine Switches=leaf[1-{len(leaves)}]"
        (base / "topology.conf").write_text("\n".join([*leaves, spine, ""]))

    def _start_munge(self) -> None:
        folder = self.base / "munge"
        run([program("mungekey"), "-c", "-k", str(folder / "key")])
        argv = [program("munged"), "-F", "--force", f"--socket={folder}/socket", f"--key-file={folder}/key"]
        argv += [f"--pid-file={folder}/pid", f"--log-file={folder}/log", f"--seed-file={folder}/seed"]
        self._munge = self._spawn([*argv, "--num-threads=4"])
        wait_for("munged", lambda: (folder / "socket").exists())

    def _spawn(self, argv: list[str]) -> subprocess.Popen[bytes]:
        with (self.base / "daemons.log").open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.env, VARIABLE: str(self.base)},
                cwd="/",
                start_new_session=True,
            )

    def start_controller(self) -> None:
        """slurmctld, with the state it had; nothing when it runs."""
        if not _runs(self._controller):
            self._controller = self._spawn([program("slurmctld"), "-D", "-f", str(self.conf)])
        wait_for("slurmctld", self.answers)

    def stop_controller(self) -> None:
        """A crash: nobody answers any more."""
        if self._controller is not None:
            self._controller.kill()
            self._controller.wait()

    def restart_controller(self) -> None:
        self.stop_controller()
        self.start_controller()

    def freeze_controller(self) -> None:
        """It keeps its port and answers nobody."""
        if self._controller is not None:
            send([self._controller.pid], signal.SIGSTOP)

    def thaw_controller(self) -> None:
        if self._controller is not None:
            send([self._controller.pid], signal.SIGCONT)

    def start_slurmd(self, node: str, *, rebooted: bool = False) -> None:
        """Nothing when it runs; rebooted tells slurmctld that the machine has just booted."""
        if not _runs(self._slurmds.get(node)):
            argv = [program("slurmd"), "-D", "-f", str(self.conf), "-N", node, *(["-b"] if rebooted else [])]
            self._slurmds[node] = self._spawn(argv)

    def stop_slurmd(self, node: str) -> None:
        """Killed outright, as when a daemon crashes; its jobs' processes live on."""
        self._slurmds[node].kill()
        self._slurmds[node].wait()

    def reboot(self, node: str) -> None:
        """The node's daemon and jobs end at once, unannounced, and the daemon comes back from a boot."""
        self.stop_slurmd(node)
        kill_all(lambda: self.steps(node))
        self.start_slurmd(node, rebooted=True)

    def steps(self, node: str) -> list[int]:
        """Step daemons of a node, then the processes below them: those of its jobs carry the node's name."""
        mark, conf = f"SLURMD_NODENAME={node}\0".encode(), f"SLURM_CONF={self.conf}\0".encode()
        table = parents()
        daemons = set()
        for pid, parent in table.items():
            with contextlib.suppress(OSError):
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                if mark in environ and conf in environ and _name(parent) == "slurmstepd":
                    daemons.add(parent)
        return [*daemons, *descendants(daemons)]

    def running(self) -> dict[str, bool]:
        """Whether each node's slurmd runs."""
        return {node: _runs(self._slurmds.get(node)) for node in self.nodes}

    def controller_runs(self) -> bool:
        return _runs(self._controller)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def answers(self) -> bool:
        """Whether slurmctld answers a ping."""
        return subprocess.run([program("scontrol"), "ping"], capture_output=True, env=self.env).returncode == 0

    def all_idle(self) -> bool:
        done = subprocess.run(
            [program("sinfo"), "-h", "-N", "-p", "train", "-O", "StateComplete:30"],
            capture_output=True,
            text=True,
            env=self.env,
            check=False,
        )
        states = done.stdout.split()
        return len(states) == len(self.nodes) and set(states) == {"idle"}

    def forget(self) -> None:
        """Takes leave of daemons that have ended."""
        for one in (*self._slurmds.values(), self._controller, self._munge):
            if one is not None and not alive(one.pid):
                one.wait()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _runs(daemon: subprocess.Popen[bytes] | None) -> bool:
    return daemon is not None and daemon.poll() is None
