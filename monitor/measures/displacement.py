"""How far predictions can lie from the score of their row: the basis of the error bounds."""

from typing import Final

import numpy as np
from scipy.special import logit

from monitor.arrays import Floats
from monitor.scores import ScoreTable, grid

ROUNDING: Final = 1.0 / grid.UNITS
"""Error of a row of the grid from counting predictions in whole units: half a unit in the residual of each event and
half a unit in its place."""


def residual_displacement(table: ScoreTable) -> Floats:
    r"""Upper bound of :math:`\sum |y - p| |p - x|` over the events of each row, x being the row's score.

    |p - x| is convex in p, so over predictions of mean u in [lo, hi] its mean is at most its chord at u,
    :math:`((hi - u)(x - lo) + (u - lo)(hi - x)) / (hi - lo)`; at u = x that is 2 (x - lo)(hi - x) / (hi - lo). The
    positives' residual is at most 1 - lo, the negatives' at most hi.

    Returns
    -------
    float64, shape (m,)
        0 where the row is one distinct prediction.
    """
    span = table.upper - table.lower
    wide = span > 0.0
    result = np.zeros(table.rows)
    low, high = table.lower[wide], table.upper[wide]
    at = np.clip(table.score[wide], low, high)  # rounding can move a mean past the edge
    for count, total, largest_residual in (
        (table.positives[wide], table.positive_sum[wide], 1.0 - low),
        (table.negatives[wide], table.negative_sum[wide], high),
    ):
        mean = np.clip(np.divide(total, count, out=low.copy(), where=count > 0.0), low, high)
        chord = ((high - mean) * (at - low) + (mean - low) * (high - at)) / span[wide]
        result[wide] += count * largest_residual * chord
    return result


def logit_displacement(table: ScoreTable) -> Floats:
    r"""Upper bound of :math:`\sum |y - p| \min(1, |z(p) - z(x)|)` over the events of each row, z being the logit.

    |z(p) - z(x)| is at most the larger of that at the row's two ends, and at most |p - x| times the largest slope
    1 / (p (1 - p)) there. The second is the smaller one in narrow cells, where the mean displacement counts; it is
    infinite next to p = 0 and 1. Whole units move a place by half a unit, before the slope.

    Returns
    -------
    float64, shape (m,)
        0 where the row is one distinct prediction.
    """
    wide = table.upper > table.lower
    result = np.zeros(table.rows)
    low, high = table.lower[wide], table.upper[wide]
    at = logit(table.score[wide])
    with np.errstate(invalid="ignore"):  # a score of 0 or 1 is an end of its row, and far only from the other end
        farthest = np.minimum(1.0, np.fmax(at - logit(low), logit(high) - at))
    flattest = np.minimum(low * (1.0 - low), high * (1.0 - high))
    moved = residual_displacement(table)[wide] + table.counts[wide] * ROUNDING
    with np.errstate(divide="ignore", over="ignore"):  # (nearly) infinitely steep: the other bound is smaller
        by_slope = moved / flattest
    result[wide] = np.minimum(np.maximum(table.absolute_residual[wide], 0.0) * farthest, by_slope)
    return result


def mean_residual_displacement(table: ScoreTable) -> float:
    """Upper bound of E[|y - p| |p - x|]; 0 for an exact table."""
    return float(residual_displacement(table).sum()) / table.total


def mean_distance(table: ScoreTable, target: Floats) -> float:
    """Upper bound of E|p - t|, the mean move of the predictions to the t of their row; exact for an exact table.

    |p - t| is convex in p, so in a row its mean is at most its chord over [lo, hi] at the predictions' mean.

    Parameters
    ----------
    table
        m rows.
    target
        float64, shape (m,): t. With the rows' scores, the result is the distance from these.
    """
    distance = np.abs(table.score - target)
    wide = table.upper > table.lower
    low, high, to = table.lower[wide], table.upper[wide], target[wide]
    at = np.clip(table.score[wide], low, high)
    distance[wide] = ((high - at) * np.abs(low - to) + (at - low) * np.abs(high - to)) / (high - low)
    return float(table.counts @ distance) / table.total + rounding(table)


def rounding(table: ScoreTable) -> float:
    """Error from whole units of a measure that moves by at most the mean change of the residuals and places."""
    return 0.0 if table.exact else ROUNDING
