"""A frame is the difference between two snapshots, or a whole one; pure functions to make, apply and carry it.

Readings travel as integers (value times the column's scale) less their previous value, in the smallest width that
holds them, column by column over one shared list of rows: that is what compresses. The reason of an unknown reading is
one byte, sent only where one changed.
"""

from dataclasses import replace
from types import GenericAlias
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType

from gputop.model.calls import Abilities
from gputop.model.columns import GpuId, HostId, PortId
from gputop.model.errors import LogError
from gputop.model.snapshot import MAPPINGS, TABLES, About, Snapshot
from gputop.model.table import Column, Table

SCHEMA = 1
"""Rises when an old reader could no longer read what is written."""
_ROW_IDS: dict[str, Any] = {"gpu_table": GpuId, "host_table": HostId, "port_table": PortId}
_RECORDS: dict[str, Any] = {
    name: msgspec.msgpack.Decoder(GenericAlias(dict, (str, kind))) for name, kind in MAPPINGS.items()
}
_IDS: dict[str, Any] = {
    name: msgspec.msgpack.Decoder(GenericAlias(dict, (int, kind))) for name, kind in _ROW_IDS.items()
}
_ENCODER = msgspec.msgpack.Encoder()
_WIDTHS: dict[int, Any] = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}

Ints = npt.NDArray[np.int64]


class ColumnPart(Struct, frozen=True, array_like=True):
    """New readings of one column for the rows of its TablePart."""

    width: int
    """Bytes of one difference; 0 when no value changed."""
    values: bytes
    """Differences to the previous integers, little-endian."""
    why: bytes
    """New reason codes for the same rows; empty when none changed."""


class TablePart(Struct, frozen=True, array_like=True):
    """What changed in one table."""

    ids: msgspec.Raw
    """New or replaced row identities by row number."""
    rows: bytes
    """Row numbers, uint32 little-endian; empty when `everything`."""
    everything: bool
    """All rows, in order."""
    columns: dict[str, ColumnPart]


