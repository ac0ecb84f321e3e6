"""Types of arrays, and groups of their rows."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def grouped(*keys: Ints | NDArray[np.int32]) -> tuple[Ints, list[int]]:
    """Sort rows by their keys, the most significant first; rows of equal keys keep their order.

    Parameters
    ----------
    keys
        Shape (n,) each.

    Returns
    -------
    order
        Places of the rows, shape (n,).
    cuts
        Where each group of equal keys begins in this order, and n.
    """
    order = np.lexsort(keys[::-1])
    changes = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
    return order, [0, *(np.flatnonzero(changes) + 1).tolist(), order.size] if order.size else [0]
