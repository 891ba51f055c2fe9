"""The lab's nodes: one sshd each, in a mount and host-name namespace of its own that holds the node's files."""

import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.needs import program
from tests.lab.processes import descendants, end_all, in_namespace, run, send, wait_for

HERE = Path(__file__).parent
STATE = "/usr/lib/gputop-lab"
"""Where a node finds its own files."""

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
exec {sshd} -D -e -f {node}/sshd_config
"""

_SSHD = """ListenAddress {address}:{port}
HostKey {node}/host_key
PidFile {node}/sshd.pid
AuthorizedKeysFile {base}/keys/authorized/%u
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UsePAM yes
UseDNS no
StrictModes no
PrintMotd no
PrintLastLog no
MaxStartups 512
LogLevel ERROR
AllowTcpForwarding yes
{more}
"""

_ALLOW = "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n"
_DENY = (
    "auth required pam_permit.so\naccount required pam_echo.so file={state}/denied\n"
    "account required pam_deny.so\nsession required pam_permit.so\n"
)

_JOURNALCTL = """#!/bin/sh
# The kernel part of journalctl over the node's log file: -k -b -o short-iso --no-pager -n LINES -f
lines=all; follow=
while [ $# -gt 0 ]; do
  case "$1" in
    -n) lines=$2; shift;;
    -n*) lines=${1#-n};;
    --lines=*) lines=${1#--lines=};;
    -f|--follow) follow=1;;
    --version) echo "systemd 252"; exit 0;;
  esac
  shift
done
case " $(id -Gn) " in
  *" root "*|*" adm "*|*" systemd-journal "*) ;;
  *) echo "Hint: You are currently not seeing messages from other users and the system." >&2
     echo "      Users in groups 'adm', 'systemd-journal' can see all messages." >&2
     echo "      Pass -q to turn off this notice." >&2
     echo "No journal files were opened due to insufficient permissions." >&2
     exit 1;;
esac
[ "$lines" = all ] && lines=+1
if [ "$follow" ]; then exec tail -n "$lines" -F STATE/kernel.log; fi
if [ -s STATE/kernel.log ]; then tail -n "$lines" STATE/kernel.log; else echo "-- No entries --"; fi
"""
_DMESG = """#!/bin/sh
if [ "$(id -u)" != 0 ]; then
  echo "dmesg: read kernel buffer failed: Operation not permitted" >&2
  exit 1
