"""The files of one node: what NVML, the kernel log, InfiniBand and sshd say there."""

import importlib.metadata
import os
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.needs import program
from tests.lab.processes import run

HERE = Path(__file__).parent
STATE = "/usr/lib/gputop-lab"
"""Where a node finds its own files; the C code and the shims know it too."""

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
_LINK = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
_COUNTERS = (
    "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
    "port_rcv_data", "port_rcv_errors", "port_xmit_data", "port_xmit_discards", "port_xmit_wait", "symbol_error",
)  # fmt: skip
_HW_COUNTERS = ("local_ack_timeout_err", "out_of_sequence", "packet_seq_err", "rnr_nak_retry_err", "roce_adp_retrans")
_MOVING = ("port_rcv_data", "port_xmit_data")


def multiarch() -> str:
    """Debian's name for this machine's library folder."""
    return f"{os.uname().machine}-linux-gnu"


def nvml_header() -> Path:
    """NVIDIA's own nvml.h from the package nvidia-nvml-dev."""
    for file in importlib.metadata.files("nvidia-nvml-dev") or ():
        if file.name == "nvml.h":
            return Path(str(file.locate()))
    raise FileNotFoundError("nvml.h: pip install nvidia-nvml-dev")


def build(into: Path) -> None:
    """Compiles the library and nvidia-smi, and lays the shims beside them; about a second."""
    into.mkdir()
    library = ["-shared", "-fPIC", f"-I{nvml_header().parent}", "-o", str(into / "libnvidia-ml.so.1"), "fake_nvml.c"]
    run([program("gcc"), "-O2", "-w", *library], cwd=HERE / "nvml")
    run([program("gcc"), "-O2", "-w", "-o", str(into / "nvidia-smi"), "fake_smi.c"], cwd=HERE / "nvml")
    for name in ("journalctl", "dmesg"):
        (into / name).write_text((HERE / "shims" / name).read_text())
        (into / name).chmod(0o755)


class NodeFiles:
    """Everything of a node that can be written without its sshd."""

    def __init__(self, base: Path, name: str, number: int, address: str, port: int) -> None:
        self.base = base
        self.name = name
        self.number = number
        self.address = address
        self.port = port
        self.folder = base / "nodes" / name
        self._values: dict[str, str] = {}
        self._writing = threading.Lock()

    def write(self, built: Path, more_sshd: str = "") -> None:
        """All files of the node; built holds what build made."""
        node = self.folder
        for folder in ("usr/bin", "usr/lib/gputop-lab", f"usr/lib/{multiarch()}", "state"):
            (node / folder).mkdir(parents=True)
        os.link(built / "libnvidia-ml.so.1", node / f"usr/lib/{multiarch()}/libnvidia-ml.so.1")
        for name in ("nvidia-smi", "journalctl", "dmesg"):
            os.link(built / name, node / "usr/bin" / name)
        (node / "state/kernel.log").touch()
        (node / "state/denied").write_text("Access denied by pam_slurm_adopt: you have no active jobs on this node\n")
        (node / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (node / "pam").write_text(_ALLOW)
        (node / "sshd_config").write_text(
            _SSHD.format(address=self.address, port=self.port, node=node, base=self.base, more=more_sshd)
        )
        self.new_host_key()
        for k in range(8):
            self._write_port(k)
        self.set(node=str(self.number))
        self.log("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48.01")

    def new_host_key(self) -> None:
        """From the next connection on; known_hosts keeps the old one until Lab.write_ssh_config."""
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.folder / "host_key")])

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def without_python(self) -> None:
        """Takes python3 off the node (an overlay's whiteouts); before start_sshd."""
        for folder in ("usr/bin", "usr/local/bin"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
            for path in Path("/", folder).glob("python*"):
                os.mknod(self.folder / folder / path.name, 0o020000, os.makedev(0, 0))

    def deny_logins(self, *, deny: bool) -> None:
        """A site's policy, as pam_slurm_adopt: the key is right, the account is refused."""
        (self.folder / "pam").write_text(_DENY.format(state=STATE) if deny else _ALLOW)

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

    def faults(self) -> dict[str, str]:
        """Keys of the NVML state that are neither the node's number nor load."""
        return {key: one for key, one in self._values.items() if key != "node" and not key.endswith(".load")}

    def heal(self) -> None:
        """Every fault of GPUs, driver, links, journal and policy is over; the load stays."""
        self.put(dict.fromkeys(self.faults()))
        for k in range(8):
            if self._port_is_broken(k):
                self._write_port(k)
        self.own_journal(has=False)
        self.deny_logins(deny=False)

    def _flush(self) -> None:
        path = self.folder / "state/nvml.state"
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in self._values.items()))
        fresh.chmod(0o644)
        fresh.rename(path)

    # The kernel log

    def log(self, text: str) -> None:
        """A line in the kernel log, now."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
        with (self.folder / "state/kernel.log").open("a") as log:
            log.write(f"{stamp} {self.name} kernel: {text}\n")

    def own_journal(self, *, has: bool) -> None:
        """Who may not read the system's journal has one of their own: journalctl succeeds, and shows nothing."""
        path = self.folder / "state/own-journal"
        if has:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    # InfiniBand

    def _port(self, port: int) -> Path:
        return self.folder / f"infiniband/mlx5_{port}/ports/1"

    def _write_port(self, port: int) -> None:
        """A healthy port."""
        at = self._port(port)
        for folder, names in (("counters", _COUNTERS), ("hw_counters", _HW_COUNTERS)):
            (at / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                (at / folder / name).write_text("0\n")
        for name, text in _LINK.items():
            (at / name).write_text(f"{text}\n")

    def _port_is_broken(self, port: int) -> bool:
        at = self._port(port)
        still = [at / "counters" / name for name in _COUNTERS if name not in _MOVING]
        still += [at / "hw_counters" / name for name in _HW_COUNTERS]
        return any((at / name).read_text() != f"{text}\n" for name, text in _LINK.items()) or any(
            path.read_text() != "0\n" for path in still
        )

    def port_file(self, port: int, name: str, text: str) -> None:
        """Writes a file of an InfiniBand port, such as state or counters/link_downed."""
        (self._port(port) / name).write_text(text + "\n")

    def move_data(self, port: int, words: int) -> None:
        """A port sends and receives: its data counters, of four bytes each, grow."""
        for name in _MOVING:
            path = self._port(port) / "counters" / name
            path.write_text(f"{int(path.read_text() or 0) + words}\n")
