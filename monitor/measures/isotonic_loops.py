"""Pool-adjacent-violators on a score table, with and without limits on the size of a block."""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit


@njit()
def pool_adjacent_violators(
    positives: NDArray[np.int64], counts: NDArray[np.int64], min_size: int, max_size: int
) -> NDArray[np.int64]:
    """Blocks of the PAVA-BC algorithm; those of isotonic regression with ``min_size = 0`` and ``max_size = n``.

    Parameters
    ----------
    positives, counts
        int64, shape (m,): positives and events a row, rows in ascending order of their score; every count > 0.
    min_size, max_size
        The events that a block should hold, 0 <= min_size <= max_size.

    Returns
    -------
    int64, shape (blocks,)
        The first row of each block, ascending.

    Notes
    -----
    Source: TCE paper, Algorithm 2, its tail as printed: the last ``min_size`` events join the last block only if the
    block stays within ``max_size``.

    Rows are atomic where the paper speaks of events, so equal predictions never part and the order of the events
    cannot matter. It takes two rules that the paper does not need. A row of more than ``max_size`` events is a block
    of its own. The tail is made of the fewest last rows that hold ``min_size`` events, unless they hold more than
    ``max_size``: then its first row stays with the others, because the upper limit wins over the lower one
    everywhere in the algorithm. Rates are compared by their cross products, which is exact.
    """
    rows = counts.shape[0]
    start = np.empty(rows, np.int64)
    positive = np.empty(rows, np.int64)
    size = np.empty(rows, np.int64)

    tail: int = rows
    tail_size: int = 0
    while tail > 0 and tail_size < min_size:
        tail -= 1
        tail_size += int(counts[tail])
    if tail < rows - 1 and tail_size > max_size:
        tail_size -= int(counts[tail])
        tail += 1

    last = -1
    for row in range(tail):
        last += 1
        start[last], positive[last], size[last] = row, positives[row], counts[row]
        while last > 0:
            together = size[last - 1] + size[last]
            if together > min_size and (
                together > max_size or positive[last - 1] * size[last] < positive[last] * size[last - 1]
            ):
                break
            last -= 1
            positive[last] += positive[last + 1]
            size[last] = together
    if tail < rows and (last < 0 or size[last] + tail_size > max_size):
        last += 1
        start[last] = tail
    return start[: last + 1].copy()
