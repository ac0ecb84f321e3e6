"""Loops of the bets that learn."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit


@njit()
def bet_and_learn(
    first: Ints,
    cell: Ints,
    values: Ints,
    anchors: Floats,
    unit: float,
    region: Ints,
    lines: Floats,
    half_lives: Floats,
    edges: Floats,
    weight: float,
    learn: bool,
    sums: Floats,
) -> Floats:
    """Sum the logarithms of bets on the rows of each step, and learn from the step afterwards.

    Parameters
    ----------
    first, cell, values
        See :class:`monitor.scores.steps.Steps`.
    anchors, unit
        A prediction is an anchor of its cell and so many units; float64, shape (cells,).
    region
        int64, shape (cells,): the region of each cell.
    lines
        float64, shape (cells, 2, shifts, 2): for positives and negatives, lines of the shifts to choose from, each a
        constant and a slope. The middle one of the shifts is 0.
    half_lives
        float64, shape (alternatives,): the information, the sum of p (1 - p), in which what was learnt loses half of
        its weight.
    edges
        float64, shape (shifts - 1,), ascending: the odds, relative to those of the predictions, between two shifts.
    weight
        Information of calibrated outcomes that are added to those of each region.
    learn
        Whether to learn; without, alternatives stay as they are.
    sums
        float64, shape (alternatives, regions, 3): positives, negatives and the sum of their predictions, each with its
        weight; changed in place.

    Returns
    -------
    float64, shape (steps, alternatives)
    """
    steps, alternatives, regions = first.shape[0] - 1, sums.shape[0], sums.shape[1]
    result = np.zeros((steps, alternatives))
    shift = np.full((alternatives, regions), edges.shape[0] // 2)
    added = np.zeros((regions, 3))
    _choose(sums, weight, edges, shift)
    for step in range(steps):
        information = 0.0
        added[:] = 0.0
        for row in range(first[step], first[step + 1]):
            at = cell[row]
            of = region[at]
            for label in range(2):
                count, above = float(values[row, label]), float(values[row, label + 3])
                if count == 0.0:
                    continue
                for k in range(alternatives):
                    chosen = shift[k, of]
                    result[step, k] += count * lines[at, label, chosen, 0] + above * lines[at, label, chosen, 1]
                total = count * anchors[at] + above * unit
                added[of, label] += count
                added[of, 2] += total
                information += total * (1.0 - total / count)
        if learn and information > 0.0:
            for k in range(alternatives):
                kept = 0.5 ** (information / half_lives[k])
                for of in range(regions):
                    for part in range(3):
                        sums[k, of, part] = sums[k, of, part] * kept + added[of, part]
            _choose(sums, weight, edges, shift)
    return result


@njit()
def _choose(sums: Floats, weight: float, edges: Floats, chosen: Ints) -> None:
    """Choose the shift of each alternative in each region: what outcomes say, drawn to 0 where they are few.

    Looked for from the one that was chosen before, as it is most often the same.
    """
    for k in range(sums.shape[0]):
        for of in range(sums.shape[1]):
            positives, negatives, total = sums[k, of, 0], sums[k, of, 1], sums[k, of, 2]
            count = positives + negatives
            # Where all predictions are 0, or all are 1, there is none to learn a shift of.
            if total <= 0.0 or total >= count:
                chosen[k, of] = edges.shape[0] // 2
                continue
            more = positives * (count - total) + weight * count
            less = negatives * total + weight * count
            while chosen[k, of] < edges.shape[0] and more >= less * edges[chosen[k, of]]:
                chosen[k, of] += 1
            while chosen[k, of] > 0 and more < less * edges[chosen[k, of] - 1]:
                chosen[k, of] -= 1
