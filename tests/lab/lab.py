"""The lab as a whole: Slurm, nodes, keys, people; started once for a test session, or by hand."""

import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab import remnants
from tests.lab.accounts import OWNER, PEOPLE, ensure_accounts, ids
from tests.lab.load import Load
from tests.lab.needs import program
from tests.lab.node_files import build
from tests.lab.nodes import LabNode
from tests.lab.processes import Ports, adopt_orphans, run, wait_for
from tests.lab.slurm import LabSlurm

LOGIN = "login"


class Lab:
    """N GPU nodes, a login node, and everything to break them with."""

    def __init__(self, count: int, *, without_python: tuple[str, ...] = (), base: Path | None = None) -> None:
        self.base = base or Path(tempfile.mkdtemp(prefix="gplab-", dir="/tmp"))
        self.base.mkdir(exist_ok=True)
        if any(self.base.iterdir()):
            raise FileExistsError(f"{self.base} is not empty: what is in it would end with the lab")
        self.base.chmod(0o755)
        (self.base / remnants.MARK).touch()
        self.names = tuple(f"gpu{k:04}" for k in range(1, count + 1))
        self._ports = Ports(count + 2)
        port = self._ports.first
        self.slurm = LabSlurm(self.base, self.names, port + 1)
        self._without_python = without_python
        net = os.getpid() % 200 + 20
        self.nodes = {
            name: LabNode(self.base, name, k, f"127.{net}.{k // 250}.{k % 250 + 1}", port)
            for k, name in enumerate(self.names, 1)
        }
        self.login = LabNode(self.base, LOGIN, 0, f"127.{net}.250.1", port)
        self._load: Load | None = None

    def start(self, *, slurm: bool = True, sshd: bool = True) -> Self:
        """Brings everything up; returns when Slurm is idle and every sshd listens."""
        adopt_orphans()
        ensure_accounts()
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._keys()
        build(self.base / "built")
        with ThreadPoolExecutor(1) as beside:
            starting = beside.submit(self.slurm.start) if slurm else None
            if sshd:
                self._start_sshds()
            if starting is not None:
                starting.result()
        if slurm:
            self._load = Load(self.slurm, self.nodes, self.reboot)
            self._load.start()
        return self

    def _start_sshds(self) -> None:
        every = [*self.nodes.values(), self.login]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._write_node, every))
            for node in every:
                node.start_sshd()
            list(pool.map(LabNode.wait_sshd, every))
        self.write_ssh_config()

    def _write_node(self, node: LabNode) -> None:
        more = f"SetEnv SLURM_CONF={self.slurm.conf}" if node is self.login else ""
        node.write(self.base / "built", more)
        if node.name in self._without_python:
            node.without_python()

    def _keys(self) -> None:
        """One key a person, and who may log in with it."""
        (self.base / "keys/authorized").mkdir(parents=True)
        for name in ("root", *PEOPLE):
            key = self.base / "keys" / name
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)])
            if name != "root":
                os.chown(key, *ids(name))
            (self.base / "keys/authorized" / name).write_text(key.with_suffix(".pub").read_text())

    def write_ssh_config(self) -> None:
        """known_hosts, and for each person a home with .ssh/config, and one that goes through the login node."""
        every = [*self.nodes.values(), self.login]
        known = "".join(f"[{n.address}]:{n.port} {n.host_key}\n" for n in every)
        (self.base / "known_hosts").write_text(known)
        for person in ("root", *PEOPLE):
            for kind in ("direct", "jump"):
                home = self.home(person, jump=kind == "jump")
                (home / ".ssh").mkdir(parents=True, exist_ok=True)
                (home / ".ssh/config").write_text(self._config_of(person, jump=kind == "jump"))
                (home / ".ssh/config").chmod(0o600)
                if person != "root":
                    for path in (home, home / ".ssh", home / ".ssh/config"):
                        os.chown(path, *ids(person))

    def _config_of(self, person: str, *, jump: bool) -> str:
        lines = []
        for node in [*self.nodes.values(), self.login]:
            lines += [f"Host {node.name}", f"  HostName {node.address}"]
            if jump and node is not self.login:
                lines.append(f"  ProxyJump {LOGIN}")
        lines += [
            "Host *",
            f"  Port {self.login.port}",
            f"  User {person}",
            f"  IdentityFile {self.base}/keys/{person}",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {self.base}/known_hosts",
            "  StrictHostKeyChecking yes",
            "",
        ]
        return "\n".join(lines)

    def home(self, person: str, *, jump: bool = False) -> Path:
        """A foreign home that holds nothing but .ssh/config."""
        return self.base / "homes" / f"{person}{'-jump' if jump else ''}"

    def env(self, person: str = "root", *, jump: bool = False) -> dict[str, str]:
        """What somebody with only an account, an ssh_config and a SLURM_CONF has."""
        return {
            "HOME": str(self.home(person, jump=jump)),
            "USER": person,
            "LOGNAME": person,
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": str(self.slurm.conf),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    def run_as(self, person: str, argv: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        """Runs a command as somebody, in their foreign home; does not raise for its exit status."""
        who: dict[str, object] = {}
        if person != "root":
            uid, gid = ids(person)
            who = {"user": uid, "group": gid, "extra_groups": os.getgrouplist(person, gid)}
        options: dict[str, object] = {"env": self.env(person), "timeout": 60, "cwd": "/", **who, **more}
        return subprocess.run(argv, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]

    def ask(self, *argv: str) -> str:
        """What Slurm itself says to root."""
        return run([program(argv[0]), *argv[1:]], env=self.slurm.env)

    def submit(self, *options: str, wrap: str = "sleep 600", person: str = OWNER) -> str:
        """A batch job; answers with its id."""
        argv = [program("sbatch"), "--parsable", "-o", "/dev/null", "-D", "/tmp", *options, f"--wrap={wrap}"]
        done = self.run_as(person, argv)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def job(self, job: str, field: str) -> str:
        """One field of scontrol show job; "" when Slurm does not know it."""
        text = self.ask("scontrol", "show", "job", job, "-o")
        return next((word.split("=", 1)[1] for word in text.split() if word.startswith(field + "=")), "")

    def node_state(self, node: str) -> str:
        """State of scontrol show node, such as IDLE+DRAIN."""
        text = self.ask("scontrol", "show", "node", node, "-o")
        return next(word.split("=", 1)[1] for word in text.split() if word.startswith("State="))

    def rest(self) -> None:
        """The lab's own looks at Slurm end; loads stay as they are."""
        if self._load is not None:
            self._load.stop()

    def reboot(self, name: str) -> None:
        """A node goes down with all it runs and is back at once: new boot id, boot time of now, slurmd from a boot."""
        self.nodes[name].reboot()
        self.slurm.reboot(name)

    def clean(self) -> None:
        """Between tests: no jobs, every node in service and healthy, every daemon and sshd up."""
        self.slurm.thaw_controller()
        self.slurm.start_controller()
        for person in ("root", *PEOPLE):
            self.ask("scancel", "-u", person)
        for name, node in self.nodes.items():
            node.thaw()
            node.heal()
            node.start_sshd()
            self.slurm.start_slurmd(name)
        for name, node in self.nodes.items():
            node.wait_sshd()
            state = self.node_state(name)
            if "DRAIN" in state or "DOWN" in state or "FAIL" in state:
                self.ask("scontrol", "update", f"nodename={name}", "state=resume")
        self.write_ssh_config()
        wait_for("a clean Slurm", self.slurm.all_idle, 40, 0.2)

    def stop(self, *, keep: bool = False) -> None:
        """Ends every process, and takes every file away unless they are to be kept."""
        self.rest()
        remnants.end(self.base)
        self.slurm.forget()
        for node in [*self.nodes.values(), self.login]:
            node.forget()
        self._ports.close()
        if not keep:
            remnants.remove(self.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
