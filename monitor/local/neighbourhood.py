"""Averages over soft neighbourhoods."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.local.neighbour_loops import city_block

Floats = NDArray[np.float64]

Kernel = Callable[[Floats, Floats], Floats]
"""(points (q, d), others (n, d)) -> how much each other counts for each point, in [0, 1], shape (q, n)."""


class Kernels(NamedTuple):
    """Several kernels that share work.

    Attributes
    ----------
    number
        How many they are.
    weights
        As of a :data:`Kernel`, of each of them in turn. Who takes an array may write into it; so does the next.
    """

    number: int
    weights: Callable[[Floats, Floats], Iterator[Floats]]


_POINTS: Final = 1024
_OTHERS: Final = 4096
"""Their weights are held at a time: 32 MB. Smaller products would be slower, because the threads of a product wait for
each other, on a busy machine for milliseconds."""


def laplace_kernel(gamma: float) -> Kernel:
    """The kernel exp(-||a - b||_1 / (d gamma)), d the number of coordinates (paper, section 3.2)."""

    def weights(points: Floats, others: Floats) -> Floats:
        return next(laplace_kernels([gamma]).weights(points, others))

    return weights


def laplace_kernels(gammas: Sequence[float]) -> Kernels:
    """:func:`laplace_kernel` of several gammas, which share the distances."""

    def weights(points: Floats, others: Floats) -> Iterator[Floats]:
        distance = city_block(points, np.ascontiguousarray(others.T))
        weight = distance if len(gammas) == 1 else np.empty_like(distance)
        for gamma in gammas:
            np.divide(distance, -points.shape[1] * gamma, out=weight)
            np.exp(weight, out=weight)
            yield weight

    return Kernels(len(gammas), weights)


def group_kernel(points: Floats, others: Floats) -> Floats:
    """1 where all coordinates are equal, else 0: 1[same group], if the only coordinate numbers the groups."""
    same = (points[:, None, :] == others[None, :, :]).all(axis=2)
    return np.asarray(same, np.float64)


def alone(kernel: Kernel) -> Kernels:
    """One kernel as several."""

    def weights(points: Floats, others: Floats) -> Iterator[Floats]:
        yield kernel(points, others)

    return Kernels(1, weights)


def averages(
    kernel: Kernel,
    points: Floats,
    others: Floats,
    columns: Callable[[slice], Floats],
    weight: Floats | None = None,
) -> tuple[Floats, Floats]:
    """:func:`averages_of` one kernel: means (q, c) and n_eff (q,)."""
    means, n_eff = averages_of(alone(kernel), points, others, columns, weight)
    return means[0], n_eff[0]


def averages_of(
    kernels: Kernels,
    points: Floats,
    others: Floats,
    columns: Callable[[slice], Floats],
    weight: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Means of the others' values about each point, weighted by each kernel, and of how many others they are.

    Parameters
    ----------
    kernels
        How much one point counts for another.
    points, others
        float64, shapes (q, d) and (n, d), contiguous by rows.
    columns
        Some of the others' rows -> their values, shape (rows, c). Asked for each row once, in ascending order, so that
        it may draw them.
    weight
        float64, shape (n,), above 0: of each other, beside the kernel; all 1 if left out.

    Returns
    -------
    means
        float64, shape (kernels, q, c); nan for a point so far from all others that no weight is left.
    n_eff
        float64, shape (kernels, q): (sum of weights)^2 / (sum of squared weights), how many others of equal weight
        would vary as much; 0 where no weight is left.
    """
    number = kernels.number
    total, squares = np.zeros((number, points.shape[0])), np.zeros((number, points.shape[0]))
    sums = np.zeros((number, points.shape[0], 0))
    for start in range(0, others.shape[0], _OTHERS):
        rows = slice(start, start + _OTHERS)
        values = columns(rows)
        if start == 0:
            sums = np.zeros((number, points.shape[0], values.shape[1]))
        for first in range(0, points.shape[0], _POINTS):
            block = slice(first, first + _POINTS)
            for at, k in enumerate(kernels.weights(points[block], others[rows])):
                if weight is not None:
                    k *= weight[rows]  # noqa: PLW2901 - in place: it is a large matrix
                sums[at, block] += k @ values
                total[at, block] += k.sum(axis=1)
                squares[at, block] += np.einsum("ij,ij->i", k, k)
    near = squares > 0.0
    means = np.full_like(sums, np.nan)
    means[near] = sums[near] / total[near][:, None]
    n_eff = np.zeros_like(total)
    n_eff[near] = total[near] ** 2 / squares[near]
    return means, n_eff
