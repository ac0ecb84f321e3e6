"""Sums over neighbourhoods under the Laplacian kernel.

The others have one coordinate per row, so that the innermost loops run over neighbours and use vector instructions.
With an exponential of six products, a pair of points with 20 coordinates takes about 1.5 ns.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.loops import njit

Singles = NDArray[np.float32]
AnyFloats = NDArray[Any]

_BLOCK: Final = 512
"""Block size: distances and this part of ``others`` fit the L1 cache."""

FAR: Final = np.float32(3e38)
"""Larger than any distance: coordinates must be at most 1e30 in size."""

_LOG2_E: Final = np.float32(1.4426950408889634)
_MIN_POWER: Final = np.float32(-126.0)  # the least exponent of normal float32

# Vector instructions need sums in any order.
_FAST: Final = {"reassoc", "contract", "nsz"}


@njit(fastmath=_FAST)
def _distances(point: AnyFloats, others: AnyFloats, first: int, count: int, out: AnyFloats) -> None:
    """Write the L1 distances of ``others[:, first : first + count]`` from a point into ``out``; all of one dtype.

    Four coordinates per pass, so that ``out`` is read and written a quarter as often.
    """
    d = point.shape[0]
    for j in range(count):
        out[j] = 0.0
    c = 0
    while c + 4 <= d:
        x0, x1, x2, x3 = point[c], point[c + 1], point[c + 2], point[c + 3]
        o0, o1 = others[c, first : first + count], others[c + 1, first : first + count]
        o2, o3 = others[c + 2, first : first + count], others[c + 3, first : first + count]
        for j in range(count):
            out[j] += abs(x0 - o0[j]) + abs(x1 - o1[j]) + abs(x2 - o2[j]) + abs(x3 - o3[j])
        c += 4
    while c < d:
        x0, o0 = point[c], others[c, first : first + count]
        for j in range(count):
            out[j] += abs(x0 - o0[j])
        c += 1


@njit(fastmath=_FAST)
def _exponentials(
    distance: Singles, nearest: np.float32, rate: np.float32, count: int, rest: Singles, bits: NDArray[np.int32]
) -> None:
    """Compute exp(-(distance - nearest) rate) as ``rest`` times the float32 with these ``bits``; at least 1e-38.

    2^t = 2^floor(t) 2^(t - floor(t)): the first factor is written as bits, the second is a polynomial whose relative
    error is below 2e-7 (a minimax fit on [0, 1]).
    """
    for j in range(count):
        power = max((nearest - distance[j]) * rate * _LOG2_E, _MIN_POWER)
        whole = np.float32(np.floor(power))
        x = power - whole
        y = np.float32(1.8775767e-3)
        y = y * x + np.float32(8.9893397e-3)
        y = y * x + np.float32(5.5826318e-2)
        y = y * x + np.float32(2.4015361e-1)
        y = y * x + np.float32(6.9315308e-1)
        rest[j] = y * x + np.float32(9.9999994e-1)
        bits[j] = (np.int32(whole) + np.int32(127)) << np.int32(23)


@njit(fastmath=_FAST)
def laplace_sums(
    points: Singles, others: Singles, weight: Floats, value: Floats, own: Ints, rates: Floats, start: int, stop: int
) -> Floats:
    r"""Sum over the neighbours of each point, with k = exp(-rate (|x - x_i|_1 - that of the nearest)).

    Means and effective numbers do not change if all k of a point are multiplied by a number. Relative to the nearest
    neighbour, the sums are never 0, however far it is and however large the rate.

    Parameters
    ----------
    points
        float32, shape (q, d), contiguous by rows; within 1e30 in size.
    others
        float32, shape (d, n), contiguous by rows: one coordinate a row; within 1e30 in size.
    weight, value
        float64, shape (n,).
    own
        int64, shape (q,): index among the others of the point itself, which does not count; -1 if all count.
    rates
        float64, shape (g,).
    start, stop
        Neighbours are the others from ``start`` to before ``stop``.

    Returns
    -------
    float64, shape (q, g, 3): sums of weight k, of weight k value, and of (weight k)^2; all 0 without neighbours.
    Relative error of about 1e-6, from distances in float32.
    """
    q, g = points.shape[0], rates.shape[0]
    sums = np.zeros((q, g, 3))
    nearest = np.full(q, FAR)
    distance, rest = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    bits = np.empty(_BLOCK, np.int32)
    power_of_two = bits.view(np.float32)
    for first in range(start, stop, _BLOCK):
        count = min(_BLOCK, stop - first)
        w, v = weight[first : first + count], value[first : first + count]
        for i in range(q):
            _distances(points[i], others, first, count, distance)
            itself = own[i] - first
            if 0 <= itself < count:
                distance[itself] = FAR
            least = nearest[i]
            for j in range(count):
                least = min(least, distance[j])
            if least < nearest[i]:
                # Rescale the sums so far to the new nearest neighbour.
                for r in range(g):
                    shrunk = np.exp((np.float64(least) - np.float64(nearest[i])) * rates[r])
                    sums[i, r, 0] *= shrunk
                    sums[i, r, 1] *= shrunk
                    sums[i, r, 2] *= shrunk * shrunk
                nearest[i] = least
            for r in range(g):
                _exponentials(distance, least, np.float32(rates[r]), count, rest, bits)
                if 0 <= itself < count:
                    rest[itself] = np.float32(0.0)
                total, values, squares = 0.0, 0.0, 0.0
                for j in range(count):
                    k = w[j] * np.float64(rest[j] * power_of_two[j])
                    total += k
                    values += k * v[j]
                    squares += k * k
                sums[i, r, 0] += total
                sums[i, r, 1] += values
                sums[i, r, 2] += squares
    return sums


@njit(fastmath=_FAST)
def city_block(points: Floats, others: Floats) -> Floats:
    """Compute L1 distances of points (q, d) from others (d, n), both contiguous by rows; float64, shape (q, n)."""
    q, n = points.shape[0], others.shape[1]
    result = np.empty((q, n))
    for first in range(0, n, _BLOCK):
        count = min(_BLOCK, n - first)
        for i in range(q):
            _distances(points[i], others, first, count, result[i, first : first + count])
    return result
