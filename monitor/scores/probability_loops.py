"""Probability vectors, checked and brought to a sum of 1: the one place where that is done."""

import math
from typing import Final

import numpy as np

from monitor.arrays import Bools, Floats, Ints
from monitor.compiled import njit

ROUNDING: Final = 1e-6
"""A sum this near 1 is 1 but for rounding, in float32 too. Dividing by it would only part equal probabilities and move
values over the edges of bins, so such a vector stays as it is."""

_DIGITS: Final = 1e12


@njit()
def normalise(values: Floats, lengths: Ints, tolerance: float, largest: Floats) -> None:
    """Divide each vector by its sum, unless that is 1 but for rounding.

    What a vector becomes depends neither on the batch that it is in nor on the order of its classes.

    Parameters
    ----------
    values
        The vectors, one behind the other; changed in place.
    lengths
        How long each is.
    tolerance
        By how much a sum may differ from 1.
    largest
        float64, as long as ``lengths``: set to each vector's largest value, or nan if its sum is too far from 1; such a
        vector is not changed.
    """
    start = 0
    for index in range(lengths.size):
        end = start + lengths[index]
        total = 0.0
        for at in range(start, end):
            total += values[at]
        largest[index] = np.nan
        if abs(total - 1.0) <= tolerance:
            if abs(total - 1.0) > ROUNDING:
                if total > 0.5:
                    # The last digits depend on the order in which classes are added up, and must not part equal values.
                    total = math.floor(total * _DIGITS + 0.5) / _DIGITS
                for at in range(start, end):
                    values[at] = min(values[at] / total, 1.0)
            top = 0.0
            for at in range(start, end):
                top = max(top, values[at])
            largest[index] = top
        start = end


def normalise_rows(rows: Floats, tolerance: float = math.inf) -> Bools:
    """Divide each row (n, K) by its sum, in place, as :func:`normalise` does.

    Parameters
    ----------
    rows
        C-contiguous, every sum above 0.
    tolerance
        By how much a sum may differ from 1.

    Returns
    -------
    bool, shape (n,)
        Which sums do not differ by more; the other rows are not changed.
    """
    n, classes = rows.shape
    largest = np.empty(n)
    normalise(rows.reshape(-1), np.full(n, classes), tolerance, largest)
    return ~np.isnan(largest)
