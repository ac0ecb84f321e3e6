"""The loop that counts labelled predictions by step and cell."""

import numpy as np

from monitor.arrays import Ints
from monitor.loops import njit

LABELS = 3


@njit()
def count_events(bounds: Ints, cell: Ints, label: Ints, above: Ints, cells: int) -> tuple[Ints, Ints, Ints]:
    """Count labelled predictions.

    Parameters
    ----------
    bounds
        int64, shape (steps + 1,): predictions of step ``t`` are ``bounds[t]`` to ``bounds[t + 1]``.
    cell, label, above
        int64, shape (n,): of each prediction; ``above`` is what it adds to the sum of its cell.
    cells
        Number of cells of the grid.

    Returns
    -------
    tuple
        ``first``, ``cell`` and ``values`` of :class:`monitor.scores.steps.Steps`.
    """
    steps = bounds.shape[0] - 1
    first = np.zeros(steps + 1, np.int64)
    of_row = np.empty(cell.shape[0], np.int64)
    values = np.zeros((cell.shape[0], 2 * LABELS), np.int64)
    row_of = np.full(cells, -1, np.int64)
    rows = 0
    for step in range(steps):
        begin = rows
        for event in range(bounds[step], bounds[step + 1]):
            if row_of[cell[event]] < begin:
                row_of[cell[event]] = rows
                of_row[rows] = cell[event]
                rows += 1
        of_row[begin:rows].sort()
        for row in range(begin, rows):
            row_of[of_row[row]] = row
        for event in range(bounds[step], bounds[step + 1]):
            row = row_of[cell[event]]
            values[row, label[event]] += 1
            values[row, label[event] + LABELS] += above[event]
        first[step + 1] = rows
    return first, of_row[:rows].copy(), values[:rows].copy()
