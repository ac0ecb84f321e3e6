r"""The common shock: how much the logits of all events of a period are off together, from period to period.

Outcomes that share a shock inside the horizon are no independent evidence: what alarms guarantee rests on a tolerance
that covers it. In period t of one horizon, let r be the sum of y - q over its events and V that of q (1 - q), with q
the predictions after the offset that suits all periods together. A shock of variance s in logits makes

.. math:: E[r_t^2] = V_t + s V_t^2

and the estimate is that of DerSimonian and Laird for the offsets r_t / V_t, whose weights are V_t. Source: section 4 of
the mathematics.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, gammaincinv, logit

from monitor.errors import NotEnoughData
from monitor.roots import brentq
from monitor.scores import grid
from monitor.scores.grid_table import NEGATIVE_SUM, NEGATIVES, POSITIVE_SUM, POSITIVES
from monitor.scores.steps import Steps

MAX_DEVIATION: Final = 10.0
"""Logits: the largest standard deviation that is searched for."""

_TAIL: Final = 0.025
_SURE: Final = 1e-12
"""Distance from 0 and 1 to which predictions are moved, whose logits would be infinite."""


@dataclass(frozen=True, slots=True)
class CommonShock:
    """Standard deviation of the common shock of a period, in logits.

    Attributes
    ----------
    deviation
        The estimate, 0 or more.
    lower, upper
        Its 95% interval.
    periods
        Number of periods with events.
    """

    deviation: float
    lower: float
    upper: float
    periods: int


def common_shock(steps: Steps, horizon_ms: int) -> CommonShock:
    """Estimate the common shock of periods of one horizon; a step belongs to the period in which it ends.

    The interval inverts the statistic Q(s), the sum of r^2 / (V + s V^2) (Viechtbauer 2007), whose law is taken for the
    Gamma law of its mean, the number of periods less one, and its variance. That is larger than of the chi-squared law
    where a period has few positives, and where large shocks move rates more one way than the other: as the fourth
    cumulants of the sums r say: of outcomes to first order in s, of shocks to third order in the estimate.

    Parameters
    ----------
    steps
        Settled predictions.
    horizon_ms
        Length of a period.

    Raises
    ------
    NotEnoughData
        There are fewer than two periods with events, or all outcomes are equal.
    """
    cell, values = steps.cell, steps.values
    positives, negatives = (values[:, column].astype(np.float64) for column in (POSITIVES, NEGATIVES))
    counts = positives + negatives
    above = (values[:, POSITIVE_SUM] + values[:, NEGATIVE_SUM]) / np.maximum(counts, 1.0)
    z = logit(np.clip((grid.anchors()[cell] + above) / grid.UNITS, _SURE, 1.0 - _SURE))
    period = np.repeat((steps.end_ms - 1) // horizon_ms, np.diff(steps.first))
    distinct, place = np.unique(period[counts > 0], return_inverse=True)
    if distinct.size < 2:
        raise NotEnoughData(f"a common shock needs 2 periods with outcomes, got {distinct.size}")
    if positives.sum() == 0.0 or negatives.sum() == 0.0:
        raise NotEnoughData(f"a common shock needs outcomes of both kinds, got {positives.sum():.0f} positive ones")
    z, positives, counts = z[counts > 0], positives[counts > 0], counts[counts > 0]

    def surplus(offset: float) -> float:
        return float(counts @ expit(z + offset) - positives.sum())

    q = expit(z + brentq(surplus, -60.0, 60.0))
    variance = counts * q * (1.0 - q)
    columns = (positives - counts * q, variance, variance * (1.0 - 6.0 * q * (1.0 - q)))
    residual, information, cumulant = (np.bincount(place, column) for column in columns)
    freedom, total = distinct.size - 1, float(information.sum())
    # How information depends on the offset: its first two derivatives, as shares of it.
    first, second = float((variance * (1.0 - 2.0 * q)).sum()) / total, float(cumulant.sum()) / total

    def statistic(s: float) -> float:
        return float((residual**2 / (information + s * information**2)).sum())

    linear = (statistic(0.0) - freedom) / (total - float((information**2).sum()) / total)
    shocks = (12.0 * first**2 + 4.0 * second) * max(linear, 0.0)

    def quantile(s: float, share: float) -> float:
        # Of the outcomes given their shock, which moves their variance, too; and of the shocks.
        shocked = s * information**2
        outcomes = cumulant * (1.0 + 7.0 * s * information)
        excess = np.maximum(outcomes + shocks * shocked**2, 0.0) / (information + shocked) ** 2
        shape = freedom**2 / float((2.0 + excess).sum())
        return float(gammaincinv(shape, share)) * freedom / shape

    # Second order: how the variance of r grows with the square of s.
    bend = second - first**2 / 2.0
    lower = _root(lambda s: statistic(s) - quantile(s, 1.0 - _TAIL))
    upper = _root(lambda s: statistic(s) - quantile(s, _TAIL))
    return CommonShock(_deviation(linear, bend), _deviation(lower, bend), _deviation(upper, bend), distinct.size)


def _root(function: Callable[[float], float]) -> float:
    """Where a decreasing function is 0; 0 where it is below 0 from the start."""
    largest = MAX_DEVIATION**2
    if function(0.0) <= 0.0:
        return 0.0
    return largest if function(largest) > 0.0 else brentq(function, 0.0, largest)


def _deviation(linear: float, bend: float) -> float:
    """The standard deviation whose square s solves s + bend s^2 = linear."""
    if linear <= 0.0:
        return 0.0
    # Where bend is negative, s + bend s^2 has a largest value, at s = 2 linear, which goes on from there.
    return math.sqrt(2.0 * linear / (1.0 + math.sqrt(max(1.0 + 4.0 * bend * linear, 0.0))))
