"""Find the last change of calibration in a sample; refits use the events since then."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Bools, Floats, Ints
from monitor.inference.cox import fit_cox, logits
from monitor.inference.newton import fit_logistic
from monitor.local.calibration import confidence_and_hit
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents

LEVEL: Final = 0.02
"""Significance level of each search. A search follows each change found, so two can err if there is a change."""

DRAWS: Final = 499
BLOCKS: Final = 500
"""Blocks of equal numbers of events in time: a change is searched at their ends, and then event by event."""

_TRIM: Final = 0.05
"""Share of the events that must lie on either side of a change."""
_MIN_OF_EACH_OUTCOME: Final = 20.0
"""Events of each outcome that must lie on either side of a change: with fewer, little is known about that side."""
_OUTLYING: Final = 0.01
"""Logits are clipped to the quantiles of this share at either end: one wrong prediction of 0 or 1 would outweigh a
thousand others."""
_RARER_PER_BEND: Final = 100
_BENDS: Final = 4
"""The fit has one bend per this many events of the rarer outcome, at most four. (With a bend for each 50, a
search at a level of .02 found a change in .04 of samples of 170 positives without any.)"""
_MAX_COEFFICIENT: Final = 100.0
"""Bound of each coefficient of the fit."""
_UNSURE: Final = -2.0 * math.log(1.0 - math.sqrt(0.95))
"""Places whose statistic is below the largest by no more than this are possible; the true place is one of them with a
probability of .95. (Half the difference is the larger of two exponential variables, one per side.)"""


@dataclass(frozen=True, slots=True)
class CalibrationChange:
    """A change of calibration.

    Attributes
    ----------
    row
        The first event after it.
    time_ms
        The time of that event.
    p_value
        Of the hypothesis that calibration, good or bad, is constant throughout the searched events.
    """

    row: int
    time_ms: int
    p_value: float


def last_change(events: LabelledEvents, *, seed: int = 0) -> CalibrationChange | None:
    """Return the last change of calibration, or None: see :func:`changes`."""
    return next(reversed(changes(events, seed=seed)), None)


def changes(events: LabelledEvents, *, seed: int = 0) -> list[CalibrationChange]:
    r"""Find changes of calibration, each after the one before, up to the last.

    The model may always be miscalibrated: the test is whether it is so in the same way. A fit to all events
    gives their logits, :math:`\eta_i`: linear in z, the logit of the prediction, between a few bends. The residuals of
    that fit in the directions of an offset and of a slope,

    .. math:: s_i = w_i \left(y_i - \sigma(\eta_i)\right) (1, z_i), \qquad S_k = \sum_{i \le k} s_i,

    add up to 0, and on the way stay as close to it as chance explains, if calibration is constant. The
    statistic is the largest :math:`S_k' V_k^{-1} S_k` over all k with enough events on either side, V_k the variance of
    S_k given the fit. Its law comes from outcomes drawn by the fit, to which offset and slope are fitted anew. So a
    change of the *predictions* alone is none: neither of their mean, nor of their number. (Without bends, it was one
    wherever errors of another shape than offset and slope met it: in .15 of samples of 5,000, at a level of .02.)

    Where there is a change, later events are searched in the same way, until no further one is found: those that lie
    after it even if it is as late as it can well be, for what is left of the earlier regime would look like a change.

    Parameters
    ----------
    events
        In the order of time. Of many classes, the largest probability and whether its class came true.
    seed
        Seed of the draws.

    Returns
    -------
    list of Change
        In order of time. Empty also if there are too few events.

    Notes
    -----
    Source: Hjort, Koning, "Tests for constancy of model parameters over time", 2002; Andrews, "Tests for parameter
    instability and structural change with unknown change point", 1993, for the largest of the statistics. How often it
    finds what is there, and what is not: ``python -m tests.simulations.test_change_simulation``.
    """
    p, y = confidence_and_hit(events.prediction, events.outcome)
    result: list[CalibrationChange] = []
    start = 0
    while True:
        rows = slice(start, None)
        search = _Search.of(p[rows], y[rows], events.weight[rows], events.time_ms[rows])
        if search is None:
            return result
        p_value = search.p_value(np.random.default_rng([seed, start]))
        if p_value is None:
            return result
        place, latest = search.places()
        result.append(CalibrationChange(start + place, int(events.time_ms[start + place]), p_value))
        start += latest


@dataclass(frozen=True, eq=False)
class _Search:
    """Some events, the fit to them, and d = 1 (the offset alone) or 2 directions in which it may have changed.

    Attributes
    ----------
    outcome, weight
        float64, shape (n,).
    eta
        float64, shape (n,): logits by the fit.
    direction
        float64, shape (n, d): what each parameter adds to a logit.
    products
        float64, shape (n, d, d): ``direction`` times itself.
    ends
        int64, shape (m,), ascending: how many events lie before each place at which a change is looked for; the last
        is n.
    between
        Shape (n,): whether the event's time is later than that of the one before it.
    """

    outcome: Floats
    weight: Floats
    eta: Floats
    direction: Floats
    products: Floats
    ends: Ints
    between: Bools

    @classmethod
    def of(cls, p: Floats, y: Floats, w: Floats, time_ms: Ints) -> "_Search | None":
        """Prepare a search; None if there are too few events, or the fit has no finite slope and offset."""
        n = p.size
        between = np.diff(time_ms, prepend=time_ms[:1]) > 0
        if not (_enough(np.cumsum(y) - y, float(y.sum()), np.arange(n), n) & between).any():
            return None
        z = logits(p)
        low, high = np.quantile(z, [_OUTLYING, 1.0 - _OUTLYING])
        z = np.clip(z, low, high)
        weighted = not bool((w == w[0]).all())
        cox = fit_cox(ScoreTable.from_events(expit(z), y, w if weighted else None))
        if cox.slope is None:
            eta, direction = z + cox.offset, np.ones((n, 1))
        elif cox.intercept is None:
            return None  # some logit separates positives from negatives
        else:
            eta = _bent(z, y, w, cox.intercept, cox.slope)
            direction = np.stack([np.ones(n), z - z.mean()], axis=1)
        products = direction[:, :, None] * direction[:, None, :]
        return cls(y, w, eta, direction, products, _ends(time_ms), between)

    def p_value(self, rng: np.random.Generator) -> float | None:
        """Return (1 + draws with as large a statistic) / (1 + draws), or None if it is above the level."""
        observed = float(self._statistics(self.outcome, self.ends).max())
        rate = expit(self.eta)
        reached = 0
        for _ in range(DRAWS):
            drawn = np.asarray(rng.random(rate.size) < rate, np.float64)
            reached += int(self._statistics(drawn, self.ends).max() >= observed)
            if 1 + reached > LEVEL * (1 + DRAWS):
                return None
        return (1 + reached) / (1 + DRAWS)

    def places(self) -> tuple[int, int]:
        """Return the first event after the likeliest change, and after the latest possible one."""
        at = np.append(np.flatnonzero(self.between), self.outcome.size)
        statistics = self._statistics(self.outcome, at)
        possible = np.flatnonzero(statistics >= statistics.max() - _UNSURE)
        return int(at[np.argmax(statistics)]), int(at[possible[-1]])

    def _statistics(self, outcome: Floats, ends: Ints) -> Floats:
        """Return S' V^-1 S of the scores before each end (the last is n); 0 where no change is allowed."""
        n = outcome.size
        first = np.concatenate([[0], ends[:-1]])
        weighted = self.weight[:, None] * self.direction
        # The fit to the outcomes is close to the fit to drawn outcomes: two Newton steps suffice.
        eta = self.eta
        for _ in range(2):
            q = expit(eta)
            information = np.tensordot(self.weight * q * (1.0 - q), self.products, axes=1)
            # If nearly all outcomes are certain, the information may be singular: a pseudo-inverse makes no step.
            eta = eta + self.direction @ (np.linalg.pinv(information, hermitian=True) @ (weighted.T @ (outcome - q)))
        q = expit(eta)
        variance = (self.weight * q * (1.0 - q))[:, None, None] * self.products
        information = np.cumsum(np.add.reduceat(variance, first, axis=0), axis=0)
        squares = np.cumsum(np.add.reduceat(self.weight[:, None, None] * variance, first, axis=0), axis=0)
        walk = np.cumsum(np.add.reduceat((outcome - q)[:, None] * weighted, first, axis=0), axis=0)
        share = information @ np.linalg.pinv(information[-1], hermitian=True)
        walk -= share @ walk[-1]
        hits = np.cumsum(np.add.reduceat(outcome, first))
        statistics = np.zeros(ends.size)
        allowed = _enough(hits, float(hits[-1]), ends, n)
        inverse = np.linalg.pinv(_variances(squares, share)[allowed], hermitian=True)
        statistics[allowed] = np.einsum("ki,kij,kj->k", walk[allowed], inverse, walk[allowed])
        return statistics


