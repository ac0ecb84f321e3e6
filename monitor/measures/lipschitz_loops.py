r"""The supremum of :math:`\sum_i c_i f(x_i)` over 1-Lipschitz f: [0, 1] -> [-1, 1], and an f that attains it.

The supremum alone is cheaper. By duality it is the cost of making the weights vanish, where moving a unit costs its
way and removing one costs 1. A way is at most 1 long, and removing a positive and a negative unit costs 2: so only the
total T is removed, here say T >= 0, somewhere on the line. With C_i the cumulative weight and M_i the part of T that is
removed up to x_i,

.. math:: T + \min_M \sum_i |C_i - M_i| (x_{i+1} - x_i), \qquad 0 \le M_0 \le M_1 \le \dots \le T

A value outside [0, T] is moved to its nearer end at the cost of the distance, whatever M is. The rest is isotonic
regression in the mean absolute deviation, whose solution stays in [0, T] by itself, found with a heap: each new point
is pushed with twice its weight, and its weight is taken from the top; weight taken from above the point pays the
distance. Points at T stay on top and points at 0 pay nothing when they are taken, so neither enters the heap.
O(m log m), and every term is a cost, so nothing cancels.

For the function, let V_i(u) be the largest partial sum over x_0..x_i with f(x_i) = u. It is concave and piecewise
linear on [-1, 1], and follows from V_{i-1} in three steps:

1. over the gap d, f may move by d: the graph is split at its peak by a flat piece of length 2 d;
2. the parts outside [-1, 1] are cut off, a length d at each end;
3. c_i u is added: every slope grows by c_i.

So a set of pieces (slope, length) is enough. Step 2 takes from the steepest and from the lowest piece: two heaps, each
of which drops late the pieces that the other has used up. Step 3 is a common offset: a piece that enters flat before
step i is stored with the slope -(c_0 + ... + c_{i-1}), so its slope now is the difference of two prefix sums.
O(m log m) in all, with no linear programme.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.loops import njit


@njit()
def push(key: Floats, load: NDArray[Any], size: int, new_key: float, new_load: float) -> None:
    """Push a key and its load on a heap of ``size``.

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
def pop(key: Floats, load: NDArray[Any], size: int) -> None:
    """Remove the top, at index 0, from a heap of ``size`` >= 1."""
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


@njit()
def _supremum(location: Floats, weight: Floats, key: Floats, mass: Floats) -> float:
    """Supremum for one set of weights; ``key`` and ``mass``, shape (m,), are buffers for the heap."""
    m = location.shape[0]
    total = 0.0
    for i in range(m):
        total += weight[i]
    sign = 1.0 if total >= 0.0 else -1.0
    total = abs(total)
    cost = 0.0
    cumulative = 0.0
    at_total = 0.0
    size = int(np.int64(0))  # no literal: numba would compile the called functions once more
    for i in range(m - 1):
        cumulative += sign * weight[i]
        gap = location[i + 1] - location[i]
        if cumulative >= total:
            cost += (cumulative - total) * gap
            at_total += gap
            continue
        point = cumulative
        if point <= 0.0:
            cost -= point * gap
            point = 0.0
        owed = gap
        cut = min(at_total, owed)
        cost += cut * (total - point)
        at_total -= cut
        owed -= cut
        while owed > 0.0 and size > 0 and key[0] > point:
            cut = min(mass[0], owed)
            cost += cut * (key[0] - point)
            owed -= cut
            mass[0] -= cut
            if mass[0] > 0.0:
                break
            pop(key, mass, size)
            size -= 1
        if point > 0.0:
            push(key, mass, size, point, 2.0 * gap - owed)
            size += 1
    return total + cost


@njit()
def lipschitz_supremum(location: Floats, weight: Floats) -> float:
    r"""The supremum of :math:`\sum_i c_i f(x_i)` over 1-Lipschitz f with values in [-1, 1].

    Parameters
    ----------
    location
        float64, shape (m,), m >= 1, ascending, no two of them farther than 2 apart.
    weight
        float64, shape (m,): c.
    """
    m = location.shape[0]
    return float(_supremum(location, weight, np.empty(m), np.empty(m)))


@njit()
def lipschitz_suprema(location: Floats, weight: Floats) -> Floats:
    """:func:`lipschitz_supremum` of many weights at the same locations.

    Parameters
    ----------
    location
        float64, shape (m,).
    weight
        float64, shape (draws, m).

    Returns
    -------
    float64, shape (draws,)
    """
    draws, m = weight.shape
    key, mass = np.empty(m), np.empty(m)
    result = np.empty(draws)
    for draw in range(draws):
        result[draw] = _supremum(location, weight[draw], key, mass)
    return result


@njit()
def _lengthen(tree: Floats, rank: int, length: float) -> None:
    """Add a length to one rank of a Fenwick tree."""
    at = rank + 1
    while at < tree.shape[0]:
        tree[at] += length
        at += at & -at


@njit()
def _length_below(tree: Floats, rank: int) -> float:
    """Sum of the lengths of all lower ranks."""
    total = 0.0
    at = rank
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@njit()
def _cut_off(excess: float, key: Floats, piece: Ints, size: int, length: Floats, rank: Ints, tree: Floats) -> int:
    """Cut a length off the pieces on top of a heap; return the heap's new size.

    A piece that the other heap has used up has length 0, and is dropped here.
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
def _dynamic_programme(location: Floats, weight: Floats, rank: Ints, tree: Floats, peak: Floats) -> None:
    """Run i over the points, and write the argument of the largest V_i to ``peak``."""
    m = location.shape[0]
    # Piece i enters before point i. A piece's level is the prefix sum at which it entered: its slope is
    # (current prefix sum - level), so the lowest level is the steepest piece.
    level = np.empty(m)
    length = np.empty(m)
    steepest_key, steepest = np.empty(m), np.empty(m, np.int64)
    lowest_key, lowest = np.empty(m), np.empty(m, np.int64)
    # No literals: numba would compile the called functions once more.
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
def _move_back(location: Floats, best: Floats) -> None:
    """Move each best value, from the right, no farther from its neighbour than the gap allows; in place."""
    for i in range(location.shape[0] - 2, -1, -1):
        gap = location[i + 1] - location[i]
        best[i] = min(best[i + 1] + gap, max(best[i + 1] - gap, best[i]))


def lipschitz_maximiser(location: Floats, weight: Floats) -> Floats:
    r"""A 1-Lipschitz f with values in [-1, 1] at which :math:`\sum_i c_i f(x_i)` is largest.

    A Fenwick tree over the prefix sums gives the argument of the largest V_i. Since V_i is concave, going back from the
    right the best f(x_i) is that argument, limited by the gap.

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
