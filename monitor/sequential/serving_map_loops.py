"""Loops of the bets that a map does harm."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit


@njit()
def sum_losses(first: Ints, cell: Ints, values: Ints, line: Floats, most: Floats) -> Floats:
    """Sum what a map loses on the events of each step.

    Parameters
    ----------
    first, cell, values
        See :class:`monitor.scores.steps.Steps`.
    line
        float64, shape (cells, 2, 2): of a positive and of a negative outcome, the least that the map loses, and how
        much more per unit of the prediction above the cell's anchor.
    most
        float64, shape (cells, 2): the most that it loses or gains.

    Returns
    -------
    float64, shape (steps, 3)
        The sum; an upper bound of the sum of squares; and the most that an event may gain, whatever its outcome.
    """
    result = np.zeros((first.shape[0] - 1, 3))
    for step in range(first.shape[0] - 1):
        for row in range(first[step], first[step + 1]):
            at = cell[row]
            if values[row, 0] + values[row, 1] > 0:
                result[step, 2] = max(result[step, 2], most[at, 0], most[at, 1])
            for label in range(2):
                count, above = float(values[row, label]), float(values[row, label + 3])
                result[step, 0] += count * line[at, label, 0] + above * line[at, label, 1]
                result[step, 1] += count * most[at, label] ** 2
    return result
