"""Check and normalise probability vectors."""

import math
from typing import Final

import numpy as np

from monitor.arrays import Bools, Floats, Ints
from monitor.loops import njit

ROUNDING: Final = 1e-6
"""A sum within this distance of 1 differs only by rounding, in float32 too. Dividing by it would only make equal
probabilities differ and move values over the edges of bins, so such a vector is not changed."""

_DIGITS: Final = 1e12


@njit()
def normalise(values: Floats, lengths: Ints, tolerance: float, largest: Floats) -> None:
    """Divide each vector by its sum, unless that is 1 except for rounding.

    The result depends neither on the batch nor on the order of the classes.

    Parameters
    ----------
    values
        The concatenated vectors; changed in place.
    lengths
        Length of each vector.
    tolerance
        Allowed difference of a sum from 1.
    largest
        float64, as long as ``lengths``: set to each vector's largest value, or nan if its sum is too far from 1 (the
        vector is then not changed).
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
                    # The last digits depend on the order of summation, and must not make equal values differ.
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
        Allowed difference of a sum from 1.

    Returns
    -------
    bool, shape (n,)
        Whether the row's sum is within the tolerance; other rows are not changed.
    """
    n, classes = rows.shape
    largest = np.empty(n)
    normalise(rows.reshape(-1), np.full(n, classes), tolerance, largest)
    return ~np.isnan(largest)
