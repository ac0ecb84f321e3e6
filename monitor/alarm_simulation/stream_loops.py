"""Loops that draw outcomes and count them by step and cell."""

import math

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit

POSITIVE, NEGATIVE, UNLABELLED = 0, 1, 2
"""Labels: columns of the values of steps."""

LABELS = 3


@njit()
def draw_labels(
    counts: Ints,
    cell: Ints,
    logit: Floats,
    shift: Floats,
    share: Floats,
    offset: Floats,
    missing: Floats,
    unlabelled: int,
    concerned: Floats,
    draw: Floats,
    missing_draw: Floats,
) -> Ints:
    """Draw the label of each prediction.

    Parameters
    ----------
    counts
        int64, shape (steps,): predictions of each step.
    cell
        int64, shape (n,): of each prediction, in the order of the steps.
    logit, shift
        float64, shape (cells,): of the predictions of a cell, and by how much the true one differs after the change.
    share, offset, missing
        float64, shape (steps,): how much of the shift has come, what is added to the true logits, and the probability
        that a label is missing.
    unlabelled
        Label of a prediction whose label is missing.
    concerned
        float64, shape (n,): 1 for predictions that the shift concerns, 0 for others; or shape (0,): it concerns all.
    draw
        float64, shape (n,): uniform in [0, 1).
    missing_draw
        The same, for missing labels; or shape (0,) where none is.

    Returns
    -------
    int64, shape (n,): keys that sort by step, cell and label.
    """
    cells = logit.shape[0]
    key = np.empty(cell.shape[0], np.int64)
    event = 0
    for step in range(counts.shape[0]):
        for _ in range(counts[step]):
            at = cell[event]
            own = share[step] if concerned.shape[0] == 0 else share[step] * concerned[event]
            true = logit[at] + own * shift[at] + offset[step]
            label = POSITIVE if draw[event] * (1.0 + math.exp(-true)) < 1.0 else NEGATIVE
            if missing_draw.shape[0] > 0 and missing_draw[event] < missing[step]:
                label = unlabelled
            key[event] = (step * cells + at) * LABELS + label
            event += 1
    return key


@njit()
def count_keys(key: Ints, steps: int, above_anchor: Ints) -> tuple[Ints, Ints, Ints]:
    """Count sorted keys of :func:`draw_labels`.

    Parameters
    ----------
    above_anchor
        int64, shape (cells,): what one prediction adds to the sum of its cell.

    Returns
    -------
    tuple
        ``first``, ``cell`` and ``values`` of :class:`monitor.sequential.steps.Steps`.
    """
    cells = above_anchor.shape[0]
    rows, before = 0, -1
    for event in range(key.shape[0]):
        place = key[event] // LABELS
        rows += place != before
        before = place
    first = np.zeros(steps + 1, np.int64)
    cell = np.empty(rows, np.int64)
    values = np.zeros((rows, 2 * LABELS), np.int64)
    row, before = -1, -1
    for event in range(key.shape[0]):
        place, label = key[event] // LABELS, key[event] % LABELS
        if place != before:
            row += 1
            cell[row] = place % cells
            first[place // cells + 1] = row + 1
            before = place
        values[row, label] += 1
        values[row, label + LABELS] += above_anchor[cell[row]]
    for step in range(steps):
        first[step + 1] = max(first[step + 1], first[step])
    return first, cell, values
