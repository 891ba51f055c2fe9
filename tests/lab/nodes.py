"""The lab's nodes: one sshd each, in a mount and host-name namespace of its own that holds the node's files."""

import functools
import os
import signal
import subprocess
import uuid
from pathlib import Path

from tests.lab.needs import program
from tests.lab.node_files import STATE, NodeFiles
from tests.lab.processes import alive, in_namespace, kill_all, send, wait_for
from tests.lab.remnants import VARIABLE

_START = """set -e
hostname {name}
mount --make-rprivate /
mount -t overlay overlay -o lowerdir={node}/usr:/usr /usr
mount --bind {node}/state {state}
mount -t tmpfs none /sys/class
mkdir /sys/class/infiniband
mount --bind {node}/infiniband /sys/class/infiniband
mount --bind {node}/boot_id /proc/sys/kernel/random/boot_id
mount --bind {node}/pam /etc/pam.d/sshd
{root_home}
exec {sshd} -D -e -f {node}/sshd_config
"""
_EMPTY_ROOT_HOME = "mount -t tmpfs -o mode=0700 none /root"
"""So that root's own shell files and Pythons on this machine are no part of a node."""

_DAY = 86_400


class LabNode(NodeFiles):
    """A node's sshd and its sessions, and what can be done to them."""

    def __init__(self, base: Path, name: str, number: int, address: str, port: int) -> None:
        super().__init__(base, name, number, address, port)
        self._sshd: subprocess.Popen[bytes] | None = None
        self._namespaces: set[int] = set()
        self._uptime = (3 + number * 7 % 40) * _DAY + number * 977
        """Seconds; where the kernel has time namespaces, each node has its own."""

    def start_sshd(self) -> None:
        """Its namespace and its listener; nothing when it listens already."""
        if self.listens():
            return
        root_home = "" if self.base.is_relative_to("/root") else _EMPTY_ROOT_HOME
        script = _START.format(name=self.name, node=self.folder, state=STATE, sshd=program("sshd"), root_home=root_home)
        with (self.folder / "sshd.log").open("ab") as log:
            self._sshd = subprocess.Popen(
                [program("unshare"), "-m", "-u", *self._boot_time(), "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, VARIABLE: str(self.base)},
            )

    def _boot_time(self) -> list[str]:
        if not has_time_namespaces():
            return []
        return ["-T", "--boottime", str(int(self._uptime - float(Path("/proc/uptime").read_text().split()[0])))]

    def wait_sshd(self) -> None:
        """Returns once it listens."""
        wait_for(f"sshd of {self.name}", lambda: (self.folder / "sshd.pid").exists(), 30)
        if self._sshd is not None:
            self._namespaces.add(os.stat(f"/proc/{self._sshd.pid}/ns/mnt").st_ino)

    def listens(self) -> bool:
        return self._sshd is not None and self._sshd.poll() is None

    def kill_listener(self) -> None:
        """Nobody new gets in; sessions live on."""
        if self._sshd is not None:
            self._sshd.kill()
            self._sshd.wait()
        (self.folder / "sshd.pid").unlink(missing_ok=True)

    def sessions(self) -> list[int]:
        """Every process of the node but its listener."""
        return [pid for pid in in_namespace(self._namespaces) if not _listens(pid)]

    def kill_sessions(self) -> None:
        send(self.sessions(), signal.SIGKILL)

    def freeze(self) -> None:
        """No packet is answered any more, by sessions or listener."""
        send(in_namespace(self._namespaces), signal.SIGSTOP)

    def thaw(self) -> None:
        send(in_namespace(self._namespaces), signal.SIGCONT)

    def probes(self) -> list[int]:
        """Python processes of sessions: the probe and its child."""
        found = []
        for pid in self.sessions():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"python3" in line.split(b"\0", 1)[0]:
                found.append(pid)
        return found

    def reboot(self) -> None:
        """Every session ends, and the node is back at once: a new boot id, a boot time of now, an empty kernel log."""
        self.kill_listener()
        kill_all(lambda: in_namespace(self._namespaces))
        self._namespaces.clear()
        self._uptime = 1
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "state/kernel.log").write_text("")
        self.log("Linux version 6.1.0-41-amd64 (debian-kernel@lists.debian.org)")
        self.log("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48.01")
        self.start_sshd()
        self.wait_sshd()

    def forget(self) -> None:
        """Takes leave of an sshd that has ended."""
        if self._sshd is not None and not alive(self._sshd.pid):
            self._sshd.wait()


def _listens(pid: int) -> bool:
    """Whether it is an sshd that waits for connections, or what becomes one."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"[listener]" in line or line.split(b"\0")[0].endswith(b"unshare")


@functools.cache
def has_time_namespaces() -> bool:
    """Whether a node can have a boot time of its own."""
    tried = subprocess.run([program("unshare"), "-T", "--boottime", "1", "true"], capture_output=True, check=False)
    return tried.returncode == 0
