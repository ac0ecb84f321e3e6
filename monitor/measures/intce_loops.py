r"""Loops of the interval calibration errors: the cheapest partition, and bins of one width under all shifts.

The cheapest partition of a line into intervals has the least binned residuals plus mean width.
With C and M the cumulative residual and mass, the best partition of the first b rows costs

.. math:: D(b) = \min_{a < b} D(a) + |C_b - C_a| + (M_b - M_a)(x_{b-1} - x_a),

with the rows a..b-1 in the last interval. Computed directly, that is O(m^2). But for any block of starts a

.. math:: D(a) + |C_b - C_a| \ge \max(\min_a (D(a) - C_a) + C_b, \; \min_a (D(a) + C_a) - C_b),

and the width term grows as a goes back. So minima of D - C and D + C are stored for blocks of 16, 128, 1,024, ...
starts, and a block is searched only if its bound beats the best start so far. On a million predictions that searches
about four blocks of 16 per row. The result is exact; only the time depends on the data.

Many residuals at the same locations are processed side by side, 40 at a time: they share the widths, a block that
one of them needs is searched for all, and the innermost loops are SIMD loops over the 40. (Over eight they are not: so
short a loop is unrolled first, and what is left is no longer seen as one.)
"""

from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

_LEVELS: Final = 5
"""Largest number of levels: a block of the last one holds 65,536 starts."""
_LEAF_BITS: Final = 4
_FAN_OUT_BITS: Final = 3

_SLACK: Final = 1e-14
"""Rounding error of a bound of the best cost, which is at most 1: with this margin the result is, to the last bit, that
of trying every start."""

_LANES: Final = 40
"""Number of residuals that are processed side by side: five times that is hardly more than 199 draws."""
_LANE_LEAF_BITS: Final = 4
_FEW: Final = 4
"""Number of residuals up to which one by one is faster."""


# nnan, nsz: values are never nan and signs of zeros do not matter; this makes the minimum over a block a SIMD loop.
@njit(fastmath={"nnan", "nsz"})
def _least(cost: Floats, cumulative: Floats, mass: Floats, location: Floats, first: int, last: int, b: int) -> float:
    """Least cost of the rows before b over the starts first..last of the last interval."""
    least = np.inf
    for a in range(first, last + 1):
        least = min(
            least, cost[a] + abs(cumulative[b] - cumulative[a]) + (mass[b] - mass[a]) * (location[b - 1] - location[a])
        )
    return least


@njit()
def _least_cost(location: Floats, residual: Floats, weight: Floats, start: Ints) -> float:
    """The least cost of all partitions; ``start``, shape (m,), is written as :func:`cheapest_partition` returns it."""
    m = location.shape[0]
    cost = np.zeros(m + 1)
    cumulative = np.zeros(m + 1)
    mass = np.zeros(m + 1)
    top = 0
    while top < _LEVELS - 1 and m >> (_LEAF_BITS + _FAN_OUT_BITS * (top + 1)) > 0:
        top += 1
    blocks = (m >> _LEAF_BITS) + 1
    least_minus = np.full((top + 1, blocks), np.inf)  # of D - C
    least_plus = np.full((top + 1, blocks), np.inf)  # of D + C
    least_minus[:, 0] = 0.0
    least_plus[:, 0] = 0.0
    arg = 0
    for b in range(1, m + 1):
        here = location[b - 1]
        cumulative[b] = cumulative[b - 1] + residual[b - 1]
        mass[b] = mass[b - 1] + weight[b - 1]
        # A first guess, to prune against: the last row alone, or the interval that was best a row ago and this row.
        best = cost[b - 1] + abs(cumulative[b] - cumulative[b - 1])
        again = cost[arg] + abs(cumulative[b] - cumulative[arg]) + (mass[b] - mass[arg]) * (here - location[arg])
        if again < best:
            best = again
        else:
            arg = b - 1
        level = 0  # the newest starts are the likeliest
        newest = b - 1  # newest start not yet excluded
        while newest >= 0:
            width_cost = (mass[b] - mass[newest]) * (here - location[newest])
            if width_cost >= best:
                break  # and every earlier start is wider
            bits = _LEAF_BITS + _FAN_OUT_BITS * level
            block = newest >> bits
            first = block << bits
            bound = max(least_minus[level, block] + cumulative[b], least_plus[level, block] - cumulative[b])
            if bound + width_cost < best + _SLACK:
                if level > 0:
                    level -= 1
                    continue
                least = _least(cost, cumulative, mass, location, first, newest, b)
                if least < best:
                    best = least
                    arg = first
                    while arg < newest and _least(cost, cumulative, mass, location, arg, arg, b) > least:
                        arg += 1
            newest = first - 1
            while level < top and (first >> bits) & ((1 << _FAN_OUT_BITS) - 1) == 0:
                level += 1
                bits += _FAN_OUT_BITS
        cost[b] = best
        start[b - 1] = arg
        for level in range(top + 1):
            block = b >> (_LEAF_BITS + _FAN_OUT_BITS * level)
            least_minus[level, block] = min(least_minus[level, block], best - cumulative[b])
            least_plus[level, block] = min(least_plus[level, block], best + cumulative[b])
    return float(cost[m])


