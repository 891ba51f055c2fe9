"""gputop doctor: each thing that is needed, whether it is there, and how to get it."""

import os
import shutil
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec import Struct

from gputop.config import Chosen, choose_cluster, load_config
from gputop.diagnostics import Exit
from gputop.engine.clock import SystemClock
from gputop.engine.lock import private_folder, refuse_network_disk
from gputop.engine.once import observe_once
from gputop.engine.parts import Parts
from gputop.engine.periods import periods_of
from gputop.model.calls import Ability
from gputop.model.errors import ConfigError, GputopError
from gputop.model.hosts import LinkState
from gputop.model.reading import Unknown
from gputop.model.snapshot import About, Snapshot
from gputop.recover.ledger import Ledger
from gputop.sources.ssh.fleet import raise_file_limit
from gputop.stream.socket import attach

OK, MISSING, UNKNOWN, NOTE = "ok", "missing", "unknown", "note"


class Check(Struct, frozen=True):
    """One thing looked at."""

    what: str
    result: str
    """ok, missing, unknown, or note: something to know that stops nothing."""
    says: str


async def doctor(config_path: Path | None, cluster: str | None, *, as_json: bool) -> int:
    """Looks at everything, prints a line each; exit 0 when nothing is missing."""
    checks = [Check("gputop", OK, f"{version('gputop-cluster')} on Python {sys.version.split()[0]}")]
    try:
        config = load_config(config_path)
        chosen = choose_cluster(config, cluster)
        where = str(config_path) if config_path else "no file; defaults"
        checks.append(Check("configuration", OK, f"{where}; cluster {chosen.name}"))
    except ConfigError as error:
        checks.append(Check("configuration", MISSING, str(error)))
        return _print(checks, as_json=as_json)
    checks.extend(_local(chosen))
    checks.append(await _engine(chosen))
    checks.extend(await _cluster(chosen))
    return _print(checks, as_json=as_json)


def _local(chosen: Chosen) -> list[Check]:
    checks = []
    try:
        folder = private_folder(chosen.state_dir)
        refuse_network_disk(folder)
        Ledger(folder / "ledger.sqlite").close()
        checks.append(Check("state folder", OK, f"{folder}: ours, on a local disk, ledger readable"))
    except GputopError as error:
        checks.append(Check("state folder", MISSING, str(error)))
    limit = raise_file_limit()
    checks.append(Check("open files", OK if limit >= 4096 else NOTE, f"{limit} allowed; a connection a node is needed"))
    configs = chosen.cluster.ssh_config or ("~/.ssh/config", "/etc/ssh/ssh_config")
    found = [name for name in configs if Path(name).expanduser().is_file()]
    checks.append(Check("ssh configuration", OK if found else NOTE, ", ".join(found) or "none; defaults apply"))
    agent = os.environ.get("SSH_AUTH_SOCK", "")
    checks.append(Check("ssh agent", OK if agent else NOTE, agent or "none; keys with a passphrase need one (ssh-add)"))
    if not chosen.cluster.login:
        for name in ("sinfo", "squeue", "scontrol", "scancel"):
            path = shutil.which(name)
            says = path or "not found: install Slurm's client (slurm-client), or set login to a node that has it"
            checks.append(Check(name, OK if path else MISSING, says))
    return checks


async def _engine(chosen: Chosen) -> Check:
    try:
        connection = await attach(chosen.socket_path)
    except GputopError:
        return Check("engine", NOTE, "none runs; the screen starts one")
    await connection.close()
    return Check("engine", OK, f"answers at {chosen.socket_path}")


async def _cluster(chosen: Chosen) -> list[Check]:
    clock = SystemClock()
    parts = Parts(chosen.name, chosen.cluster, clock)
    about = About(cluster=chosen.name, version="", read_only=True, adapter=parts.adapter)
    snap = await observe_once(parts, about, periods_of(chosen.cluster), chosen.cluster.host, clock)
    return [*_slurm(snap, parts.adapter), *_abilities(snap), *_hosts(snap), *_readings(snap)]


def _slurm(snap: Snapshot, adapter: str) -> list[Check]:
    checks = []
    for name in ("slurm.nodes", "slurm.jobs", "slurm.site"):
        source = snap.sources[name]
        if isinstance(source.read_at, Unknown):
            checks.append(Check(name, MISSING, source.trouble or "not read"))
    if checks:
        return checks
    releases = ", ".join(sorted({node.version for node in snap.nodes.values() if node.version}))
    says = f"{len(snap.nodes)} nodes, {len(snap.jobs)} jobs, slurmd {releases or 'unknown'} ({adapter})"
    return [Check("slurm", OK, says)]


def _abilities(snap: Snapshot) -> list[Check]:
    found = snap.abilities
    if found is None:
        return [Check("rights", UNKNOWN, "Slurm did not say what this account may do")]
    results = {Ability.YES: OK, Ability.NO: NOTE, Ability.UNKNOWN: UNKNOWN}
    return [
        Check("drain, resume nodes", results[found.nodes], f"{found.account}: {found.nodes}; {found.detail}"),
        Check("requeue, hold, cancel others' jobs", results[found.jobs], f"{found.account}: {found.jobs}"),
        Check("mark jobs (AdminComment)", results[found.marks], f"{found.account}: {found.marks}"),
    ]


def _hosts(snap: Snapshot) -> list[Check]:
    states = Counter(link.state for link in snap.links.values())
    details: dict[LinkState, str] = {}
    for node, link in snap.links.items():
        details.setdefault(link.state, f"{node}: {link.detail}" if link.detail else "")
    checks = []
    for state, count in sorted(states.items()):
        fine = state in (LinkState.UP, LinkState.OFF)
        says = f"{count} of {len(snap.links)} nodes" + (f"; {details[state]}" if details[state] else "")
        checks.append(Check(f"ssh {state}", OK if fine else MISSING, says))
    return checks


def _readings(snap: Snapshot) -> list[Check]:
    checks = []
    hosts = [(name, host) for name, host in snap.hosts.items()]
    no_driver = [f"{name}: {host.driver}" for name, host in hosts if isinstance(host.driver, Unknown)]
    if no_driver:
        checks.append(Check("NVML", MISSING, f"{len(no_driver)} of {len(hosts)} nodes; {no_driver[0]}"))
    elif hosts:
        checks.append(Check("NVML", OK, f"{len(snap.gpu_table)} GPUs on {len(hosts)} nodes"))
    denied = [f"{name}: {log.source}" for name, log in snap.klogs.items() if isinstance(log.source, Unknown)]
    if denied:
        how = "join adm or systemd-journal there, or set node_prefix"
        checks.append(
            Check("kernel log", NOTE, f"unreadable on {len(denied)} of {len(snap.klogs)} nodes; {denied[0]}; {how}")
        )
    elif snap.klogs:
        checks.append(Check("kernel log", OK, f"readable on {len(snap.klogs)} nodes"))
    return checks


def _print(checks: list[Check], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(checks) + b"\n")
    else:
        for check in checks:
            print(f"{check.result:<8} {check.what:<36} {check.says}")
    sys.stdout.flush()
    return Exit.FAILED if any(check.result == MISSING for check in checks) else Exit.OK
