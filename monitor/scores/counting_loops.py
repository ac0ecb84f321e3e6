"""Count events into the cells of the grid, group by group."""

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.loops import njit
from monitor.scores.grid import UNITS


@njit()
def count_events(
    prediction: Floats,
    outcome: NDArray[np.int8],
    group: NDArray[np.int32],
    edges: Floats,
    anchors: Ints,
    first_cell: NDArray[np.int32],
    rows: NDArray[np.int32],
    values: Ints,
    used: int,
) -> int:
    """Add events to ``values``, and return the number of its rows in use.

    Parameters
    ----------
    prediction
        float64, shape (n,), every value in [0, 1].
    outcome
        int8, shape (n,): 1, 0, or -1 for an event without an outcome.
    group
        int32, shape (n,).
    edges, anchors
        Of the grid, shape (cells,).
    first_cell
        int32, shape (B + 1,): cell of the prediction b / B.
    rows
        int32, shape (groups, cells): one more than the row of ``values`` for a cell of a group, 0 if it has none;
        filled in.
    values
        int64, shape (m, 6), m at least ``used`` + n: the columns of a grid table; added to.
    used
        Rows of ``values`` in use.
    """
    slices = first_cell.shape[0] - 1
    for i in range(prediction.shape[0]):
        p = prediction[i]
        at = min(int(p * slices), slices - 1)
        low, high = first_cell[at], first_cell[at + 1] + 1
        # The last cell that begins at or below p.
        while high - low > 1:
            middle = (low + high) >> 1
            if edges[middle] <= p:
                low = middle
            else:
                high = middle
        row = rows[group[i], low] - 1
        if row < 0:
            row = used
            used += 1
            rows[group[i], low] = used
        column = 2 if outcome[i] < 0 else 1 - outcome[i]
        values[row, column] += 1
        values[row, column + 3] += np.int64(np.rint(p * UNITS)) - anchors[low]
    return used