def _bent(z: Floats, y: Floats, w: Floats, intercept: float, slope: float) -> Floats:
    """Return the logits of a fit that is piecewise linear in z, (n,); it starts at the given straight fit."""
    bends = _bends(z, y, w, expit(intercept + slope * z))
    if bends.size == 0:
        return np.asarray(intercept + slope * z)
    columns = np.stack([np.ones(z.size), z, *(np.maximum(z - bend, 0.0) for bend in bends)], axis=1)
    bound = np.full(columns.shape[1], _MAX_COEFFICIENT)
    start = np.append(np.clip([intercept, slope], -_MAX_COEFFICIENT, _MAX_COEFFICIENT), np.zeros(bends.size))
    return np.asarray(columns @ fit_logistic(columns, y, w, start=start, lower=-bound, upper=bound))


def _bends(z: Floats, y: Floats, w: Floats, q: Floats) -> Floats:
    """Return distinct logits, ascending, between which the outcomes have equal information about the fit."""
    rarer = min(float(y.sum()), float((1.0 - y).sum()))
    count = min(int(rarer / _RARER_PER_BEND), _BENDS)
    order = np.argsort(z, kind="stable")
    information = np.cumsum((w * q * (1.0 - q))[order])
    wanted = information[-1] * np.arange(1, count + 1) / (count + 1)
    bends = np.unique(z[order][np.searchsorted(information, wanted)])
    return np.asarray(bends[(bends > z.min()) & (bends < z.max())])


