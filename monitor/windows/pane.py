"""One pane of a model: the counts and sums of all its series, compressed."""

from typing import Final

import numpy as np
import pyarrow as pa

from monitor.arrays import Ints
from monitor.scores.grid_table import COLUMNS, POSITIVE_SUM
from monitor.store.closing import Cells

_LZ4: Final = pa.Codec("lz4")

_MAX_PARTS: Final = 64
"""Number of parts that are summed to one, so that a wide pane does not grow with every closing of a narrow one."""


class Pane:
    """What partitions have closed in one pane, in a fifth to a ninth of the memory of :class:`Cells`.

    Parameters
    ----------
    start_ms
        When the pane starts.
    """

    __slots__ = ("_counts", "_parts", "_start_ms")

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._parts: list[tuple[int, bytes]] = []
        """Rows, and what :func:`_compress` makes of them."""
        self._counts: Ints | None = None
        """Number of each series, and its counts: int64, shape (series, 4)."""

    def add(self, cells: Cells) -> None:
        """Add rows, ascending by series and cell."""
        self._parts.append((cells.series.size, _compress(cells)))
        self._counts = None
        if len(self._parts) >= _MAX_PARTS:
            self.cells()

    def cells(self) -> Cells:
        """The rows of all series, ascending by series and cell."""
        parts = [_decompress(*part, self._start_ms) for part in self._parts]
        if len(parts) == 1:
            return parts[0]
        total = Cells.joined(parts).summed()
        self._parts = [(total.series.size, _compress(total))]
        return total

    def series(self) -> Ints:
        """The series that it has, ascending."""
        return self._counted()[:, 0]

    def counts(self, series: int) -> Ints:
        """Positives, negatives and unanswered predictions of a series, int64, shape (3,)."""
        counts = self._counted()
        return np.asarray(counts[counts[:, 0] == series, 1:].sum(axis=0))

    def _counted(self) -> Ints:
        if self._counts is None:
            cells = self.cells()
            first = np.flatnonzero(np.diff(cells.series, prepend=-1))
            totals = np.add.reduceat(cells.values[:, :POSITIVE_SUM], first, axis=0)
            self._counts = np.column_stack((cells.series[first], totals))
        return self._counts


def _compress(cells: Cells) -> bytes:
    rows = np.column_stack((cells.series, cells.cell, cells.values))
    rows[1:, :2] -= rows[:-1, :2].copy()
    # All first bytes, all second ones and so on: most are zero.
    return bytes(_LZ4.compress(np.ascontiguousarray(rows.view(np.uint8).T), asbytes=True))


def _decompress(rows: int, data: bytes, start_ms: int) -> Cells:
    size = rows * (2 + COLUMNS) * 8
    transposed = np.frombuffer(_LZ4.decompress(data, size, asbytes=True), np.uint8).reshape(-1, rows)
    columns = np.ascontiguousarray(transposed.T).view(np.int64)
    series, cell = np.cumsum(columns[:, :2], axis=0).T
    return Cells(series, np.full(rows, start_ms), cell, columns[:, 2:])
