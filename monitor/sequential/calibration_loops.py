"""Loops of the bets against calibration."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

_BUMPS = 2


@njit()
def sum_bets(first: Ints, cell: Ints, values: Ints, common: Floats, centred: Floats, starts: Ints) -> Floats:
    """Sum the logarithms of bets on the rows of each step.

    Parameters
    ----------
    first
        int64, shape (steps + 1,): the rows of step ``t`` are ``first[t]`` to ``first[t + 1]``.
    cell, values
        int64, shape (rows,) and (rows, 6): see :class:`monitor.scores.GridTable`.
    common
        float64, shape (cells, 4, a): lines of a - 2 alternatives that all models share, and of the two bumps.
    centred
        float64, shape (cells, 4, b): lines of slopes about the model's centre.
    starts
        int64, shape (7,), ascending: the cells in which the regions of bumps after the first begin.

    Returns
    -------
    float64, shape (steps, a - 2 + b + 16)
    """
    steps, shared, own = first.shape[0] - 1, common.shape[2] - _BUMPS, centred.shape[2]
    regions = starts.shape[0] + 1
    result = np.zeros((steps, shared + own + _BUMPS * regions))
    for step in range(steps):
        region = 0
        for row in range(first[step], first[step + 1]):
            at = cell[row]
            while region < regions - 1 and starts[region] <= at:
                region += 1
            bump = shared + own + _BUMPS * region
            for label in range(2):
                count, above = float(values[row, label]), float(values[row, label + 3])
                if count == 0.0:
                    continue
                for k in range(shared):
                    result[step, k] += count * common[at, 2 * label, k] + above * common[at, 2 * label + 1, k]
                for k in range(own):
                    result[step, shared + k] += (
                        count * centred[at, 2 * label, k] + above * centred[at, 2 * label + 1, k]
                    )
                for k in range(_BUMPS):
                    result[step, bump + k] += (
                        count * common[at, 2 * label, shared + k] + above * common[at, 2 * label + 1, shared + k]
                    )
    return result
