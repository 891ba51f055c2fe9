"""What the probes said, folded into the state; pure, and in batches, since columns are copied once a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

import msgspec

from gputop.engine.cells import Batch
from gputop.engine.state import State
from gputop.model.columns import GPU, HOST, PORT, GpuId, HostId, PortId
from gputop.model.facts import Fact, LinkChanged
from gputop.model.hosts import (
    KEEP_LINES,
    DriverHang,
    GpuProcess,
    Host,
    KernelLine,
    KernelLog,
    Link,
    LinkState,
    ProcessList,
)
from gputop.model.reading import CODE_OF, Reading, Unknown, Why
from gputop.model.sample import Cell, Driver, Hello, KernelLines, ProcessRow, Sample
from gputop.model.snapshot import Snapshot
from gputop.model.table import Table
from gputop.model.text import clean

_WHYS: dict[str, Why] = {"~" + why.replace(" ", "_"): why for why in CODE_OF}
_OURS = ("sampled_at", "clock_skew", "expected_gpus", "gpus_read_at")
"""Host columns that no probe sends."""
_GPU_NAMES = tuple(spec.name for spec in GPU)
_HOST_NAMES = tuple(spec.name for spec in HOST)
_PORT_NAMES = tuple(spec.name for spec in PORT)


def fold_facts(state: State, facts: Sequence[Fact]) -> State:
    """Links, slow facts and kernel lines in order; of several samples of one node the last one counts."""
    hellos, snap = dict(state.hellos), state.snap
    links, hosts, klogs = dict(snap.links), dict(snap.hosts), dict(snap.klogs)
    processes, nodes = dict(snap.processes), dict(snap.nodes)
    samples: dict[str, tuple[Sample, float]] = {}
    passes: dict[str, tuple[Sample, float]] = {}
    newest = snap.sources["probe"].read_at
    for fact in facts:
        if isinstance(fact, LinkChanged):
            links[fact.node] = msgspec.structs.replace(fact.link, detail=clean(fact.link.detail, 300))
            continue
        name, message = fact.node, fact.message
        match message:
            case Hello():
                hellos[name] = message
                hosts[name] = host = _host(message, hosts.get(name))
                if name in nodes and not isinstance(host.boot_time, Unknown):
                    nodes[name] = msgspec.structs.replace(nodes[name], boot_time=host.boot_time)
            case Driver():
                if name in hosts:
                    hosts[name] = _with_driver(hosts[name], message)
            case KernelLines():
                klogs[name] = _with_lines(klogs.get(name), message)
            case Sample():
                if name not in hellos:
                    continue
                samples[name] = (message, fact.offset)
                if message.gpus is not None:
                    passes[name] = (message, fact.offset)
                hosts[name] = _with_hang(hosts[name], message, fact.offset)
                if message.processes is not None:
                    processes[name] = _processes(message.processes, message.mono + fact.offset)
                if isinstance(newest, Unknown) or fact.at > newest:
                    newest = fact.at
            case _:
                assert_never(message)
    source = msgspec.structs.replace(snap.sources["probe"], read_at=newest, trouble=_trouble(links))
    snap = replace(
        snap,
        links=links,
        hosts=hosts,
        klogs=klogs,
        processes=processes,
        nodes=nodes,
        sources={**snap.sources, "probe": source},
        gpu_table=_fold_gpus(snap, hellos, passes),
        port_table=_fold_ports(snap.port_table, hellos, samples),
    )
    snap = replace(snap, host_table=_fold_hosts(snap, hellos, samples, passes))
    return replace(state, snap=snap, hellos=hellos)


def _trouble(links: Mapping[str, Link]) -> str:
    quiet = (LinkState.UP, LinkState.OFF)
    missing = sum(link.state not in quiet for link in links.values())
    return f"{missing} of {len(links)} hosts not read" if missing else ""


def _host(hello: Hello, old: Host | None) -> Host:
    same_boot = old is not None and hello.boot_id is not None and old.boot_id == hello.boot_id
    return Host(
        hostname=clean(hello.hostname, 64),
        boot_id=Unknown(Why.NOT_READ) if hello.boot_id is None else clean(hello.boot_id, 64),
        boot_time=Unknown(Why.NOT_READ) if hello.boot_time is None else float(hello.boot_time),
        kernel=clean(hello.kernel, 100),
        python=clean(hello.python, 20),
        user=clean(hello.user, 64),
        driver=old.driver if old is not None and same_boot else Unknown(Why.NOT_READ),
        cuda=old.cuda if old is not None and same_boot else Unknown(Why.NOT_READ),
        nvml=old.nvml if old is not None and same_boot else Unknown(Why.NOT_READ),
        hang=old.hang if old is not None and same_boot else None,
    )


def _with_driver(host: Host, driver: Driver) -> Host:
    detail = clean(driver.detail, 200)
    return msgspec.structs.replace(
        host,
        driver=_text(driver.driver, detail),
        cuda=_text(driver.cuda, ""),
        nvml=_text(driver.nvml, ""),
    )


def _text(cell: Cell, detail: str) -> Reading[str]:
    if cell is None:
        return Unknown(Why.NOT_READ, detail)
    if isinstance(cell, str) and cell.startswith("~"):
        return Unknown(_WHYS.get(cell, Why.ERROR), detail)
    return clean(str(cell), 64)


def _with_hang(host: Host, sample: Sample, offset: float) -> Host:
    hang = None
    if sample.hung_since is not None:
        since = round(sample.hung_since + offset)
        hang = host.hang if host.hang is not None and abs(host.hang.since - since) <= 2 else DriverHang(float(since))
    return host if hang == host.hang else msgspec.structs.replace(host, hang=hang)


def _with_lines(old: KernelLog | None, new: KernelLines) -> KernelLog:
    if new.why:
        return KernelLog(source=Unknown(_WHYS.get(new.why, Why.ERROR), clean(new.detail, 200)))
    lines = tuple(
        KernelLine(Unknown(Why.NOT_READ) if at is None else float(at), clean(text, 500)) for at, text in new.lines
    )
    before = () if old is None or new.reset else old.lines
    dropped = new.dropped + (0 if old is None or new.reset else old.dropped)
    return KernelLog(source=clean(new.source, 40), lines=(*before, *lines)[-KEEP_LINES:], dropped=dropped)


def _processes(rows: tuple[ProcessRow, ...] | str, at: float) -> ProcessList:
    if isinstance(rows, str):
        return ProcessList(read_at=at, items=Unknown(_WHYS.get(rows, Why.ERROR)))
    return ProcessList(
        read_at=at,
        items=tuple(
            GpuProcess(clean(r.gpu, 80), r.pid, clean(r.name, 64), clean(r.user, 64), _number(r.memory_mib))
            for r in rows
        ),
    )


def _number(cell: Cell) -> Reading[float]:
    if cell is None:
        return Unknown(Why.NOT_READ)
    if isinstance(cell, str):
        return Unknown(_WHYS.get(cell, Why.ERROR))
    return float(cell)


def _fold_gpus(snap: Snapshot, hellos: Mapping[str, Hello], passes: Mapping[str, tuple[Sample, float]]) -> Table[GpuId]:
    table = snap.gpu_table
    ids: dict[int, GpuId] = {}
    end = len(table)
    batch = Batch(_GPU_NAMES)
    for name, (sample, _) in passes.items():
        rows = sample.gpus or ()
        seen: set[int] = set()
        named = [_gpu_id(name, g.index, g.uuid, g.pci, g.name, g.serial, g.vbios) for g in rows]
        keys = {key for _, key in named}
        known = table.rows_of(name)
        free = [row for row in known if not table.ids[row].pci and table.ids[row].key not in keys]
        for gpu, (one, key) in zip(rows, named, strict=True):
            row = table.index.get(key, -1)
            if row < 0 and free:
                row = free.pop(0)
            elif row < 0:
                row, end = end, end + 1
            if row >= len(table) or table.ids[row] != one:
                ids[row] = one
            seen.add(row)
            batch.add(row, hellos[name].gpu_columns, gpu.cells)
        for row in known:
            if row not in seen:
                batch.lost(row)
        known_rows = len(seen.union(known))
        node = snap.nodes.get(name)
        for missing in range(known_rows, node.gpus if node is not None else 0):
            ids[end] = GpuId(node=name, index=-1 - missing)
            batch.lost(end)
            end += 1
    return batch.into(table.with_ids(ids))


@lru_cache(maxsize=65_536)
def _gpu_id(node: str, index: int, uuid: str, pci: str, name: str, serial: str, vbios: str) -> tuple[GpuId, str]:
    """The cleaned identity and its key; every sample names its GPUs anew, and they seldom change."""
    one = GpuId(
        node=node,
        index=index,
        uuid=clean(uuid, 80),
        pci=clean(pci, 20).lower(),
        name=clean(name, 80),
        serial=clean(serial, 40),
        vbios=clean(vbios, 40),
    )
    return one, one.key


def _fold_ports(
    table: Table[PortId], hellos: Mapping[str, Hello], samples: Mapping[str, tuple[Sample, float]]
) -> Table[PortId]:
    ids: dict[int, PortId] = {}
    end = len(table)
    batch = Batch(_PORT_NAMES)
    for name, (sample, _) in samples.items():
        for port in sample.ports or ():
            one, key = _port_id(name, port.device, port.port, port.link_layer, port.netdev)
            row = table.index.get(key, -1)
            if row < 0:
                row, end = end, end + 1
            if row >= len(table) or table.ids[row] != one:
                ids[row] = one
            batch.add(row, hellos[name].port_columns, port.cells)
    return batch.into(table.with_ids(ids))


@lru_cache(maxsize=65_536)
def _port_id(node: str, device: str, port: int, link_layer: str, netdev: str) -> tuple[PortId, str]:
    one = PortId(
        node=node,
        device=clean(device, 40),
        port=port,
        link_layer=clean(link_layer, 20),
        netdev=clean(netdev, 20),
    )
    return one, one.key


def _fold_hosts(
    snap: Snapshot,
    hellos: Mapping[str, Hello],
    samples: Mapping[str, tuple[Sample, float]],
    passes: Mapping[str, tuple[Sample, float]],
) -> Table[HostId]:
    table = snap.host_table
    ids = {
        len(table) + k: HostId(node=name) for k, name in enumerate(name for name in samples if name not in table.index)
    }
    index = {**table.index, **{one.node: row for row, one in ids.items()}}
    table = table.with_ids(ids)
    batch = Batch(_HOST_NAMES)
    for name, (sample, offset) in samples.items():
        row = index[name]
        sampled_at = sample.mono + offset
        read = passes.get(name)
        read_at: Cell = None
        if read is not None:
            done = read[0].gpus_mono if read[0].gpus_mono is not None else read[0].mono
            read_at = done + read[1]
        elif isinstance(before := table.at(row, "gpus_read_at"), float):
            read_at = before
        expected = float(len(snap.gpu_table.rows_of(name)))
        ours = (sampled_at, sample.wall - sampled_at, expected, read_at)
        batch.add(row, (*_OURS, *hellos[name].host_columns), (*ours, *sample.host))
    return batch.into(table)