fi
sed 's/^\\([^ ]*\\)+0000 [^ ]* kernel: /\\1,000000+00:00 /' STATE/kernel.log
"""


class LabNode:
    """One node's files, its sshd and what can be done to both."""

    def __init__(self, base: Path, name: str, number: int, address: str, port: int) -> None:
        self.base = base
        self.name = name
        self.number = number
        self.address = address
        self.port = port
        self.folder = base / "nodes" / name
        self._values: dict[str, str] = {}
        self._writing = threading.Lock()
        self._sshd: subprocess.Popen[bytes] | None = None
        self._namespaces: set[int] = set()

    def write(self, built: Path, more_sshd: str = "") -> None:
        """All files of the node; built holds the compiled library and nvidia-smi."""
        node = self.folder
        for folder in ("usr/bin", "usr/lib/gputop-lab", f"usr/lib/{multiarch()}", "state"):
            (node / folder).mkdir(parents=True)
        os.link(built / "libnvidia-ml.so.1", node / f"usr/lib/{multiarch()}/libnvidia-ml.so.1")
        os.link(built / "nvidia-smi", node / "usr/bin/nvidia-smi")
        for name, text in (("journalctl", _JOURNALCTL), ("dmesg", _DMESG)):
            path = node / "usr/bin" / name
            path.write_text(text.replace("STATE", STATE))
            path.chmod(0o755)
        (node / "state/kernel.log").touch()
        (node / "state/denied").write_text("Access denied by pam_slurm_adopt: you have no active jobs on this node\n")
        (node / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (node / "pam").write_text(_ALLOW)
        (node / "sshd_config").write_text(
            _SSHD.format(address=self.address, port=self.port, node=node, base=self.base, more=more_sshd)
        )
        self.new_host_key()
        self._write_ports()
        self.set(node=str(self.number))
        self.log("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48.01")

    def new_host_key(self) -> None:
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.folder / "host_key")])

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def _write_ports(self) -> None:
        for k in range(8):
            port = self.folder / f"infiniband/mlx5_{k}/ports/1"
            for folder in ("counters", "hw_counters"):
                (port / folder).mkdir(parents=True)
            for name, text in (
                ("state", "4: ACTIVE"),
                ("phys_state", "5: LinkUp"),
                ("rate", "400 Gb/sec (4X NDR)"),
                ("link_layer", "InfiniBand"),
            ):
                (port / name).write_text(text + "\n")
            for name in (
                "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
                "port_rcv_errors", "port_xmit_discards", "symbol_error", "port_rcv_data", "port_xmit_data",
            ):  # fmt: skip
                (port / "counters" / name).write_text("0\n")

    # The state file of GPUs and driver

    def set(self, **values: object) -> None:
        """Sets keys of the NVML state; `gpu_3_lost=1` is gpu.3.lost, None takes a key away."""
        named = {".".join(key.split("_", 2)) if key.startswith("gpu_") else key: one for key, one in values.items()}
        self.put({key: None if one is None else str(one) for key, one in named.items()})

    def put(self, values: dict[str, str | None]) -> None:
        """The same with literal keys, such as gpu.3.load."""
        with self._writing:
            before = dict(self._values)
            for key, value in values.items():
                if value is None:
                    self._values.pop(key, None)
                else:
                    self._values[key] = value
            if before != self._values:
                self._flush()

    def heal(self) -> None:
        """Every fault of GPUs and driver is over; the load stays."""
        self.put({key: None for key in self._values if key != "node" and not key.endswith(".load")})

    def _flush(self) -> None:
        path = self.folder / "state/nvml.state"
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in self._values.items()))
        fresh.chmod(0o644)
        fresh.rename(path)

    def log(self, text: str) -> None:
        """A line in the kernel log, now."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
        with (self.folder / "state/kernel.log").open("a") as log:
            log.write(f"{stamp} {self.name} kernel: {text}\n")

    def port_file(self, port: int, name: str, text: str) -> None:
        """Writes a file of an InfiniBand port, such as state or counters/link_downed."""
        (self.folder / f"infiniband/mlx5_{port}/ports/1/{name}").write_text(text + "\n")

    # sshd and its sessions

    def start_sshd(self) -> None:
        """Its namespace and its listener."""
        script = _START.format(name=self.name, node=self.folder, state=STATE, sshd=program("sshd"))
        with (self.folder / "sshd.log").open("ab") as log:
            self._sshd = subprocess.Popen(
                [program("unshare"), "-m", "-u", "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    def wait_sshd(self) -> None:
        """Returns once it listens."""
        wait_for(f"sshd of {self.name}", lambda: (self.folder / "sshd.pid").exists(), 30)
        if self._sshd is not None:
            self._namespaces.add(os.stat(f"/proc/{self._sshd.pid}/ns/mnt").st_ino)

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

    def deny_logins(self, *, deny: bool) -> None:
        """A site's policy, as pam_slurm_adopt: the key is right, the account is refused."""
        (self.folder / "pam").write_text(_DENY.format(state=STATE) if deny else _ALLOW)

    def without_python(self) -> None:
        """Takes python3 off the node; before start_sshd."""
        for name in ("python3", "python3.11", "python3.12", "python3.13"):
            if Path("/usr/bin", name).exists():
                os.mknod(self.folder / "usr/bin" / name, 0o020000, os.makedev(0, 0))

    def reboot(self) -> None:
        """A new boot id and an empty kernel log; sessions are gone."""
        self.kill_sessions()
        path = self.folder / "boot_id"
        path.write_text(f"{uuid.uuid4()}\n")
        (self.folder / "state/kernel.log").write_text("")
        self.log("Linux version 6.1.0 booting")

    def stop(self) -> None:
        """Ends every process of the node."""
        end_all(lambda: in_namespace(self._namespaces))
        if self._sshd is not None:
            self._sshd.kill()
            self._sshd.wait()
            end_all(lambda: descendants(self._sshd.pid) if self._sshd else [])


def _listens(pid: int) -> bool:
    """Whether it is an sshd that waits for connections, or what becomes one."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"[listener]" in line or line.split(b"\0")[0].endswith(b"unshare")


def multiarch() -> str:
    """Debian's name for this machine's library folder."""
    return f"{os.uname().machine}-linux-gnu"


def build(into: Path, header: Path) -> None:
    """Compiles the library and nvidia-smi; about a second."""
    into.mkdir(exist_ok=True)
    library = ["-shared", "-fPIC", f"-I{header.parent}", "-o", str(into / "libnvidia-ml.so.1"), "fake_nvml.c"]
    run([program("gcc"), "-O2", "-w", *library], cwd=HERE / "nvml")
    run([program("gcc"), "-O2", "-w", "-o", str(into / "nvidia-smi"), "fake_smi.c"], cwd=HERE / "nvml")


def remove(folder: Path) -> None:
    """The folder and all in it; a mount that lingers gets a moment."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(folder)
