"""Sums over all pairs of points under the Laplace kernel, in linear time."""

import numpy as np

from monitor.arrays import Floats
from monitor.loops import njit


@njit()
def laplace_quadratic_form(location: Floats, weight: Floats, bandwidth: float) -> float:
    r"""The quadratic form :math:`\sum_{ij} w_i w_j \exp(-|x_i - x_j| / h)`.

    The kernel factorises along the line, :math:`k(x_j, x_i) = k(x_j, x_{i-1}) k(x_{i-1}, x_i)`, so one running sum
    carries all points to the left: O(m) where the double sum takes O(m^2).

    Parameters
    ----------
    location
        float64, shape (m,), ascending; the ends may be infinite.
    weight
        float64, shape (m,).
    bandwidth
        h > 0.
    """
    carried = 0.0
    total = 0.0
    for i in range(location.shape[0]):
        if i > 0:
            carried = (carried + weight[i - 1]) * np.exp((location[i - 1] - location[i]) / bandwidth)
        total += weight[i] * (weight[i] + 2.0 * carried)
    return total


@njit()
def laplace_quadratic_forms(location: Floats, weight: Floats, bandwidth: float) -> Floats:
    """:func:`laplace_quadratic_form` of many weights at the same locations.

    Parameters
    ----------
    location
        float64, shape (m,).
    weight
        float64, shape (draws, m).
    bandwidth
        h > 0.

    Returns
    -------
    float64, shape (draws,)
    """
    draws, m = weight.shape
    kept = np.empty(m)  # of what is carried, over the gap before each point
    for i in range(1, m):
        kept[i] = np.exp((location[i - 1] - location[i]) / bandwidth)
    result = np.empty(draws)
    for draw in range(draws):
        carried = 0.0
        total = 0.0
        for i in range(m):
            if i > 0:
                carried = (carried + weight[draw, i - 1]) * kept[i]
            total += weight[draw, i] * (weight[draw, i] + 2.0 * carried)
        result[draw] = total
    return result


@njit()
def laplace_potential(location: Floats, weight: Floats, bandwidth: float) -> Floats:
    r"""The potential :math:`\sum_j w_j \exp(-|x_i - x_j| / h)` at each point, its own weight included.

    One running sum carries the points to the left, another those to the right: O(m).

    Parameters
    ----------
    location
        float64, shape (m,), ascending; the ends may be infinite.
    weight
        float64, shape (m,).
    bandwidth
        h > 0.

    Returns
    -------
    float64, shape (m,)
    """
    m = location.shape[0]
    result = weight.copy()
    carried = 0.0
    for i in range(1, m):
        carried = (carried + weight[i - 1]) * np.exp((location[i - 1] - location[i]) / bandwidth)
        result[i] += carried
    carried = 0.0
    for i in range(m - 2, -1, -1):
        carried = (carried + weight[i + 1]) * np.exp((location[i] - location[i + 1]) / bandwidth)
        result[i] += carried
    return result


@njit()
def laplace_cubic_form(location: Floats, weight: Floats, bandwidth: float) -> float:
    r"""The cubic form :math:`\sum_{abc} w_a w_b w_c k_{ab} k_{bc} k_{ac}`, which is the trace of :math:`(K W)^3`.

    Of three points the outer two are as far apart as the other distances add up to, so the product of the kernels is
    :math:`\exp(-2 d / h)` of that distance alone, and running sums over one and over two points to the left carry all
    triples: O(m).

    Parameters
    ----------
    location
        float64, shape (m,), ascending; the ends may be infinite.
    weight
        float64, shape (m,).
    bandwidth
        h > 0.
    """
    single = 0.0  # sums, over the points to the left, of the weights,
    square = 0.0  # of their squares
    pair = 0.0  # and over pairs of them, of the products
    total = 0.0
    for i in range(location.shape[0]):
        if i > 0:
            kept = np.exp(2.0 * (location[i - 1] - location[i]) / bandwidth)
            single *= kept
            square *= kept
            pair *= kept
        w = weight[i]
        # Triples whose last point is this one: of three points, of two in either way, and of this one alone.
        total += w * (6.0 * pair + 3.0 * square + w * (3.0 * single + w))
        pair += single * w
        single += w
        square += w * w
    return total
