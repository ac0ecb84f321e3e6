r"""A 1-Lipschitz f: [0, 1] -> [-1, 1] at which :math:`\sum_i c_i f(x_i)` is largest.

The largest value alone is cheaper to have: see :mod:`monitor.measures.flat_norm_loops`.

Let V_i(u) be the largest partial sum over x_0..x_i with f(x_i) = u. It is concave and piecewise linear on [-1, 1], and
follows from V_{i-1} in three steps:

1. over the gap d, f may move by d: the graph is torn apart at its peak by a flat piece of length 2 d;
2. what now lies outside [-1, 1] is cut off, a length d at each end;
3. c_i u is added: every slope grows by c_i.

So a set of pieces (slope, length) is all there is to keep. Step 2 takes from the steepest and from the lowest piece:
two heaps, each of which drops late what the other has used up. Step 3 is a common offset: a piece that enters flat
before step i is stored with the slope -(c_0 + ... + c_{i-1}), so its slope now is the difference of two prefix sums.
O(m log m) in all, with no linear programme.
"""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.measures.heap_loops import pop, push


@njit()
def _lengthen(tree: NDArray[np.float64], rank: int, length: float) -> None:
    """Add a length to one rank of a Fenwick tree."""
    at = rank + 1
    while at < tree.shape[0]:
        tree[at] += length
        at += at & -at


@njit()
def _length_below(tree: NDArray[np.float64], rank: int) -> float:
    """Sum of the lengths of all lower ranks."""
    total = 0.0
    at = rank
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@njit()
def _cut_off(
    excess: float,
    key: NDArray[np.float64],
    piece: NDArray[np.int64],
    size: int,
    length: NDArray[np.float64],
    rank: NDArray[np.int64],
    tree: NDArray[np.float64],
) -> int:
    """Take a length off the pieces on top of a heap; how many the heap is left with.

    A piece that the other heap has used up has no length any more, and is dropped here.
    """
    while excess > 0.0 and size > 0:
        top = piece[0]
        cut = min(length[top], excess)
        excess -= cut
        length[top] -= cut
        _lengthen(tree, rank[top], -cut)
        if length[top] > 0.0:
            break
        pop(key, piece, size)
        size -= 1
    return size


@njit()
def _dynamic_programme(
    location: NDArray[np.float64],
    weight: NDArray[np.float64],
    rank: NDArray[np.int64],
    tree: NDArray[np.float64],
    peak: NDArray[np.float64],
) -> None:
    """Run i over the points, and note in ``peak`` where each V_i is largest."""
    m = location.shape[0]
    # Piece i enters before point i. A piece's level is the prefix sum at which it entered: its slope is
    # (current prefix sum - level), so the lowest level is the steepest piece.
    level = np.empty(m)
    length = np.empty(m)
    steepest_key, steepest = np.empty(m), np.empty(m, np.int64)
    lowest_key, lowest = np.empty(m), np.empty(m, np.int64)
    # No literals: numba would compile what is called with them once more.
    n_steepest = int(np.int64(0))
    n_lowest = int(np.int64(0))
    prefix = 0.0
    for i in range(m):
        gap = 2.0 if i == 0 else location[i] - location[i - 1]
        level[i] = prefix
        length[i] = gap if i == 0 else 2.0 * gap
        push(steepest_key, steepest, n_steepest, -prefix, i)
        push(lowest_key, lowest, n_lowest, prefix, i)
        n_steepest += 1
        n_lowest += 1
        _lengthen(tree, rank[i], length[i])
        if i > 0:
            n_steepest = _cut_off(gap, steepest_key, steepest, n_steepest, length, rank, tree)
            n_lowest = _cut_off(gap, lowest_key, lowest, n_lowest, length, rank, tree)
        prefix += weight[i]
        # V_i rises along the pieces of level below the prefix sum: those of a rank below the next piece's.
        peak[i] = min(1.0, max(-1.0, -1.0 + _length_below(tree, rank[i + 1])))


@njit()
def _move_back(location: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """From the right, move each best value no farther from its neighbour than the gap allows; in place."""
    for i in range(location.shape[0] - 2, -1, -1):
        gap = location[i + 1] - location[i]
        best[i] = min(best[i + 1] + gap, max(best[i + 1] - gap, best[i]))


def lipschitz_maximiser(location: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""A 1-Lipschitz f with values in [-1, 1] at which :math:`\sum_i c_i f(x_i)` is largest.

    Where each V_i is largest is read off a Fenwick tree over the prefix sums; since V_i is concave, going back from the
    right the best f(x_i) is that place, moved no farther than the gap allows.

    Parameters
    ----------
    location
        float64, shape (m,), m >= 1, ascending.
    weight
        float64, shape (m,): c.

    Returns
    -------
    float64, shape (m,)
        f at each location.
    """
    m = location.shape[0]
    rank = np.empty(m + 1, np.int64)
    rank[np.argsort(np.append(0.0, np.cumsum(weight)), kind="stable")] = np.arange(m + 1)
    best = np.empty(m)
    _dynamic_programme(location, weight, rank, np.zeros(m + 2), best)
    _move_back(location, best)
    return best
