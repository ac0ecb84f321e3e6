"""Loops that let evidence grow."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit


@njit()
def accumulate(log_value: Floats, log_weight: Floats, log_bet: Floats) -> Floats:
    """Let the processes of all alternatives grow: ``M <- (M + weight) * e``, in logarithms.

    Parameters
    ----------
    log_value
        float64, shape (alternatives,): log M before the first step; on return, after the last one.
    log_weight
        float64, shape (steps,).
    log_bet
        float64, shape (steps, alternatives): log e.

    Returns
    -------
    float64, shape (steps,): the logarithm of the mean of M over the alternatives, after each step.
    """
    steps, alternatives = log_bet.shape
    result = np.empty(steps)
    for step in range(steps):
        largest = -np.inf
        for k in range(alternatives):
            high, low = max(log_value[k], log_weight[step]), min(log_value[k], log_weight[step])
            log_value[k] = high + np.log1p(np.exp(low - high)) + log_bet[step, k]
            largest = max(largest, log_value[k])
        total = 0.0
        for k in range(alternatives):
            total += np.exp(log_value[k] - largest)
        result[step] = largest + np.log(total / alternatives)
    return result


@njit()
def latest_rise(score: Floats, since_ms: Ints, end_ms: Ints, log_bet: Floats) -> None:
    """Keep, for each alternative, the largest evidence of all data since some step, and since when (CUSUM).

    Parameters
    ----------
    score, since_ms
        float64 and int64, shape (alternatives,): before the first step; on return, after the last one.
    end_ms
        int64, shape (steps,).
    log_bet
        float64, shape (steps, alternatives).
    """
    for step in range(log_bet.shape[0]):
        for k in range(log_bet.shape[1]):
            score[k] += log_bet[step, k]
            if score[k] <= 0.0:
                score[k] = 0.0
                since_ms[k] = end_ms[step]