@njit()
def cheapest_partition(location: Floats, residual: Floats, weight: Floats) -> tuple[float, Ints]:
    """The least of binned residuals plus mean width over all partitions into intervals.

    Parameters
    ----------
    location
        float64, shape (m,), m >= 1, strictly ascending.
    residual
        float64, shape (m,): share of the residual at each location.
    weight
        float64, shape (m,), every value >= 0: share of the mass at each location.

    Returns
    -------
    value
        The least cost.
    start
        int64, shape (m,): first row of the last interval in the best partition of rows 0..i.
    """
    start = np.empty(location.shape[0], np.int64)
    return float(_least_cost(location, residual, weight, start)), start


@njit(fastmath={"nnan", "nsz"})
def _least_side_by_side(
    cost: Floats, cumulative: Floats, width: Floats, first: int, last: int, b: int, best: Floats
) -> None:
    """Lower ``best`` to the least costs over the starts first..last, whose width terms ``width`` begins with."""
    for a in range(first, last + 1):
        for lane in range(_LANES):
            best[lane] = min(
                best[lane], cost[a, lane] + abs(cumulative[b, lane] - cumulative[a, lane]) + width[a - first]
            )


@njit(fastmath={"nnan", "nsz"})
def _largest(values: Floats) -> float:
    largest = -np.inf
    for lane in range(_LANES):
        largest = max(largest, values[lane])
    return largest


@njit(fastmath={"nnan", "nsz"})
def _least_costs(location: Floats, residual: Floats, weight: Floats, best: Floats) -> None:
    """The least costs for residual (m, lanes), into ``best`` (lanes,)."""
    m = location.shape[0]
    cost = np.zeros((m + 1, _LANES))
    cumulative = np.zeros((m + 1, _LANES))
    mass = np.zeros(m + 1)
    top = 0
    while top < _LEVELS - 1 and m >> (_LANE_LEAF_BITS + _FAN_OUT_BITS * (top + 1)) > 0:
        top += 1
    blocks = (m >> _LANE_LEAF_BITS) + 1
    least_minus = np.full((top + 1, blocks, _LANES), np.inf)
    least_plus = np.full((top + 1, blocks, _LANES), np.inf)
    least_minus[:, 0] = 0.0
    least_plus[:, 0] = 0.0
    width = np.empty(1 << _LANE_LEAF_BITS)
    gain = np.empty(_LANES)
    for b in range(1, m + 1):
        here = location[b - 1]
        mass[b] = mass[b - 1] + weight[b - 1]
        for lane in range(_LANES):
            cumulative[b, lane] = cumulative[b - 1, lane] + residual[b - 1, lane]
            best[lane] = cost[b - 1, lane] + abs(cumulative[b, lane] - cumulative[b - 1, lane])
        largest = _largest(best)
        level = 0
        newest = b - 1
        while newest >= 0:
            width_cost = (mass[b] - mass[newest]) * (here - location[newest])
            if width_cost >= largest:
                break
            bits = _LANE_LEAF_BITS + _FAN_OUT_BITS * level
            block = newest >> bits
            first = block << bits
            for lane in range(_LANES):
                gain[lane] = best[lane] - max(
                    least_minus[level, block, lane] + cumulative[b, lane],
                    least_plus[level, block, lane] - cumulative[b, lane],
                )
            if _largest(gain) - width_cost > -_SLACK:
                if level > 0:
                    level -= 1
                    continue
                for a in range(first, newest + 1):
                    width[a - first] = (mass[b] - mass[a]) * (here - location[a])
                _least_side_by_side(cost, cumulative, width, first, newest, b, best)
                largest = _largest(best)
            newest = first - 1
            while level < top and (first >> bits) & ((1 << _FAN_OUT_BITS) - 1) == 0:
                level += 1
                bits += _FAN_OUT_BITS
        for lane in range(_LANES):
            cost[b, lane] = best[lane]
        for level in range(top + 1):
            block = b >> (_LANE_LEAF_BITS + _FAN_OUT_BITS * level)
            for lane in range(_LANES):
                least_minus[level, block, lane] = min(least_minus[level, block, lane], best[lane] - cumulative[b, lane])
                least_plus[level, block, lane] = min(least_plus[level, block, lane], best[lane] + cumulative[b, lane])


