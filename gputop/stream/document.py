"""A snapshot as one documented JSON object: what `gputop snapshot --json` prints.

Format gputop-snapshot/1. Times are epoch seconds, ages are seconds. A reading is its value, or
`{"unknown": REASON}` with `detail` where the source said more, and with `last` where a value is known
but older than two periods of its source. New keys may be added; none changes its meaning.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gputop.model.calls import Abilities
from gputop.model.columns import Spec
from gputop.model.hosts import Host, KernelLog, Link
from gputop.model.jobs import Job
from gputop.model.nodes import Node
from gputop.model.reading import Unknown, Why
from gputop.model.snapshot import Snapshot, Source
from gputop.model.table import Table

FORMAT = "gputop-snapshot/1"

Json = dict[str, Any]


def document(snap: Snapshot, now: float) -> Json:
    """The whole snapshot, with ages as of `now`."""
    on_node: dict[str, list[str]] = {}
    for job in snap.jobs.values():
        if job.running or job.completing:
            for name in job.nodes:
                on_node.setdefault(name, []).append(job.id)
    return {
        "format": FORMAT,
        "time": now,
        "cluster": snap.about.cluster if snap.about else "",
        "adapter": snap.about.adapter if snap.about else "",
        "abilities": _abilities(snap.abilities),
        "sources": {name: _source(one, now) for name, one in sorted(snap.sources.items())},
        "nodes": [_node(snap, snap.nodes[name], on_node.get(name, []), now) for name in sorted(snap.nodes)],
        "jobs": [_job(job) for job in snap.jobs.values()],
        "partitions": [msgspec.to_builtins(one) for one in snap.partitions.values()],
        "reservations": [_plain(one) for one in snap.reservations.values()],
        "switches": [msgspec.to_builtins(one) for one in snap.switches.values()],
        "actions": [_plain(one) for one in snap.actions.values()],
        "findings": [{**_plain(one), "severity": one.severity.name.lower()} for one in snap.findings.values()],
        "blinds": [_plain(one) for one in snap.blinds.values()],
    }


def _abilities(abilities: Abilities | None) -> Any:
    return {"unknown": str(Why.NOT_READ)} if abilities is None else msgspec.to_builtins(abilities)


def _source(source: Source, now: float) -> Json:
    return {
        "read_at": reading(source.read_at),
        "age": reading(source.read_at if isinstance(source.read_at, Unknown) else round(now - source.read_at, 1)),
        "period": source.period,
        "stale": source.stale(now),
        "trouble": source.trouble,
    }


def _node(snap: Snapshot, node: Node, jobs: list[str], now: float) -> Json:
    name, period = node.name, snap.sources["probe"].period
    host_row = snap.host_table.index.get(name, -1)
    sampled = _age(snap, host_row, "sampled_at", now)
    read = _age(snap, host_row, "gpus_read_at", now)
    rows = snap.gpu_table.rows_of(name)
    return {
        "name": name,
        "slurm": {
            "base": node.state.base,
            "flags": sorted(node.state.flags),
            "reason": None
            if node.reason is None
            else {
                "text": node.reason.text,
                "owner": node.reason.owner,
                "at": reading(node.reason.at),
                "ours": node.reason.ours,
            },
            "partitions": list(node.partitions),
            "gpus": node.gpus,
            "gpu_type": node.gpu_type,
            "gpus_allocated": reading(node.gpus_allocated),
            "boot_time": reading(node.boot_time),
            "switch": node.switch,
            "version": node.version,
        },
        "ssh": _link(snap.links.get(name)),
        "host": _host(snap, snap.hosts.get(name), host_row, sampled, 2 * period),
        "kernel_log": _kernel_log(snap.klogs.get(name)),
        "gpus": [_gpu(snap, row, read, 2 * period) for row in rows],
        "gpus_unread": max(0, node.gpus - len(rows)),
        "ports": [_row(snap.port_table, row, sampled, 2 * period) for row in snap.port_table.rows_of(name)],
        "processes": _processes(snap, name),
        "jobs": jobs,
    }


def _age(snap: Snapshot, row: int, column: str, now: float) -> float | Unknown:
    if row < 0:
        return Unknown(Why.NOT_READ)
    at = snap.host_table.at(row, column)
    return at if isinstance(at, Unknown) else round(now - at, 1)


def _link(link: Link | None) -> Json:
    return {"state": "waiting", "detail": "not tried yet"} if link is None else msgspec.to_builtins(link)


def _host(snap: Snapshot, host: Host | None, row: int, age: float | Unknown, limit: float) -> Json:
    facts: Json = {}
    if host is not None:
        facts = {
            "hostname": host.hostname,
            "user": host.user,
            "kernel": host.kernel,
            "boot_id": reading(host.boot_id),
            "boot_time": reading(host.boot_time),
            "driver": reading(host.driver),
            "cuda": reading(host.cuda),
            "driver_hung_since": host.hang.since if host.hang else None,
        }
    facts["age"] = reading(age)
    facts["readings"] = _readings(snap.host_table, row, age, limit) if row >= 0 else {}
    return facts


def _kernel_log(log: KernelLog | None) -> Json:
    if log is None:
        return {"source": {"unknown": str(Why.NOT_READ)}, "lines": []}
    return {
        "source": reading(log.source),
        "lines": [{"at": reading(line.at), "text": line.text} for line in log.lines],
        "dropped": log.dropped,
    }


def _gpu(snap: Snapshot, row: int, age: float | Unknown, limit: float) -> Json:
    one = snap.gpu_table.ids[row]
    seen = one.index >= 0
    return {
        "index": one.index if seen else {"unknown": str(Why.LOST)},
        "uuid": one.uuid if one.uuid else {"unknown": str(Why.NOT_READ if seen else Why.LOST)},
        "pci": one.pci if one.pci else {"unknown": str(Why.NOT_READ if seen else Why.LOST)},
        "name": one.name,
        "serial": one.serial,
        "vbios": one.vbios,
        "lost": snap.gpu_table.at(row, "present") == 0,
        "age": reading(age),
        "readings": _readings(snap.gpu_table, row, age, limit),
    }


def _row(table: Table[Any], row: int, age: float | Unknown, limit: float) -> Json:
    identity: Json = msgspec.to_builtins(table.ids[row])
    return {**identity, "readings": _readings(table, row, age, limit)}


def _readings(table: Table[Any], row: int, age: float | Unknown, limit: float) -> Json:
    stale = isinstance(age, Unknown) or age > limit
    return {spec.name: _cell(table, row, spec, stale=stale) for spec in table.specs}


def _cell(table: Table[Any], row: int, spec: Spec, *, stale: bool) -> Any:
    value = table.at(row, spec.name)
    if isinstance(value, Unknown):
        return reading(value)
    number: float | int = int(value) if value == int(value) else value
    if stale and spec.unit != "s":
        return {"unknown": str(Why.STALE), "last": number}
    return number


def _processes(snap: Snapshot, name: str) -> Any:
    found = snap.processes.get(name)
    if found is None:
        return {"unknown": str(Why.NOT_READ)}
    if isinstance(found.items, Unknown):
        return reading(found.items)
    return {"read_at": found.read_at, "items": [_plain(item) for item in found.items]}


def _job(job: Job) -> Json:
    facts = _plain(job)
    facts["state"] = {"base": job.state.base, "flags": sorted(job.state.flags)}
    return facts


def reading(value: Any) -> Any:
    """A value as it is, or why there is none."""
    if isinstance(value, Unknown):
        return {"unknown": str(value.why), "detail": value.detail} if value.detail else {"unknown": str(value.why)}
    if value == float("inf"):
        return "unlimited"
    return value


def _plain(record: msgspec.Struct) -> Json:
    """A record field by field, its readings by the rule of this format."""
    return {field.name: _value(getattr(record, field.name)) for field in msgspec.structs.fields(type(record))}


def _value(value: Any) -> Any:
    if isinstance(value, Unknown | float):
        return reading(value)
    if isinstance(value, msgspec.Struct):
        return _plain(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return value


def table_text(snap: Snapshot, now: float) -> Iterable[str]:
    """The same for a person: a line a source, then a line a node."""
    for name, source in sorted(snap.sources.items()):
        age = "never read" if isinstance(source.read_at, Unknown) else f"{now - source.read_at:.0f} s old"
        yield f"{name}: {age}{' STALE' if source.stale(now) else ''}{'; ' + source.trouble if source.trouble else ''}"
    yield f"{'NODE':<16} {'SLURM':<24} {'SSH':<16} {'GPUS':<12} REASON"
    for name in sorted(snap.nodes):
        node = snap.nodes[name]
        link = snap.links.get(name)
        yield (
            f"{name:<16} {node.state!s:<24} {str(link.state) if link else 'waiting':<16} "
            f"{gpu_summary(snap, node):<12} {node.reason.text if node.reason else ''}"
        ).rstrip()


def gpu_summary(snap: Snapshot, node: Node) -> str:
    """'8 of 8', '7 of 8', or '? of 8' where nobody has read them."""
    rows = snap.gpu_table.rows_of(node.name)
    if not rows:
        return f"? of {node.gpus}"
    present = sum(snap.gpu_table.at(row, "present") == 1 for row in rows)
    return f"{present} of {max(node.gpus, len(rows))}"