class Frame(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the stream."""

    seq: int
    time: float
    key: bool = False
    """Whole: needs nothing before it."""
    about: About | UnsetType = UNSET
    abilities: Abilities | UnsetType = UNSET
    put: dict[str, msgspec.Raw] = {}
    """Snapshot field -> changed records by key."""
    gone: dict[str, tuple[str, ...]] = {}
    """Snapshot field -> keys that are no longer there."""
    tables: dict[str, TablePart] = {}


_DECODER = msgspec.msgpack.Decoder(Frame)


def keyframe(snap: Snapshot, seq: int) -> Frame:
    """The whole snapshot."""
    return diff(None, snap, seq)


def diff(before: Snapshot | None, after: Snapshot, seq: int) -> Frame:
    """What takes a reader from before to after; from nothing when before is None."""
    base = before if before is not None else Snapshot()
    put: dict[str, msgspec.Raw] = {}
    gone: dict[str, tuple[str, ...]] = {}
    for name in MAPPINGS:
        old, new = getattr(base, name), getattr(after, name)
        if old is new:
            continue
        changed = {key: one for key, one in new.items() if (was := old.get(key)) is not one and was != one}
        if changed:
            put[name] = msgspec.Raw(_ENCODER.encode(changed))
        if missing := tuple(key for key in old if key not in new):
            gone[name] = missing
    tables = {name: part for name in TABLES if (part := _table_diff(getattr(base, name), getattr(after, name)))}
    return Frame(
        seq=seq,
        time=after.time,
        key=before is None,
        about=after.about if after.about is not None and after.about != base.about else UNSET,
        abilities=after.abilities if after.abilities is not None and after.abilities != base.abilities else UNSET,
        put=put,
        gone=gone,
        tables=tables,
    )


def apply(before: Snapshot | None, frame: Frame) -> Snapshot:
    """The snapshot after the frame; raises LogError when the frame does not fit what came before it."""
    if before is None and not frame.key:
        raise LogError(f"frame {frame.seq} needs the frames before it")
    base = before if before is not None and not frame.key else Snapshot()
    changes: dict[str, Any] = {"time": frame.time}
    try:
        for name in frame.put.keys() | frame.gone.keys():
            records = dict(getattr(base, name))
            for key in frame.gone.get(name, ()):
                records.pop(key, None)
            if name in frame.put:
                records.update(_RECORDS[name].decode(frame.put[name]))
            changes[name] = records
        for name, part in frame.tables.items():
            changes[name] = _table_apply(getattr(base, name), part, name)
    except (msgspec.MsgspecError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise LogError(f"frame {frame.seq} does not fit the frames before it: {error}") from error
    if frame.about is not UNSET:
        changes["about"] = frame.about
    if frame.abilities is not UNSET:
        changes["abilities"] = frame.abilities
    return replace(base, **changes)


def encode(frame: Frame) -> bytes:
    """msgpack."""
    return _ENCODER.encode(frame)


def decode(data: bytes | memoryview) -> Frame:
    """Raises LogError on anything that is not a frame."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise LogError(f"not a frame: {error}") from error


def _table_diff(old: Table[Any], new: Table[Any]) -> TablePart | None:
    if old is new:
        return None
    ids = {}
    if old.ids is not new.ids:
        ids = {k: one for k, one in enumerate(new.ids) if k >= len(old.ids) or old.ids[k] != one}
    touched = [spec for spec in new.specs if new.columns[spec.name] is not old.columns[spec.name]]
    was = {spec.name: _grown(old.columns[spec.name], len(new)) for spec in touched}
    changed = np.zeros(len(new), np.bool_)
    for spec in touched:
        changed |= _differs(was[spec.name], new.columns[spec.name])
    rows = np.flatnonzero(changed)
    if not ids and not len(rows):
        return None
    everything = len(rows) == len(new)
    columns: dict[str, ColumnPart] = {}
    for spec in touched:
        part = _column_diff(was[spec.name], new.columns[spec.name], rows, spec.scale)
        if part is not None:
            columns[spec.name] = part
    return TablePart(
        ids=msgspec.Raw(_ENCODER.encode(ids)),
        rows=b"" if everything else rows.astype("<u4").tobytes(),
        everything=everything,
        columns=columns,
    )


def _grown(column: Column, size: int) -> Column:
    """The column as with_ids would make it: new rows are not read."""
    extra = size - len(column.values)
    if extra <= 0:
        return column
    return Column(
        np.concatenate((column.values, np.full(extra, np.nan))),
        np.concatenate((column.why, np.ones(extra, np.uint8))),
    )


def _differs(old: Column, new: Column) -> npt.NDArray[np.bool_]:
    same = (old.values == new.values) | (np.isnan(old.values) & np.isnan(new.values))
    return np.asarray(~same | (old.why != new.why))


def _integers(column: Column, rows: npt.NDArray[np.intp], scale: float) -> Ints:
    """Readings as integers; an unknown one counts as 0, and its reason says what it is."""
    return np.where(column.why[rows] == 0, np.round(column.values[rows] * scale), 0).astype(np.int64)


def _column_diff(old: Column, new: Column, rows: npt.NDArray[np.intp], scale: float) -> ColumnPart | None:
    steps = _integers(new, rows, scale) - _integers(old, rows, scale)
    why = b"" if np.array_equal(old.why[rows], new.why[rows]) else new.why[rows].tobytes()
    if not steps.any():
        return ColumnPart(0, b"", why) if why else None
    width = _width(steps)
    return ColumnPart(width, steps.astype(_WIDTHS[width]).tobytes(), why)


def _width(steps: Ints) -> int:
    low, high = int(steps.min()), int(steps.max())
    return next(width for width in (1, 2, 4, 8) if -(1 << (8 * width - 1)) <= low and high < 1 << (8 * width - 1))


def _table_apply(old: Table[Any], part: TablePart, name: str) -> Table[Any]:
    table = old.with_ids(_IDS[name].decode(part.ids))
    size = len(table)
    rows = np.arange(size) if part.everything else np.frombuffer(part.rows, "<u4").astype(np.intp)
    if len(rows) and int(rows.max()) >= size:
        raise IndexError(f"row {int(rows.max())} of {size}")
    columns: dict[str, Column] = dict(table.columns)
    scales = {spec.name: spec.scale for spec in table.specs}
    for column, change in part.columns.items():
        if column in columns:
            columns[column] = _column_apply(columns[column], change, rows, scales[column])
    return replace(table, columns=columns)


def _column_apply(old: Column, part: ColumnPart, rows: npt.NDArray[np.intp], scale: float) -> Column:
    values, why = old.values.copy(), old.why.copy()
    numbers = _integers(old, rows, scale)
    if part.width:
        numbers = numbers + np.frombuffer(part.values, _WIDTHS[part.width]).astype(np.int64)
    if part.why:
        why[rows] = np.frombuffer(part.why, np.uint8)
    values[rows] = np.where(why[rows] == 0, numbers / scale, np.nan)
    return Column(values, why)
