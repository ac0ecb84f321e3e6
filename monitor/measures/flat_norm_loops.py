r"""The supremum of :math:`\sum_i c_i f(x_i)` over 1-Lipschitz f: [0, 1] -> [-1, 1], without looking for f.

By duality it is what it costs to make the weights vanish, where to move a unit costs its way and to remove one costs 1.
A way is at most 1 long, and a positive and a negative unit that are removed cost 2: so only the total T is removed,
here say T >= 0, somewhere on the line. With C_i the cumulative weight and M_i the part of T that is removed up to x_i,

.. math:: T + \min_M \sum_i |C_i - M_i| (x_{i+1} - x_i), \qquad 0 \le M_0 \le M_1 \le \dots \le T

A value outside [0, T] is brought to its end at the cost of the distance, whatever M is; what is left is isotonic
regression in the mean absolute deviation, whose solution stays in [0, T] by itself. It is read off a heap: a new point
is pushed with twice its weight, and its weight is taken from the top; what is taken from above the point pays the
distance. Points at T stay on top and points at 0 pay nothing when they are taken, so neither enters the heap.
O(m log m), and every term is a cost, so nothing cancels.
"""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.measures.heap_loops import pop, push


@njit()
def _supremum(
    location: NDArray[np.float64], weight: NDArray[np.float64], key: NDArray[np.float64], mass: NDArray[np.float64]
) -> float:
    """Supremum for one set of weights; ``key`` and ``mass``, shape (m,), are room for the heap."""
    m = location.shape[0]
    total = 0.0
    for i in range(m):
        total += weight[i]
    sign = 1.0 if total >= 0.0 else -1.0
    total = abs(total)
    cost = 0.0
    cumulative = 0.0
    at_total = 0.0
    size = int(np.int64(0))  # no literal: numba would compile what is called with it once more
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
def lipschitz_supremum(location: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
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
def lipschitz_suprema(location: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
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
