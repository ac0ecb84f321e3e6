"""Averages over soft neighbourhoods."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]

Kernel = Callable[[Floats, Floats], Floats]
"""(points (q, d), others (n, d)) -> how much each other counts for each point, in [0, 1], shape (q, n)."""

_POINTS: Final = 1024
_OTHERS: Final = 4096
"""Their weights are held at a time: 32 MB. Smaller products would be slower, because the threads of a product wait for
each other, on a busy machine for milliseconds."""


def laplace_kernel(gamma: float) -> Kernel:
    """The kernel exp(-||a - b||_1 / (d gamma)), d the number of coordinates (paper, section 3.2)."""

    def weights(points: Floats, others: Floats) -> Floats:
        weight: Floats = cdist(points, others, "cityblock")
        weight /= -points.shape[1] * gamma
        np.exp(weight, out=weight)
        return weight

    return weights


def group_kernel(points: Floats, others: Floats) -> Floats:
    """1 where all coordinates are equal, else 0: 1[same group], if the only coordinate numbers the groups."""
    same = (points[:, None, :] == others[None, :, :]).all(axis=2)
    return np.asarray(same, np.float64)


def averages(
    kernel: Kernel, points: Floats, others: Floats, columns: Callable[[slice], Floats]
) -> tuple[Floats, Floats]:
    """Means of the others' values about each point, weighted by the kernel, and of how many others they are.

    Parameters
    ----------
    kernel
        How much one point counts for another.
    points, others
        float64, shapes (q, d) and (n, d), contiguous by rows.
    columns
        Some of the others' rows -> their values, shape (rows, c). Asked for each row once, in ascending order, so that
        it may draw them.

    Returns
    -------
    means
        float64, shape (q, c); nan for a point so far from all others that no weight is left.
    n_eff
        float64, shape (q,): (sum of weights)^2 / (sum of squared weights), how many others of equal weight would vary
        as much; 0 where no weight is left.
    """
    total, squares = np.zeros(points.shape[0]), np.zeros(points.shape[0])
    sums = np.zeros((points.shape[0], 0))
    for start in range(0, others.shape[0], _OTHERS):
        rows = slice(start, start + _OTHERS)
        values = columns(rows)
        if start == 0:
            sums = np.zeros((points.shape[0], values.shape[1]))
        for first in range(0, points.shape[0], _POINTS):
            block = slice(first, first + _POINTS)
            weight = kernel(points[block], others[rows])
            sums[block] += weight @ values
            total[block] += weight.sum(axis=1)
            squares[block] += np.einsum("ij,ij->i", weight, weight)
    near = squares > 0.0
    means = np.full_like(sums, np.nan)
    means[near] = sums[near] / total[near, None]
    n_eff = np.zeros(points.shape[0])
    n_eff[near] = total[near] ** 2 / squares[near]
    return means, n_eff
