"""Settled predictions of a series, step by step: what evidence is computed from."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from monitor.arrays import Ints
from monitor.scores.grid_table import COLUMNS, GridTable


class Steps(NamedTuple):
    """Consecutive spans of time with the labelled predictions of each, cell by cell."""

    end_ms: Ints
    """End of each step, int64, shape (steps,), ascending."""
    first: Ints
    """Rows of step ``t`` are ``first[t]`` to ``first[t + 1]``; int64, shape (steps + 1,)."""
    cell: Ints
    """Cell of the grid, int64, shape (rows,), ascending within a step."""
    values: Ints
    """int64, shape (rows, 6): see :class:`monitor.scores.GridTable`."""

    @classmethod
    def of(cls, tables: Iterable[tuple[int, GridTable]]) -> "Steps":
        """The steps of tables, each with its end in milliseconds."""
        parts = list(tables)
        sizes = [table.cell.size for _, table in parts]
        return cls(
            np.array([end_ms for end_ms, _ in parts], np.int64),
            np.cumsum([0, *sizes], dtype=np.int64),
            np.concatenate([np.zeros(0, np.int64), *(table.cell for _, table in parts)]),
            np.concatenate([np.zeros((0, COLUMNS), np.int64), *(table.values for _, table in parts)]),
        )

    def part(self, start: int, stop: int) -> "Steps":
        """The steps from one to another, without the latter."""
        rows = slice(self.first[start], self.first[stop])
        first = self.first[start : stop + 1] - self.first[start]
        return Steps(self.end_ms[start:stop], first, self.cell[rows], self.values[rows])

    def until(self, end_ms: int) -> "Steps":
        """The steps up to a time, and the one that ends then."""
        return self.part(0, int(np.searchsorted(self.end_ms, end_ms, side="right")))

    def after(self, end_ms: int) -> "Steps":
        """The steps that :meth:`until` leaves out."""
        return self.part(int(np.searchsorted(self.end_ms, end_ms, side="right")), self.end_ms.size)

    def tables(self) -> list[GridTable]:
        """The table of each step."""
        bounds = zip(self.first, self.first[1:], strict=False)
        return [GridTable(self.cell[start:stop], self.values[start:stop]) for start, stop in bounds]
