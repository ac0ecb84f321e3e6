"""Probability vectors of a batch, checked and brought to a sum of 1."""

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def normalise(
    values: NDArray[np.float64], lengths: NDArray[np.int64], tolerance: float, largest: NDArray[np.float64]
) -> None:
    """Divide each vector by its sum.

    Summed one by one, in order: what a vector becomes must not depend on the batch that it stands in.

    Parameters
    ----------
    values
        The vectors, one behind the other; changed in place.
    lengths
        How long each is.
    tolerance
        By how much a sum may differ from 1.
    largest
        float64, as long as ``lengths``: gets each vector's largest value, or nan if its sum is too far from 1.
    """
    start = 0
    for index in range(lengths.size):
        end = start + lengths[index]
        total = 0.0
        for at in range(start, end):
            total += values[at]
        largest[index] = np.nan
        if abs(total - 1.0) <= tolerance:
            top = 0.0
            for at in range(start, end):
                values[at] = values[at] / total
                top = max(top, values[at])
            largest[index] = top
        start = end
