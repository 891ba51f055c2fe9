"""Cells of samples, gathered row by row and turned into columns at once; pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from gputop.model.reading import CODE_OF, Why
from gputop.model.sample import Cell
from gputop.model.table import Codes, Floats, RowId, Table

R = TypeVar("R", bound=RowId)
_CODES: dict[str, int] = {"~" + why.replace(" ", "_"): code for why, code in CODE_OF.items()}
_NOT_READ = CODE_OF[Why.NOT_READ]
_ERROR = CODE_OF[Why.ERROR]


class Batch:
    """Rows of one table; each has the columns of its own probe, in that probe's order."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._rows: dict[tuple[str, ...], list[int]] = {}
        self._cells: dict[tuple[str, ...], list[Sequence[Cell]]] = {}
        self._lost_cells: list[Cell] = [0.0 if name == "present" else "~lost" for name in names]

    def add(self, row: int, columns: tuple[str, ...], cells: Sequence[Cell]) -> None:
        """One row: columns that are not among ours are left out, ours that are missing were not read."""
        self._rows.setdefault(columns, []).append(row)
        self._cells.setdefault(columns, []).append(cells)

    def lost(self, row: int) -> None:
        """A GPU that the driver no longer lists."""
        self.add(row, self._names, self._lost_cells)

    def into(self, table: Table[R]) -> Table[R]:
        """The table with these rows set."""
        for columns, rows in self._rows.items():
            values, why = matrix(self._cells[columns], len(columns))
            found: dict[str, tuple[Floats, Codes]] = {}
            for name, at in zip(self._names, _places(columns, self._names), strict=True):
                if at is None:
                    found[name] = (np.full(len(rows), np.nan), np.full(len(rows), _NOT_READ, np.uint8))
                else:
                    found[name] = (values[:, at], why[:, at])
            table = table.with_values(np.asarray(rows, np.intp), found)
        return table


@lru_cache(maxsize=64)
def _places(columns: tuple[str, ...], names: tuple[str, ...]) -> tuple[int | None, ...]:
    """Where each of our columns is among a probe's; of a name that comes twice, the first."""
    at = {name: len(columns) - 1 - k for k, name in enumerate(reversed(columns))}
    return tuple(at.get(name) for name in names)


def matrix(rows: Sequence[Sequence[Cell]], width: int) -> tuple[Floats, Codes]:
    """(values, codes of reasons) of rows of so many cells; a short row was not read to its end."""
    odd = [k for k, row in enumerate(rows) if len(row) != width or str in map(type, row)]
    values: Floats
    if odd:
        nothing = (None,) * width
        apart = frozenset(odd)
        values = np.array([nothing if k in apart else row for k, row in enumerate(rows)], np.float64)
    else:
        values = np.array(rows, np.float64)  # None becomes nan
    why: Codes = np.where(np.isnan(values), _NOT_READ, 0).astype(np.uint8)
    for k in odd:
        for at, cell in enumerate(rows[k][:width]):
            if isinstance(cell, str):
                why[k, at] = _CODES.get(cell, _ERROR)
            elif cell is not None:
                values[k, at], why[k, at] = cell, 0
    return values, why
