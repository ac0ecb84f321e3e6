"""Loops that let evidence grow."""

import math

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

NEVER = -(2**62)
"""Position of a series without a step."""

_MAX_VALUE = 1e250
_MAX_LOG_BET = 700.0


@njit()
def grow(value: Floats, weight: float, log_bet: Floats) -> float:
    """Let the processes of all alternatives grow, ``M <- (M + weight) * e``, and return their mean.

    What does not fit a float is cut off: a smaller bet is a valid bet.
    """
    total, alternatives = 0.0, value.shape[0]
    for k in range(alternatives):
        bet = math.exp(min(log_bet[k], _MAX_LOG_BET))
        value[k] = min((value[k] + weight) * bet, _MAX_VALUE)
        total += value[k]
    return total / float(alternatives)


@njit()
def rise(score: Floats, since_ms: Ints, end_ms: int, log_bet: Floats) -> None:
    """Keep, for each alternative, the largest sum of all log bets since some step, and since when (CUSUM)."""
    for k in range(score.shape[0]):
        if log_bet[k] != 0.0:
            score[k] += log_bet[k]
            if score[k] <= 0.0:
                score[k] = 0.0
                since_ms[k] = end_ms


@njit()
def accumulate(
    value: Floats,
    score: Floats,
    since_ms: Ints,
    mean: Floats,
    to_ms: Ints,
    group: Ints,
    position_ms: int,
    series: Ints,
    end_ms: Ints,
    log_bet: Floats,
    period_ms: int,
    threshold: float,
) -> tuple[int, float]:
    """Let the evidence of several series grow step by step, until their average reaches a threshold.

    Rows without a bet leave everything as it is: the time that they took is added with the next bet.

    Parameters
    ----------
    value, score
        float64, shape (series, alternatives); changed in place, like the next three.
    since_ms
        int64, shape (series, alternatives): see :func:`rise`.
    mean
        float64, shape (series,): the mean of ``value``.
    to_ms
        int64, shape (series,): end of each series' last bet, or :data:`NEVER`.
    group
        int64, shape (series,): groups have equal weights, and so have the series of a group. Both are counted from
        their first bets on, so no weight ever grows.
    position_ms
        End of the last bet of any series.
    series, end_ms
        int64, shape (rows,): ordered by ``end_ms``.
    log_bet
        float64, shape (rows, alternatives).
    period_ms
        Time in which a weight of 1 is added.
    threshold
        Of the average.

    Returns
    -------
    tuple
        The position after the last row that was read, and the average.
    """
    groups, rows = 0, end_ms.shape[0]
    for s in range(group.shape[0]):
        groups = max(groups, group[s] + 1)
    size = np.zeros(groups, np.int64)
    for s in range(group.shape[0]):
        if to_ms[s] != NEVER:
            size[group[s]] += 1
    row, average = 0, _average(mean, group, size)
    while row < rows:
        end, bets = end_ms[row], False
        while row < rows and end_ms[row] == end:
            s = series[row]
            if _any(log_bet[row]):
                bets = True
                if to_ms[s] == NEVER:
                    size[group[s]] += 1
                    to_ms[s] = position_ms
                    since_ms[s] = position_ms
                mean[s] = grow(value[s], (end - to_ms[s]) / period_ms, log_bet[row])
                rise(score[s], since_ms[s], end, log_bet[row])
                to_ms[s] = end
            row += 1
        if bets:
            position_ms = end
            average = _average(mean, group, size)
            if average >= threshold:
                break
    return position_ms, average


@njit()
def _any(log_bet: Floats) -> bool:
    result = False
    for k in range(log_bet.shape[0]):
        result |= log_bet[k] != 0.0
    return result


@njit()
def _average(mean: Floats, group: Ints, size: Ints) -> float:
    groups = np.count_nonzero(size)
    result = 0.0
    for s in range(mean.shape[0]):
        if mean[s] > 0.0:
            result += mean[s] / (groups * size[group[s]])
    return result


@njit()
def first_recovery(loss: Floats, log_bet: Floats, alternatives: Ints, margin: float) -> int:
    """Return the first row after which every alternative has lost more than a margin since some step, or -1.

    Parameters
    ----------
    loss
        float64, shape (alternatives of interest,): the largest loss of each since some step; changed in place.
    log_bet
        float64, shape (rows, alternatives).
    alternatives
        int64: columns of ``log_bet``, one for each entry of ``loss``.
    margin
        In logarithms.
    """
    for row in range(log_bet.shape[0]):
        least = np.inf
        for at in range(alternatives.shape[0]):
            loss[at] = max(loss[at] - log_bet[row, alternatives[at]], 0.0)
            least = min(least, loss[at])
        if least >= margin:
            return row
    return -1
