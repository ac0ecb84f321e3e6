"""The Cox fit: by which offset and which slope the logits are off, with standard errors and tests."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtrc, expit, ndtri, xlogy

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.inference.logistic import fit_logistic, log_sigmoid
from monitor.scores import ScoreTable, grid

LOGIT_BOUND: Final = grid.LOGIT_BOUND
"""Logits are cut off here, as the cells of the grid are: predictions of 0 and of 1 have none that is finite."""

_STEPS: Final = 100
_PRECISION: Final = 1e-12
_END_PRECISION: Final = 1e-6
"""Of the ends of an interval, which mean nothing beyond it."""
_NORMAL_975: Final = float(ndtri(0.975))


@dataclass(frozen=True, slots=True)
class Cox:
    """What a logistic regression of the outcomes on the logits finds; z = logit p.

    Attributes
    ----------
    offset, offset_error
        b of sigmoid(z + b), slope fixed at 1, and its standard error, which holds whatever the true slope.
    diverges
        Whether all outcomes are of one kind, so that no finite offset is the best: ``offset`` is then the one at which
        half an event of the other kind is to be expected, which the data cannot tell from any farther one.
    slope, slope_error
        a of sigmoid(a z + c), fitted together with c, and its standard error, likewise robust. Infinite where the
        predictions part the outcomes; None where all predictions are equal, or all outcomes.
    slope_lower, slope_upper
        95% interval of a by the profile likelihood, which covers .93 to .96 also where 1% of 1,000 events are
        positive; a +- 1.96 robust errors cover .91 there. None without a finite slope.
    intercept, intercept_error
        c of the same fit.
    offset_p_value
        Of b = 0, that is of as many positives as the model expects, whatever the slope: Wald test with the robust
        error. If the offset diverges, the exact probability of such outcomes, doubled because the test has two sides.
    slope_p_value
        Of a = 1 where the intercept is free: likelihood-ratio test with 1 degree of freedom. None without a slope.
    p_value
        Of c = 0 and a = 1, exact calibration: likewise, 2 degrees of freedom, or 1 and b = 0 without a slope.

    Standard errors are Huber's (the sandwich): those of the likelihood are of a model that is right but for the offset,
    and at a true slope of 4 a correct offset of 0 lay beyond 1.96 of them in a third of samples of 1,000, instead of a
    twentieth. Of weights, all tests are Wald's, because likelihood ratios would take a weight for a number of events.
    Where nothing else can be had, weights count by the mean number of events that they are worth, (sum of w)^2 / sum of
    w^2 in all.
    """

    offset: float
    offset_error: float
    diverges: bool
    offset_p_value: float
    p_value: float
    slope: float | None = None
    slope_error: float | None = None
    slope_lower: float | None = None
    slope_upper: float | None = None
    intercept: float | None = None
    intercept_error: float | None = None
    slope_p_value: float | None = None


def fit_cox(table: ScoreTable) -> Cox:
    r"""Fit offset and slope of the logits by maximum likelihood.

    .. math:: P(y = 1) = \sigma(z + b) \qquad \text{and} \qquad P(y = 1) = \sigma(a z + c), \qquad z = \log\frac{p}{1-p}

    Parameters
    ----------
    table
        m rows. All events of a row count as lying at its score, and logits beyond -+17 as lying there, predictions of 0
        and 1 among them: an outcome that contradicts one of those moves the fit as one of p = 4e-8 does.

    Returns
    -------
    Cox
        The same for every order of the events.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Cox, "Two further applications of a model for binary regression", Biometrika 45, 1958; the tests as in
    Miller, Hui, Tierney, "Validation techniques for logistic regression models", 1991; Huber, "The behavior of maximum
    likelihood estimates under nonstandard conditions", 1967, for the errors. Section 5 of the mathematics.
    """
    if table.rows == 0:
        raise NotEnoughData("the Cox fit needs at least 1 event, got 0")
    data = _Data(logits(table.score), table.positives, table.negatives, table.positive_squares, table.negative_squares)
    hits, misses = float(table.positives.sum()), float(table.negatives.sum())
    if hits == 0.0 or misses == 0.0:
        return _of_one_kind(table, data)
    b = solve_offset(data.z, table.counts, hits)
    error = math.sqrt(data.covariance(data.z + b, 1, robust=True)[0, 0])
    at_zero, at_offset = data.likelihood(data.z), data.likelihood(data.z + b)
    offset_p = _chi2((b / error) ** 2, 1)
    if data.z[0] == data.z[-1]:
        return Cox(b, error, False, offset_p, offset_p if table.weighted else _chi2(2.0 * (at_offset - at_zero), 1))
    parted = data.parted()
    if parted is not None:
        slope, best = parted
        return Cox(
            b,
            error,
            False,
            offset_p,
            p_value=_chi2(2.0 * data.worth * (best - at_zero), 2),
            slope=slope,
            slope_error=math.inf,
            intercept_error=math.inf,
            slope_p_value=_chi2(2.0 * data.worth * (best - at_offset), 1),
        )
    c, a = _fit_slope(data, hits, table.total)
    at_both, robust = data.likelihood(c + a * data.z), data.covariance(c + a * data.z, 2, robust=True)
    slope_error = math.sqrt(robust[1, 1])
    # Of weights, likelihoods differ by more than chance explains, as errors do (Royall, Tsou, "Interpreting
    # statistical evidence by using imperfect models: robust adjusted likelihood functions", 2003).
    beyond = slope_error**2 / data.inverse_information(c + a * data.z, 2)[1, 1] if table.weighted else 1.0
    slope_lower, slope_upper = (
        _profile_end(data, hits, a + side * _NORMAL_975 * slope_error, c, at_both - beyond * _NORMAL_975**2 / 2.0)
        for side in (-1.0, 1.0)
    )
    if table.weighted:
        covariance = data.covariance(c + a * data.z, 2, robust=False)
        away = np.array([c, a - 1.0])
        both_p = _chi2(float(away @ np.linalg.solve(covariance, away)), 2)
        slope_p = _chi2((a - 1.0) ** 2 / covariance[1, 1], 1)
    else:
        both_p, slope_p = _chi2(2.0 * (at_both - at_zero), 2), _chi2(2.0 * (at_both - at_offset), 1)
    return Cox(
        b,
        error,
        False,
        offset_p,
        both_p,
        slope=a,
        slope_error=slope_error,
        slope_lower=slope_lower,
        slope_upper=slope_upper,
        intercept=c,
        intercept_error=math.sqrt(robust[0, 0]),
        slope_p_value=slope_p,
    )


def logits(p: Floats) -> Floats:
    """Logit of predictions, cut off at -+17; shape as that of ``p``."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LOGIT_BOUND, LOGIT_BOUND))


