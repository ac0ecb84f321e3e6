"""Loops over events of many classes: draw outcomes from predictions, and sum residuals in bins."""

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.compiled import njit


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
