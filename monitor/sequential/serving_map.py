r"""D4: evidence that the map that serves does harm.

With p the model's prediction and q what the map makes of it, the bet on an event is

.. math:: e = 1 + \lambda [(y - q)^2 - (y - p)^2]

and that on a step the product over its events, with :math:`\lambda = \beta / m`, m the most that an event of the step
can lose. The null hypothesis: in every step, given its predictions and all earlier steps, the outcomes are independent,
and the map's Brier score is not expected to be worse than that of the predictions. It may be worse among some of them.
For the product of the means 1 + lambda d_i is at most the power of their mean, (1 + lambda mean(d_i))^n <= 1.

Closings hold raw predictions only, in cells. There the map is that which is linear within each cell, between the values
of the map at its ends: the null hypothesis is about this one. Of smooth maps it differs by at most a millionth or so;
of one with steps, in the cells that the steps lie in. In other respects the bets on cells are rigorous: they are no
larger than those on the events. Source: section 4 of the mathematics.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.scores import grid
from monitor.scores.steps import Steps
from monitor.sequential.detector import Bets, State
from monitor.sequential.serving_map_loops import sum_losses

SHARES: Final = (0.05, 0.2, 0.5, 0.9)
"""Shares beta that may be lost on an event; the evidence is the mean over them."""

MIN_LOSS: Final = 1e-100
"""Largest possible loss below which no bet is scaled by it: the bet would overflow."""


class ServingMapBets:
    """Bets that a map of predictions alone does harm, on the steps since it serves one series.

    Parameters
    ----------
    recalibrate
        Turns predictions, float64, shape (n,), into those that the map serves.
    """

    def __init__(self, recalibrate: Callable[[Floats], Floats]) -> None:
        self._line, self._most = _tabulate(recalibrate)

    @property
    def names(self) -> list[str]:
        """A name for each alternative, in the order of the columns of bets."""
        return [f"share {share:g}" for share in SHARES]

    def bet(self, steps: Steps) -> Bets:
        r"""Bet on steps; one row a step.

        The logarithm of a step's bet is computed from two sums, by a bound of each event's: for x >= -beta,

        .. math:: \log(1 + x) \ge x - \frac{-\log(1 - \beta) - \beta}{\beta^2} x^2
        """
        total, squares, most = sum_losses(steps.first, steps.cell, steps.values, self._line, self._most).T
        beta = np.array(SHARES)
        bound = (-np.log1p(-beta) - beta) / beta**2
        stake = np.where(most > MIN_LOSS, 1.0 / np.maximum(most, MIN_LOSS), 0.0)[:, None] * beta
        return Bets(steps.end_ms, stake * total[:, None] - bound * stake**2 * squares[:, None])

    def state(self) -> State:
        """There is none: bets depend on the map alone."""
        return {}

    @classmethod
    def from_state(cls, _state: Mapping[str, Any], recalibrate: Callable[[Floats], Floats]) -> "ServingMapBets":
        """Continue with the same map."""
        return cls(recalibrate)


def bet_on_events(prediction: Floats, recalibrated: Floats, outcome: Ints, weight: Floats | None = None) -> Floats:
    """Bet that a map does harm, on events of one step that are at hand one by one, such as those of a sample.

    For maps of features, which closings do not hold. The result is the same to the last bit in any order of the events.

    Parameters
    ----------
    prediction, recalibrated
        float64, shape (n,) or (n, K): without the map, and with it.
    outcome
        int64, shape (n,).
    weight
        float64, shape (n,), above 0: how many events each represents. A sample has to have a number of events of each
        stratum that does not depend on outcomes; the null hypothesis is then about the weighted mean.

    Returns
    -------
    float64, shape (4,): the logarithm for each of :data:`SHARES`.
    """
    loss, most = gains(recalibrated, prediction, outcome)
    if weight is not None:
        loss, most = weight * loss, weight * most
    largest = float(most.max(initial=0.0))
    if largest < MIN_LOSS:
        return np.zeros(len(SHARES))
    return np.array([math.fsum(np.log1p(share / largest * loss).tolist()) for share in SHARES])


def gains(baseline: Floats, challenger: Floats, outcome: Ints) -> tuple[Floats, Floats]:
    """Compute the Brier loss of the baseline minus the challenger's, and its largest possible loss, (n,) each.

    Differences of squares are factored: otherwise predictions that differ in their last bits only would have rounding
    errors larger than the possible loss, and so factors below 0.
    """
    change = challenger - baseline
    if baseline.ndim == 1:
        if_0, if_1 = -change * (baseline + challenger), change * ((1.0 - baseline) + (1.0 - challenger))
        return np.where(outcome == 1, if_1, if_0), np.maximum(np.maximum(-if_0, -if_1), 0.0)
    common = (change * (baseline + challenger)).sum(axis=1) / 2.0
    gain = change[np.arange(outcome.size), outcome] - common
    return gain, np.maximum(common - change.min(axis=1), 0.0)


def _tabulate(recalibrate: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Tabulate what the map loses on an event: see :func:`sum_losses`.

    With q linear, the loss is quadratic in p: it is bounded from below by its chord where it is concave, and by its
    tangent in the middle where it is convex. It is a product of two linear terms, each largest at one of the ends.
    """
    lower = grid.edges()
    upper = np.maximum(lower, np.nextafter(grid.upper_edges(), 0.0))
    ends = np.array([lower, upper])
    q = np.asarray(recalibrate(ends.ravel())).reshape(ends.shape)
    width = np.where(upper > lower, upper - lower, 1.0)
    slope, middle = (q[1] - q[0]) / width, ends.mean(axis=0)
    above_anchor = grid.anchors() / grid.UNITS
    lines, most = [], []
    # (1 - q)^2 - (1 - p)^2 = (p - q) ((1 - q) + (1 - p)), and q^2 - p^2 = (q - p) (q + p).
    for change, both in ((ends - q, 2.0 - q - ends), (q - ends, q + ends)):
        loss = change * both
        chord = (loss[1] - loss[0]) / width
        # Half the width squared, times half the second derivative: how far the tangent lies below the chord.
        convex = np.maximum(slope**2 - 1.0, 0.0) * (ends[1] - ends[0]) ** 2 / 4.0
        at_middle = loss.mean(axis=0) - convex
        lines.append([at_middle + chord * (above_anchor - middle), chord / grid.UNITS])
        most.append(np.abs(change).max(axis=0) * np.abs(both).max(axis=0))
    return np.ascontiguousarray(np.array(lines).transpose(2, 0, 1)), np.ascontiguousarray(np.array(most).T)
