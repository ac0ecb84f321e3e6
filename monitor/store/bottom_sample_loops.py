"""Choose the events that a full sample keeps."""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit


@njit()
def choose_fewest(stratum: NDArray[np.int32], order: NDArray[np.int64], capacity: int, kept: NDArray[np.int64]) -> int:
    """The events of the smallest (rank, key), in the order of their keys: see :mod:`monitor.store.bottom_samples`.

    Parameters
    ----------
    stratum
        int32, shape (n,), none negative.
    order
        Sorts the events by their keys, shape (n,).
    capacity
        How many are kept.
    kept
        int64, with room for that many, or for all: written.

    Returns
    -------
    int
        How many there are: ``kept[:count]``.
    """
    highest = 0
    for at in range(stratum.size):
        highest = max(highest, stratum[at])
    held = np.zeros(highest + 1, np.int64)
    rank = np.empty(order.size, np.int64)
    of_rank = np.zeros(order.size + 1, np.int64)
    for at in range(order.size):
        of = stratum[order[at]]
        rank[at] = held[of]
        of_rank[rank[at]] += 1
        held[of] += 1
    level, room = 0, capacity
    while level < order.size and of_rank[level] <= room:
        room -= of_rank[level]
        level += 1
    # All below the level are in; of the level itself, those of the smallest keys.
    count = 0
    for at in range(order.size):
        if rank[at] > level or (rank[at] == level and room == 0):
            continue
        if rank[at] == level:
            room -= 1
        kept[count] = order[at]
        count += 1
    return count