def solve_offset(z: Floats, counts: Floats, hits: float, *, start: float = 0.0) -> float:
    """The offset at which the mean of sigmoid(z + b) is right.

    Parameters
    ----------
    z
        float64, shape (m,), ascending or descending.
    counts
        float64, shape (m,): events at each logit.
    hits
        What the sum over events of sigmoid(z + b) has to be: above 0 and below the number of events.
    start
        Where the search begins.
    """
    total = float(counts.sum())
    # Were all logits equal to the largest or to the smallest, the offset would be this one or that.
    wanted = math.log(hits) - math.log(total - hits)
    low, high = sorted((wanted - float(z[-1]), wanted - float(z[0])))
    b = min(max(start, low), high)
    for _ in range(_STEPS):
        q = expit(z + b)
        excess = float(counts @ q) - hits
        if excess > 0.0:
            high = b
        else:
            low = b
        slope = float(counts @ (q * (1.0 - q)))
        # Newton's step where it stays between the ends, and half the way where it does not.
        step = b - excess / slope if slope > 0.0 else math.inf
        after = step if low <= step <= high else (low + high) / 2.0
        if abs(after - b) <= _PRECISION * (1.0 + abs(b)):
            return after
        b = after
    return b


@dataclass(frozen=True, slots=True)
class _Data:
    z: Floats
    positives: Floats
    negatives: Floats
    positive_squares: Floats
    negative_squares: Floats

    @property
    def worth(self) -> float:
        """Events that a unit of weight is worth; 1 where events have no weights."""
        weights, squares = self.positives.sum() + self.negatives.sum(), self.positive_squares + self.negative_squares
        return float(weights / squares.sum())

    def likelihood(self, eta: Floats) -> float:
        """Logarithm of the likelihood where the logits are ``eta``."""
        return float(self.positives @ log_sigmoid(eta) + self.negatives @ log_sigmoid(-eta))

    def information(self, eta: Floats) -> Floats:
        """What each row tells of its logit, shape (m,)."""
        q = expit(eta)
        return np.asarray((self.positives + self.negatives) * q * (1.0 - q))

    def inverse_information(self, eta: Floats, size: int) -> Floats:
        """Of the constant and, for a size of 2, of the factor of z, where the logits are ``eta``."""
        return np.asarray(np.linalg.inv(_moments(self.z, self.information(eta))[:size, :size]), np.float64)

    def covariance(self, eta: Floats, size: int, *, robust: bool) -> Floats:
        """Of the estimates of the constant and, for a size of 2, of the factor of z, where the logits are ``eta``.

        The sandwich of the inverse information, whose filling is the sum of the squared scores as they are if robust,
        and their variance under the fit if not: without weights the latter is the inverse information itself.
        """
        q = expit(eta)
        inverse = self.inverse_information(eta, size)
        miss = expit(-eta)
        squares = (
            self.positive_squares * miss**2 + self.negative_squares * q**2
            if robust
            else (self.positive_squares + self.negative_squares) * q * miss
        )
        return inverse @ _moments(self.z, squares)[:size, :size] @ inverse

    def parted(self) -> tuple[float, float] | None:
        """The infinite slope and the likelihood's supremum, where one logit parts positives from negatives."""
        with_positives, with_negatives = self.z[self.positives > 0.0], self.z[self.negatives > 0.0]
        if with_negatives[-1] <= with_positives[0]:
            slope, at = math.inf, with_positives[0]
        elif with_positives[-1] <= with_negatives[0]:
            slope, at = -math.inf, with_negatives[0]
        else:
            return None
        # Where both kinds lie at the very logit that parts them, these keep their frequency.
        hits, misses = self.positives[self.z == at].sum(), self.negatives[self.z == at].sum()
        return slope, float(xlogy(hits, hits / (hits + misses)) + xlogy(misses, misses / (hits + misses)))


