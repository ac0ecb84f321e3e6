"""A binary heap in two arrays: keys, the largest on top, and what each key carries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit


@njit()
def push(key: NDArray[np.float64], load: NDArray[Any], size: int, new_key: float, new_load: float) -> None:
    """Put a key and its load on a heap of ``size``.

    Parameters
    ----------
    key
        float64, shape (capacity,): its first ``size`` places are the heap.
    load
        float64 or int64, shape (capacity,).
    """
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if key[parent] >= new_key:
            break
        key[at] = key[parent]
        load[at] = load[parent]
        at = parent
    key[at] = new_key
    load[at] = new_load


@njit()
def pop(key: NDArray[np.float64], load: NDArray[Any], size: int) -> None:
    """Take the top, which is at index 0, off a heap of ``size`` >= 1."""
    last = size - 1
    moved_key, moved_load = key[last], load[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and key[child + 1] > key[child]:
            child += 1
        if key[child] <= moved_key:
            break
        key[at] = key[child]
        load[at] = load[child]
        at = child
    key[at] = moved_key
    load[at] = moved_load
