"""Averages over soft neighbourhoods."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.arrays import Floats
from monitor.local.neighbour_loops import city_block
from monitor.scores.table import effective_number


class Kernels(NamedTuple):
    """Several kernels that share distances.

    Attributes
    ----------
    number
        How many kernels.
    weights
        (points (q, d), others (n, d)) -> for each kernel how much each other counts for each point, in [0, 1], shape
        (q, n). The caller may write into an array; the next one overwrites it.
    """

    number: int
    weights: Callable[[Floats, Floats], Iterator[Floats]]


_POINTS: Final = 1024
_OTHERS: Final = 4096
"""Size of the blocks of weights, 32 MB. Smaller products are slower, because the threads of a product wait for each
other, on a busy machine for milliseconds."""


def laplace_kernels(gammas: Sequence[float]) -> Kernels:
    """Return the kernels exp(-||a - b||_1 / (d gamma)), with d coordinates (paper, section 3.2)."""

    def weights(points: Floats, others: Floats) -> Iterator[Floats]:
        distance = city_block(points, np.ascontiguousarray(others.T))
        weight = distance if len(gammas) == 1 else np.empty_like(distance)
        for gamma in gammas:
            np.divide(distance, -points.shape[1] * gamma, out=weight)
            np.exp(weight, out=weight)
            yield weight

    return Kernels(len(gammas), weights)


def _same_group(points: Floats, others: Floats) -> Iterator[Floats]:
    yield (points[:, None, :] == others[None, :, :]).all(axis=2).astype(np.float64)


GROUP_KERNEL: Final = Kernels(1, _same_group)
"""1 where all coordinates are equal, else 0: 1[same group], if the only coordinate is the group's number."""


def averages(
    kernels: Kernels, points: Floats, others: Floats, columns: Callable[[slice], Floats], weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Average the others' values around each point, weighted by each kernel, and count effective neighbours.

    Parameters
    ----------
    kernels
        How much each other counts for a point.
    points, others
        float64, shapes (q, d) and (n, d), contiguous by rows.
    columns
        Rows of the others -> their values, shape (rows, c). Called once for each row, in ascending order, so it may
        draw random values.
    weight
        float64, shape (n,), above 0: weights of the others; all 1 if left out.

    Returns
    -------
    means
        float64, shape (kernels, q, c); nan for a point so far from all others that all weights are 0.
    n_eff
        float64, shape (kernels, q): effective number of others, (sum of weights)^2 / (sum of squared weights); 0 where
        no weight is left.
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
            for index, k in enumerate(kernels.weights(points[block], others[rows])):
                if weight is not None:
                    k *= weight[rows]  # noqa: PLW2901 - in place: it is a large matrix
                sums[index, block] += k @ values
                total[index, block] += k.sum(axis=1)
                squares[index, block] += np.einsum("ij,ij->i", k, k)
    near = squares > 0.0
    means = np.full_like(sums, np.nan)
    means[near] = sums[near] / total[near][:, None]
    return means, effective_number(total, squares)
