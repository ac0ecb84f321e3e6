"""Grid tables of many groups, counted batch by batch in memory that does not grow with the number of events."""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.scores.counting_loops import count_events
from monitor.scores.grid_table import COLUMNS, GridTable

_SLICES: Final = 1 << 14
"""Equal parts of [0, 1]: few have more than one cell's edge, so that a cell is mostly found at once."""
_BATCH: Final = 1 << 16


class GridCounts:
    """The grid tables of numbered groups: integers, the same in any order of the events and any division in batches.

    Memory is 21 kB a group and 48 bytes for each of its occupied cells.
    """

    def __init__(self) -> None:
        self._rows = np.zeros((0, grid.cell_count()), np.int32)
        self._values = np.zeros((0, COLUMNS), np.int64)
        self._used = 0

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self._rows.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self._rows.nbytes + self._values.nbytes)

    def add(self, prediction: Floats, outcome: NDArray[np.int8], group: NDArray[np.int32], groups: int) -> None:
        """Count events.

        Parameters
        ----------
        prediction
            float64, shape (n,), every value in [0, 1].
        outcome
            int8, shape (n,): 1, 0, or -1 for an event without an outcome.
        group
            int32, shape (n,), every value in [0, groups).
        groups
            Number of groups, at least as before.
        """
        cells = self._rows.shape[1]
        if groups > self.groups:
            # In place: while an array is copied, there are two of it.
            self._rows.resize((groups, cells), refcheck=False)
        for start in range(0, prediction.size, _BATCH):
            part = slice(start, start + _BATCH)
            needed = min(self._used + _BATCH, groups * cells)
            if needed > self._values.shape[0]:
                self._values.resize((needed + needed // 4, COLUMNS), refcheck=False)
            self._used = count_events(
                prediction[part],
                outcome[part],
                group[part],
                grid.edges(),
                grid.anchors(),
                _first_cells(),
                self._rows,
                self._values,
                self._used,
            )

    def table(self, *groups: int) -> GridTable:
        """The sum of the tables of these groups."""
        return GridTable.sum(self._table(group) for group in groups)

    def _table(self, group: int) -> GridTable:
        cell = np.flatnonzero(self._rows[group])
        return GridTable(cell, self._values[self._rows[group, cell] - 1])


@cache
def _first_cells() -> NDArray[np.int32]:
    """Cell of each edge of the slices, shape (slices + 1,)."""
    return grid.locate(np.arange(_SLICES + 1) / _SLICES).astype(np.int32)