@njit()
def cheapest_partition_costs(location: Floats, residual: Floats, weight: Floats) -> Floats:
    """The costs of :func:`cheapest_partition` for many residuals at the same locations.

    Parameters
    ----------
    location, weight
        float64, shape (m,).
    residual
        float64, shape (draws, m).

    Returns
    -------
    float64, shape (draws,)
    """
    draws, m = residual.shape
    result = np.empty(draws)
    best = np.empty(_LANES)
    if draws <= _FEW:
        starts = np.empty(m, np.int64)
        for draw in range(draws):
            result[draw] = _least_cost(location, residual[draw], weight, starts)
        return result
    side_by_side = np.empty((m, _LANES))
    for start in range(0, draws, _LANES):
        for lane in range(_LANES):
            draw = min(start + lane, draws - 1)
            for row in range(m):
                side_by_side[row, lane] = residual[draw, row]
        _least_costs(location, side_by_side, weight, best)
        for lane in range(min(_LANES, draws - start)):
            result[start + lane] = best[lane]
    return result


@njit()
def shifted_bins_mean(location: Floats, weight: Floats, width: float) -> float:
    r"""The mean, over a uniform shift of bins of one width, of :math:`\sum_\mathrm{bins} |\sum_{x_i \in bin} c_i|`.

    It is :math:`\frac{1}{e} \int |C(t + e) - C(t)| dt` with C the cumulative weight: as t runs over the line, point i
    enters the bin [t, t + e) at x_i - e and leaves it at x_i. One merge of the two ascending lists: O(m).

    Parameters
    ----------
    location
        float64, shape (m,), m >= 1, ascending.
    weight
        float64, shape (m,): c.
    width
        e > 0.
    """
    m = location.shape[0]
    entering = 0
    leaving = 0
    inside = 0.0
    area = 0.0
    # A moment is (location, shift), subtracted separately, so that rounding cannot lose a narrow width.
    at, at_shift = location[0], -width
    while leaving < m:
        if entering < m and location[entering] - location[leaving] <= width:
            next_at, next_shift = location[entering], -width
            change = weight[entering]
            entering += 1
        else:
            next_at, next_shift = location[leaving], 0.0
            change = -weight[leaving]
            leaving += 1
        area += abs(inside) * ((next_at - at) + (next_shift - at_shift))
        inside += change
        at, at_shift = next_at, next_shift
    return area / width


@njit()
def shifted_bins_means(location: Floats, weight: Floats, width: float) -> Floats:
    """:func:`shifted_bins_mean` of many weights at the same locations, to the bit.

    Parameters
    ----------
    location
        float64, shape (m,).
    weight
        float64, shape (m, draws): the draws side by side, whose points enter and leave the bin at the same moments.
    width
        e > 0.

    Returns
    -------
    float64, shape (draws,)
    """
    m, draws = weight.shape
    inside = np.zeros(draws)
    area = np.zeros(draws)
    entering = 0
    leaving = 0
    at, at_shift = location[0], -width
    while leaving < m:
        enters = entering < m and location[entering] - location[leaving] <= width
        next_at, next_shift = (location[entering], -width) if enters else (location[leaving], 0.0)
        way = (next_at - at) + (next_shift - at_shift)
        if enters:
            for draw in range(draws):
                area[draw] += abs(inside[draw]) * way
                inside[draw] += weight[entering, draw]
            entering += 1
        else:
            for draw in range(draws):
                area[draw] += abs(inside[draw]) * way
                inside[draw] -= weight[leaving, draw]
            leaving += 1
        at, at_shift = next_at, next_shift
    return area / width


@njit()
def shifted_bins_signs(location: Floats, weight: Floats, width: float) -> Floats:
    r"""The mean, over a uniform shift, of the sign of the weight in the bin that holds each point.

    It is :math:`\frac{1}{e} \int_{x_i - e}^{x_i} \mathrm{sgn}(C(t + e) - C(t)) dt`, and its product with the weights is
    :func:`shifted_bins_mean`: the same merge, with the integral at the moments when a point enters and leaves.

    Parameters
    ----------
    location
        float64, shape (m,), m >= 1, ascending.
    weight
        float64, shape (m,): c.
    width
        e > 0.

    Returns
    -------
    float64, shape (m,), in [-1, 1]
    """
    m = location.shape[0]
    result = np.empty(m)
    entering = 0
    leaving = 0
    inside = 0.0
    integral = 0.0
    at, at_shift = location[0], -width
    while leaving < m:
        enters = entering < m and location[entering] - location[leaving] <= width
        next_at, next_shift = (location[entering], -width) if enters else (location[leaving], 0.0)
        integral += np.sign(inside) * ((next_at - at) + (next_shift - at_shift))
        if enters:
            result[entering] = -integral
            inside += weight[entering]
            entering += 1
        else:
            result[leaving] = (result[leaving] + integral) / width
            inside -= weight[leaving]
            leaving += 1
        at, at_shift = next_at, next_shift
    return result