def _of_one_kind(table: ScoreTable, data: _Data) -> Cox:
    none_positive, worth = not table.positives.any(), data.worth
    half = 0.5 / worth
    b = solve_offset(data.z, table.counts, half if none_positive else table.total - half)
    # The exact tail, of the predictions as they are: one of 1 that fails is impossible.
    with np.errstate(divide="ignore"):
        each = np.log1p(-table.score) if none_positive else np.log(table.score)
    p_value = min(1.0, 2.0 * math.exp(worth * float(table.counts @ each)))
    return Cox(b, 1.0 / math.sqrt(worth * data.information(data.z + b).sum()), True, p_value, p_value)


def _fit_slope(data: _Data, hits: float, total: float) -> tuple[float, float]:
    """Intercept and slope of the largest likelihood, which is concave: from no slope on, where no row lacks weight."""
    counts = data.positives + data.negatives
    # About the logits' mean, intercept and slope hardly depend on each other.
    middle = float(counts @ data.z) / total
    columns = np.column_stack([np.ones_like(data.z), data.z - middle])
    start = np.array([math.log(hits) - math.log(total - hits), 0.0])
    anywhere = np.full(2, math.inf)
    center, slope = fit_logistic(
        columns, data.positives / counts, counts, start=start, lower=-anywhere, upper=anywhere
    ).tolist()
    return center - slope * middle, slope


def _profile_end(data: _Data, hits: float, start: float, intercept: float, level: float) -> float:
    """Slope at which the likelihood, of the best intercept there, falls to ``level``: the one beside ``start``.

    As the profile is concave, Newton's steps cross this slope once at most, and then come ever nearer.
    """
    counts = data.positives + data.negatives
    a, c = start, intercept
    for _ in range(_STEPS):
        c = solve_offset(a * data.z, counts, hits, start=c)
        eta = c + a * data.z
        # The intercept's part of the slope is 0, as it is the best.
        slope = float(data.z @ (data.positives * expit(-eta) - data.negatives * expit(eta)))
        step = (level - data.likelihood(eta)) / slope
        a += step
        if abs(step) <= _END_PRECISION * (1.0 + abs(a)):
            break
    return a


def _moments(z: Floats, weight: Floats) -> Floats:
    """Sum of weight (1, z)^T (1, z), shape (2, 2)."""
    first = float(weight @ z)
    return np.array([[weight.sum(), first], [first, weight @ z**2]])


def _chi2(statistic: float, freedom: int) -> float:
    return float(chdtrc(freedom, max(0.0, statistic)))
