"""Bins of one width under all shifts at once."""

import numpy as np

from monitor.arrays import Floats
from monitor.compiled import njit


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
    """:func:`shifted_bins_mean` of many weights at the same locations.

    Parameters
    ----------
    location
        float64, shape (m,).
    weight
        float64, shape (draws, m).
    width
        e > 0.

    Returns
    -------
    float64, shape (draws,)
    """
    result = np.empty(weight.shape[0])
    for draw in range(weight.shape[0]):
        result[draw] = shifted_bins_mean(location, weight[draw], width)
    return result


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
