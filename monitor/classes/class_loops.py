"""Loops over events of many classes: draws of outcomes, sums of residuals in bins, and sums over pairs of events."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.loops import njit


@njit()
def categorical_draws(rng: np.random.Generator, cumulative: Floats, draws: int) -> NDArray[np.int32]:
    """Draw one class for each prediction.

    Parameters
    ----------
    rng
        Uses one uniform number per draw and prediction.
    cumulative
        float64, shape (n, K): running sums of the probabilities.
    draws
        Number of draws.

    Returns
    -------
    int32, shape (draws, n)
        A class of probability 0 is never drawn.
    """
    n, classes = cumulative.shape
    result = np.empty((draws, n), np.int32)
    for draw in range(draws):
        for i in range(n):
            # The last sum may differ from 1 by rounding, so scale by it.
            target = rng.random() * cumulative[i, classes - 1]
            low, high = 0, classes - 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[i, middle] > target:
                    high = middle
                else:
                    low = middle + 1
            result[draw, i] = low
    return result


@njit()
def hits_of_draws(bins: NDArray[np.int32], outcomes: NDArray[np.int32], size: int) -> Floats:
    """Count the outcomes whose predicted probability is in each bin.

    Parameters
    ----------
    bins
        int32, shape (n, K): the bin of each probability, -1 for none.
    outcomes
        int32, shape (draws, n).
    size
        Number of bins.

    Returns
    -------
    float64, shape (draws, size)
    """
    draws, n = outcomes.shape
    result = np.zeros((draws, size))
    for draw in range(draws):
        for i in range(n):
            index = bins[i, outcomes[draw, i]]
            if index >= 0:
                result[draw, index] += 1.0
    return result


@njit()
def weighted_residuals(bins: NDArray[np.int32], prediction: Floats, outcome: Ints, weight: Floats, size: int) -> Floats:
    """Sum weighted residuals e_y - p in each bin.

    Parameters
    ----------
    bins
        int32, shape (n, K): the bin of each probability, -1 for none.
    prediction
        float64, shape (n, K).
    outcome
        int64, shape (n,).
    weight
        float64, shape (draws, n): weights of the events.
    size
        Number of bins.

    Returns
    -------
    float64, shape (draws, size)
    """
    draws = weight.shape[0]
    n, classes = bins.shape
    result = np.zeros((draws, size))
    for draw in range(draws):
        for i in range(n):
            factor = weight[draw, i]
            if factor == 0.0:
                continue
            for k in range(classes):
                index = bins[i, k]
                if index >= 0:
                    result[draw, index] += factor * ((1.0 if k == outcome[i] else 0.0) - prediction[i, k])
    return result


EXPONENTIAL: Final = 0
GAUSSIAN: Final = 1
TV_EXPONENTIAL: Final = 2

REASSOCIATED: Final = {"reassoc", "contract", "nsz"}
"""Allows vectorised sums over classes; infinities and nan stay valid."""


@njit(fastmath=REASSOCIATED)
def _kernel(p: Floats, q: Floats, kind: int, lengthscale: float) -> float:
    """Kernel of two probability vectors: see :class:`~monitor.classes.skce.VectorKernel`."""
    total = 0.0
    if kind == TV_EXPONENTIAL:
        for k in range(p.shape[0]):
            total += abs(p[k] - q[k])
        return math.exp(-0.5 * total / lengthscale)
    for k in range(p.shape[0]):
        difference = p[k] - q[k]
        total += difference * difference
    if kind == GAUSSIAN:
        return math.exp(-0.5 * total / (lengthscale * lengthscale))
    return math.exp(-math.sqrt(total) / lengthscale)


@njit(fastmath=REASSOCIATED)
def _products(p: Floats, q: Floats) -> tuple[float, float]:
    """Sum of p q, and the trace of the product of the two vectors' covariances."""
    both = squared = 0.0
    for k in range(p.shape[0]):
        product = p[k] * q[k]
        both += product
        squared += product * (p[k] + q[k])
    # tr(S_p S_q) = sum pq - sum p^2 q - sum p q^2 + (sum pq)^2
    return both, both - squared + both * both


@njit()
def pair_sums(prediction: Floats, outcome: Ints, kind: int, lengthscale: float) -> tuple[float, float, float]:
    r"""Sums over all i < j of what the estimators of the SKCE and their variances are made of.

    Parameters
    ----------
    prediction
        float64, shape (n, K).
    outcome
        int64, shape (n,).
    kind, lengthscale
        The kernel k.

    Returns
    -------
    terms, squared_terms, null_squares
        Of h_ij = k(p_i, p_j) <e_{y_i} - p_i, e_{y_j} - p_j>, of h_ij^2, and of what h_ij^2 is expected to be if each
        outcome is drawn from its prediction, k(p_i, p_j)^2 tr(S_i S_j).
    """
    terms = squares = null = 0.0
    for i in range(outcome.shape[0]):
        p, y = prediction[i], outcome[i]
        # A sum a row, so that rounding grows with n and not with n^2.
        row_terms = row_squares = row_null = 0.0
        for j in range(i):
            q, z = prediction[j], outcome[j]
            near = _kernel(p, q, kind, lengthscale)
            both, trace = _products(p, q)
            term = near * (both - p[z] - q[y] + (1.0 if y == z else 0.0))
            row_terms += term
            row_squares += term * term
            row_null += near * near * trace
        terms += row_terms
        squares += row_squares
        null += row_null
    return terms, squares, null


@njit()
def block_means(prediction: Floats, outcome: Ints, size: int, kind: int, lengthscale: float) -> Floats:
    """Mean of h over the pairs of each whole block of ``size`` consecutive events; float64, shape (n // size,)."""
    blocks = outcome.shape[0] // size
    result = np.empty(blocks)
    for block in range(blocks):
        part = slice(block * size, (block + 1) * size)
        result[block] = pair_sums(prediction[part], outcome[part], kind, lengthscale)[0] / (0.5 * size * (size - 1))
    return result


@njit()
def term_rows(prediction: Floats, outcome: Ints, first: int, end: int, kind: int, lengthscale: float) -> Floats:
    """Terms h_ij of the events i in [first, end) with all events j; float64, shape (end - first, n)."""
    n = outcome.shape[0]
    result = np.empty((end - first, n))
    for i in range(first, end):
        p, y = prediction[i], outcome[i]
        for j in range(n):
            q, z = prediction[j], outcome[j]
            both, _ = _products(p, q)
            result[i - first, j] = _kernel(p, q, kind, lengthscale) * (both - p[z] - q[y] + (1.0 if y == z else 0.0))
    return result


@njit()
def pair_distances(prediction: Floats, total_variation: bool) -> Floats:
    """Distance of every pair i < j, Euclidean or total variation; float64, shape (n (n - 1) / 2,)."""
    n, classes = prediction.shape
    result = np.empty(n * (n - 1) // 2)
    at = 0
    for i in range(n):
        for j in range(i):
            total = 0.0
            for k in range(classes):
                difference = prediction[i, k] - prediction[j, k]
                total += abs(difference) if total_variation else difference * difference
            result[at] = 0.5 * total if total_variation else math.sqrt(total)
            at += 1
    return result