def _enough(hits: Floats, all_hits: float, before: Ints, n: int) -> Bools:
    """Return whether enough events, and enough of each outcome, lie before and after each place."""
    misses, all_misses = before - hits, n - all_hits
    result: Bools = (before >= _TRIM * n) & (n - before >= _TRIM * n)
    for kind, total in ((hits, all_hits), (misses, all_misses)):
        result &= (kind >= _MIN_OF_EACH_OUTCOME) & (total - kind >= _MIN_OF_EACH_OUTCOME)
    return result


def _ends(time_ms: Ints) -> Ints:
    """Return the number of events before the end of each block, ascending; the last is n. Equal times share a block."""
    n = time_ms.size
    wanted = np.linspace(0, n, min(BLOCKS, n) + 1)[1:-1].round().astype(np.int64)
    starts = np.flatnonzero(np.diff(time_ms, prepend=time_ms[0] - 1) > 0)
    nearest = starts[np.minimum(np.searchsorted(starts, wanted), starts.size - 1)]
    inner = np.unique(nearest[nearest > 0])
    return np.append(inner, n)


def _variances(squares: Floats, share: Floats) -> Floats:
    """Return the variances of the cumulated scores after the fit, (m, d, d).

    ``squares`` are cumulated, ``share`` is the share of the information up to each place.
    """
    crossed = share @ squares
    spread: Floats = squares - crossed - np.swapaxes(crossed, 1, 2) + share @ squares[-1] @ np.swapaxes(share, 1, 2)
    return spread
