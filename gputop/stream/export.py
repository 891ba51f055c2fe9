"""What is in a log, and the log as NDJSON.

One JSON object a line. The first has `"format": "gputop-export/1"` and the header; each other one is a frame: `seq`,
`time`, `key`, changed records under their field names (`null` for one that is gone), and under `gpus`, `hosts` and
`ports` the readings that changed, by row: `{"node": …, "pci": …, "temp": 61, "power": {"unknown": "denied"}}`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Struct

from gputop.model.snapshot import MAPPINGS, Snapshot
from gputop.model.table import Table
from gputop.stream.document import reading
from gputop.stream.frames import Frame, TablePart, apply
from gputop.stream.log_reader import SessionReader

FORMAT = "gputop-export/1"
_NAMES = {"gpu_table": "gpus", "host_table": "hosts", "port_table": "ports"}


class LogInfo(Struct, frozen=True, kw_only=True):
    """A log at a glance."""

    path: str
    cluster: str
    version: str
    schema: int
    started: float
    first: float
    last: float
    blocks: int
    keyframes: int
    frames: int
    bytes: int
    raw_bytes: int
    nodes: int
    gpus: int
    complete: bool
    """Closed with an index; false for one that is still written, or was cut."""
    trouble: str


def info(path: Path) -> LogInfo:
    """Reads the index and the state at the end."""
    reader = SessionReader(path)
    snap = reader.snapshot_at(reader.end)
    return LogInfo(
        path=str(path),
        cluster=reader.header.cluster,
        version=reader.header.version,
        schema=reader.header.schema,
        started=reader.header.started,
        first=reader.start,
        last=reader.end,
        blocks=len(reader.blocks),
        keyframes=sum(block.key for block in reader.blocks),
        frames=sum(block.frames for block in reader.blocks),
        bytes=reader.size,
        raw_bytes=sum(block.raw for block in reader.blocks),
        nodes=len(snap.nodes),
        gpus=len(snap.gpu_table),
        complete=reader.complete,
        trouble=reader.trouble,
    )


def export(path: Path) -> Iterator[bytes]:
    """The lines, each with its newline."""
    reader = SessionReader(path)
    yield _line({"format": FORMAT, "header": msgspec.to_builtins(reader.header)})
    snap: Snapshot | None = None
    for frame in reader.frames():
        snap = apply(snap, frame)
        yield _line(_frame(frame, snap))
    if reader.trouble:
        yield _line({"trouble": reader.trouble})


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _frame(frame: Frame, snap: Snapshot) -> dict[str, Any]:
    line: dict[str, Any] = {"seq": frame.seq, "time": frame.time, "key": frame.key}
    if frame.about is not UNSET:
        line["about"] = msgspec.to_builtins(frame.about)
    if frame.abilities is not UNSET:
        line["abilities"] = msgspec.to_builtins(frame.abilities)
    for name in MAPPINGS:
        changed: dict[str, Any] = dict.fromkeys(frame.gone.get(name, ()))
        if name in frame.put:
            keys = msgspec.msgpack.decode(frame.put[name], type=dict[str, Any])
            changed.update({key: _finite(msgspec.to_builtins(getattr(snap, name)[key])) for key in keys})
        if changed:
            line[name] = changed
    for name, part in frame.tables.items():
        line[_NAMES[name]] = _rows(getattr(snap, name), part)
    return line


def _rows(table: Table[Any], part: TablePart) -> list[dict[str, Any]]:
    rows = range(len(table)) if part.everything else np.frombuffer(part.rows, "<u4").tolist()
    named = msgspec.msgpack.decode(part.ids, type=dict[int, Any])
    lines = []
    for row in sorted({*rows, *named}):
        identity = msgspec.to_builtins(table.ids[row])
        lines.append({**identity, **{name: reading(table.at(row, name)) for name in part.columns}})
    return lines


def _finite(value: Any) -> Any:
    """JSON has no infinity: no limit is said in a word."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return "unlimited" if value == float("inf") else value
