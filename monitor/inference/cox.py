"""The Cox fit: by which offset and which slope the logits are off, with standard errors and tests."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, xlogy
from scipy.stats import chi2

from monitor.errors import NotEnoughData
from monitor.scores import ScoreTable, grid

LOGIT_BOUND: Final = grid.LOGIT_BOUND
"""Logits are cut off here, as the cells of the grid are: predictions of 0 and of 1 have none that is finite."""

_STEPS: Final = 100
_PRECISION: Final = 1e-12

Floats = NDArray[np.float64]


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
    c, a = _solve_both(data, b)
    robust = data.covariance(c + a * data.z, 2, robust=True)
    if table.weighted:
        covariance = data.covariance(c + a * data.z, 2, robust=False)
        away = np.array([c, a - 1.0])
        both_p = _chi2(float(away @ np.linalg.solve(covariance, away)), 2)
        slope_p = _chi2((a - 1.0) ** 2 / covariance[1, 1], 1)
    else:
        at_both = data.likelihood(c + a * data.z)
        both_p, slope_p = _chi2(2.0 * (at_both - at_zero), 2), _chi2(2.0 * (at_both - at_offset), 1)
    return Cox(
        b,
        error,
        False,
        offset_p,
        both_p,
        slope=a,
        slope_error=math.sqrt(robust[1, 1]),
        intercept=c,
        intercept_error=math.sqrt(robust[0, 0]),
        slope_p_value=slope_p,
    )


def logits(p: Floats) -> Floats:
    """Logit of predictions, cut off at -+17; shape as that of ``p``."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LOGIT_BOUND, LOGIT_BOUND))


def solve_offset(z: Floats, counts: Floats, hits: float) -> float:
    """The offset at which the mean of sigmoid(z + b) is right.

    Parameters
    ----------
    z
        float64, shape (m,), ascending.
    counts
        float64, shape (m,): events at each logit.
    hits
        What the sum over events of sigmoid(z + b) has to be: above 0 and below the number of events.
    """
    total = float(counts.sum())
    # Were all logits equal to the largest or to the smallest, the offset would be this one or that.
    wanted = math.log(hits) - math.log(total - hits)
    low, high = wanted - float(z[-1]), wanted - float(z[0])
    b = min(max(0.0, low), high)
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
        return float(self.positives @ log_expit(eta) + self.negatives @ log_expit(-eta))

    def information(self, eta: Floats) -> Floats:
        """What each row tells of its logit, shape (m,)."""
        q = expit(eta)
        return np.asarray((self.positives + self.negatives) * q * (1.0 - q))

    def covariance(self, eta: Floats, size: int, *, robust: bool) -> Floats:
        """Of the estimates of the constant and, for a size of 2, of the factor of z, where the logits are ``eta``.

        The sandwich of the inverse information, whose filling is the sum of the squared scores as they are if robust,
        and their variance under the fit if not: without weights the latter is the inverse information itself.
        """
        q = expit(eta)
        inverse = np.asarray(np.linalg.inv(_moments(self.z, self.information(eta))[:size, :size]), np.float64)
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


def _solve_both(data: _Data, offset: float) -> tuple[float, float]:
    """Intercept and slope, by Newton's method from slope 1 on; the likelihood is concave."""
    # About the logits' middle, intercept and slope hardly depend on each other.
    weight = data.information(data.z + offset)
    middle = float(weight @ data.z / weight.sum())
    u = data.z - middle
    point = np.array([middle + offset, 1.0])
    likelihood = data.likelihood(point[0] + point[1] * u)
    for _ in range(_STEPS):
        eta = point[0] + point[1] * u
        q = expit(eta)
        residual = data.positives * (1.0 - q) - data.negatives * q
        step = np.linalg.solve(_moments(u, data.information(eta)), [residual.sum(), residual @ u])
        after = point + step
        found = data.likelihood(after[0] + after[1] * u)
        while found < likelihood and np.abs(step).max() > _PRECISION:
            step /= 2.0
            after = point + step
            found = data.likelihood(after[0] + after[1] * u)
        done = bool((np.abs(step) <= _PRECISION * (1.0 + np.abs(point))).all())
        point, likelihood = after, found
        if done:
            break
    return float(point[0] - point[1] * middle), float(point[1])


def _moments(z: Floats, weight: Floats) -> Floats:
    """Sum of weight (1, z)^T (1, z), shape (2, 2)."""
    first = float(weight @ z)
    return np.array([[weight.sum(), first], [first, weight @ z**2]])


def _chi2(statistic: float, freedom: int) -> float:
    return float(chi2.sf(max(0.0, statistic), freedom))
