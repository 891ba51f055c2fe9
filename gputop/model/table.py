"""Columns with a reason for every value that is not there; rows are only ever added or replaced in place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from gputop.model.columns import Spec
from gputop.model.reading import CODE_OF, WHY_CODES, Unknown, Why

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.intp]


class RowId(Protocol):
    """What identifies a row."""

    @property
    def key(self) -> str: ...
    @property
    def node(self) -> str: ...


R = TypeVar("R", bound=RowId)

_NOT_READ = CODE_OF[Why.NOT_READ]


@dataclass(frozen=True, eq=False)
class Column:
    """One measured quantity over all rows; arrays are never written to after construction."""

    values: Floats
    """NaN where the value is unknown."""
    why: Codes
    """0 where the value is known, else an index into WHY_CODES."""

    def known(self) -> npt.NDArray[np.bool_]:
        """True where there is a value."""
        return np.equal(self.why, 0)

    def at(self, row: int) -> float | Unknown:
        """The reading of one row."""
        code = WHY_CODES[self.why[row]]
        return float(self.values[row]) if code is None else Unknown(code)


@dataclass(frozen=True, eq=False)
class Table(Generic[R]):
    """Rows by identity, columns by name. Immutable: every change gives a new table that shares what is unchanged."""

    specs: tuple[Spec, ...]
    ids: tuple[R, ...]
    index: Mapping[str, int]
    """Row key -> row number."""
    by_node: Mapping[str, tuple[int, ...]]
    node_of: Rows
    """Row number -> place of its node in by_node."""
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def at(self, row: int, name: str) -> float | Unknown:
        """One reading."""
        return self.columns[name].at(row)

    def rows_of(self, node: str) -> tuple[int, ...]:
        """Row numbers of one node, in the order in which they were first seen."""
        return self.by_node.get(node, ())

    def same(self, other: "Table[R]") -> bool:
        """Whether both hold the same rows and readings; NaN equals NaN."""
        return self.ids == other.ids and all(
            np.array_equal(self.columns[s.name].why, other.columns[s.name].why)
            and np.array_equal(self.columns[s.name].values, other.columns[s.name].values, equal_nan=True)
            for s in self.specs
        )

    def with_ids(self, changed: Mapping[int, R]) -> "Table[R]":
        """Replaces or appends rows by number; appended rows must be gapless and start as not read.

        What is there already is copied and not worked out anew: a large table grows by a few rows many times.
        """
        if not changed:
            return self
        ids = list(self.ids)
        index = dict(self.index)
        by_node = dict(self.by_node)
        moved = False
        new_nodes: list[int] = []
        for row in sorted(changed):
            one = changed[row]
            if row < len(ids):
                old = ids[row]
                moved = moved or old.node != one.node
                if index.get(old.key) == row:
                    del index[old.key]
                ids[row] = one
            elif row == len(ids):
                ids.append(one)
                if one.node not in by_node:
                    place = len(by_node)
                else:
                    first = by_node[one.node][0]
                    place = int(self.node_of[first]) if first < len(self.ids) else new_nodes[first - len(self.ids)]
                new_nodes.append(place)
                by_node[one.node] = (*by_node.get(one.node, ()), row)
            else:
                raise IndexError(f"row {row} leaves a gap after {len(ids)} rows")
            index[one.key] = row
        columns: Mapping[str, Column] = self.columns
        if new_nodes:
            values = np.full(len(new_nodes), np.nan)
            why = np.full(len(new_nodes), _NOT_READ, np.uint8)
            columns = {
                name: Column(np.concatenate((c.values, values)), np.concatenate((c.why, why)))
                for name, c in self.columns.items()
            }
        node_of = np.concatenate((self.node_of, np.array(new_nodes, np.intp)))
        if moved:
            by_node = _by_node(ids)
            places = {name: k for k, name in enumerate(by_node)}
            node_of = np.array([places[one.node] for one in ids], np.intp)
        return Table(specs=self.specs, ids=tuple(ids), index=index, by_node=by_node, node_of=node_of, columns=columns)

    def with_values(self, rows: Rows, values: Mapping[str, tuple[Floats, Codes]]) -> "Table[R]":
        """Sets some columns of some rows; values are rounded to each column's step, why wins over the value."""
        if not len(rows):
            return self
        columns = dict(self.columns)
        scales = {s.name: s.scale for s in self.specs}
        for name, (new, why) in values.items():
            old = columns[name]
            rounded = np.round(new * scales[name]) / scales[name]
            rounded = np.where((why == 0) & np.isfinite(rounded), rounded, np.nan)
            code = np.where((why == 0) & np.isnan(rounded), CODE_OF[Why.ERROR], why).astype(np.uint8)
            if np.array_equal(old.values[rows], rounded, equal_nan=True) and np.array_equal(old.why[rows], code):
                continue
            fresh, fresh_why = old.values.copy(), old.why.copy()
            fresh[rows], fresh_why[rows] = rounded, code
            columns[name] = Column(fresh, fresh_why)
        return replace(self, columns=columns)


def _by_node(ids: Sequence[RowId]) -> dict[str, tuple[int, ...]]:
    rows: dict[str, list[int]] = {}
    for row, one in enumerate(ids):
        rows.setdefault(one.node, []).append(row)
    return {node: tuple(numbers) for node, numbers in rows.items()}


def empty_table(specs: tuple[Spec, ...]) -> Table[R]:
    """A table with these columns and no rows."""
    none = Column(np.empty(0), np.empty(0, np.uint8))
    return Table(
        specs=specs,
        ids=(),
        index={},
        by_node={},
        node_of=np.empty(0, np.intp),
        columns={s.name: none for s in specs},
    )
