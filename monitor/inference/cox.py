"""The Cox fit: offset and slope of the logits, with standard errors and tests."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtrc, expit, ndtri, xlogy

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.inference.newton import fit_logistic, log_sigmoid
from monitor.roots import brentq, newton
from monitor.scores import ScoreTable
from monitor.scores.grid import LOGIT_BOUND

_PRECISION: Final = 1e-12
_END_PRECISION: Final = 1e-6
"""Precision of the ends of an interval."""
_NORMAL_975: Final = float(ndtri(0.975))


@dataclass(frozen=True, slots=True)
class Cox:
    """Logistic regression of the outcomes on the logits z = logit p.

    Attributes
    ----------
    offset, offset_error
        b of sigmoid(z + b), slope fixed at 1, and its standard error, valid for every true slope.
    diverges
        Whether all outcomes are of one kind, so that no finite offset is the best: ``offset`` is then the one at which
        half an event of the other kind is expected. The data are compatible with any farther one.
    slope, slope_error
        a of sigmoid(a z + c), fitted together with c, and its standard error, likewise robust. Infinite if the
        predictions separate the outcomes; None if all predictions are equal, or all outcomes.
    slope_lower, slope_upper
        95% interval of a by the profile likelihood, which covers .93 to .96 even if 1% of 1,000 events are positive;
        a +- 1.96 robust errors cover .91 then. None without a finite slope.
    intercept, intercept_error
        c of the same fit.
    offset_p_value
        Of b = 0, as many positives as the model expects, for any slope: Wald test with the robust error. If the offset
        diverges, the exact probability of such outcomes, doubled because the test is two-sided.
    slope_p_value
        Of a = 1 with a free intercept: likelihood-ratio test with 1 degree of freedom. None without a slope.
    p_value
        Of c = 0 and a = 1, exact calibration: likewise, 2 degrees of freedom, or 1 and b = 0 without a slope.

    Standard errors are Huber's (the sandwich). Those of the likelihood assume that only the offset is wrong: at a true
    slope of 4 a correct offset of 0 was beyond 1.96 of them in a third of samples of 1,000, instead of a twentieth.
    With weights, all tests are Wald's, because likelihood ratios would treat a weight as a number of events. Otherwise
    weights count as their effective number of events, (sum of w)^2 / sum of w^2 in all.
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
        m rows. All events of a row count as lying at its score, and logits beyond -+17 as -+17, also those of 0 and 1:
        an outcome that contradicts one of these has the effect of one at p = 4e-8.

    Returns
    -------
    Cox
        It does not depend on the order of the events.

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
    data = _Data(table, logits(table.score))
    hits, misses = float(table.positives.sum()), float(table.negatives.sum())
    if hits == 0.0 or misses == 0.0:
        return _of_one_kind(table, data)
    b = solve_offset(data.z, table.counts, hits)
    error = math.sqrt(data.covariance(data.z + b, 1, robust=True)[0, 0])
    at_zero, at_offset = data.likelihood(data.z), data.likelihood(data.z + b)
    offset_p = _chi2((b / error) ** 2, 1)
    if data.z[0] == data.z[-1]:
        return Cox(b, error, False, offset_p, offset_p if table.weighted else _chi2(2.0 * (at_offset - at_zero), 1))
    separated = data.separated()
    if separated is not None:
        slope, best = separated
        return Cox(
            b,
            error,
            False,
            offset_p,
            p_value=_chi2(2.0 * data.table.events_per_weight * (best - at_zero), 2),
            slope=slope,
            slope_error=math.inf,
            intercept_error=math.inf,
            slope_p_value=_chi2(2.0 * data.table.events_per_weight * (best - at_offset), 1),
        )
    c, a = _fit_slope(data, b)
    at_both, robust = data.likelihood(c + a * data.z), data.covariance(c + a * data.z, 2, robust=True)
    slope_error = math.sqrt(robust[1, 1])
    # Weighted likelihoods vary more, as their errors do (Royall, Tsou, "Interpreting statistical evidence by using
    # imperfect models: robust adjusted likelihood functions", 2003).
    excess = slope_error**2 / data.inverse_information(c + a * data.z, 2)[1, 1] if table.weighted else 1.0
    slope_lower, slope_upper = (
        _profile_end(data, hits, a + side * _NORMAL_975 * slope_error, at_both - excess * _NORMAL_975**2 / 2.0)
        for side in (-1.0, 1.0)
    )
    if table.weighted:
        covariance = data.covariance(c + a * data.z, 2, robust=False)
        error_of_both = np.array([c, a - 1.0])
        both_p = _chi2(float(error_of_both @ np.linalg.solve(covariance, error_of_both)), 2)
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
    """Logits of predictions, cut off at -+17."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LOGIT_BOUND, LOGIT_BOUND))


def solve_offset(z: Floats, counts: Floats, hits: float) -> float:
    """The offset b at which sigmoid(z + b) adds up to the number of positives.

    Parameters
    ----------
    z
        float64, shape (m,), ascending or descending.
    counts
        float64, shape (m,): events at each logit.
    hits
        The sum over events of sigmoid(z + b), above 0 and below the number of events.
    """
    # The offsets if all logits were equal to the largest, or to the smallest; farther, because of rounding.
    wanted = math.log(hits) - math.log(float(counts.sum()) - hits)
    low, high = sorted((wanted - float(z[-1]), wanted - float(z[0])))
    return brentq(lambda b: float(counts @ expit(z + b)) - hits, low - 1.0, high + 1.0, xtol=_PRECISION)


@dataclass(frozen=True, slots=True)
class _Data:
    table: ScoreTable
    z: Floats

    def likelihood(self, eta: Floats) -> float:
        """Log-likelihood of the logits ``eta``."""
        return float(self.table.positives @ log_sigmoid(eta) + self.table.negatives @ log_sigmoid(-eta))

    def information(self, eta: Floats) -> Floats:
        """Fisher information of each row about its logit, shape (m,)."""
        q = expit(eta)
        return np.asarray(self.table.counts * q * (1.0 - q))

    def inverse_information(self, eta: Floats, size: int) -> Floats:
        """Inverse information about the constant and, for a size of 2, the factor of z, at the logits ``eta``."""
        return np.asarray(np.linalg.inv(_moments(self.z, self.information(eta))[:size, :size]), np.float64)

    def covariance(self, eta: Floats, size: int, *, robust: bool) -> Floats:
        """Covariance of the estimates of the constant and, for a size of 2, the factor of z, at the logits ``eta``.

        The sandwich of the inverse information, whose filling is the sum of the squared scores if robust, and their
        variance under the fit if not: without weights the latter is the inverse information itself.
        """
        q = expit(eta)
        inverse = self.inverse_information(eta, size)
        miss = expit(-eta)
        squares = (
            self.table.positive_squares * miss**2 + self.table.negative_squares * q**2
            if robust
            else self.table.event_squares * q * miss
        )
        return inverse @ _moments(self.z, squares)[:size, :size] @ inverse

    def separated(self) -> tuple[float, float] | None:
        """The infinite slope and the likelihood's supremum, if one logit separates positives from negatives."""
        with_positives, with_negatives = self.z[self.table.positives > 0.0], self.z[self.table.negatives > 0.0]
        if with_negatives[-1] <= with_positives[0]:
            slope, at = math.inf, with_positives[0]
        elif with_positives[-1] <= with_negatives[0]:
            slope, at = -math.inf, with_negatives[0]
        else:
            return None
        # Events of both kinds at the separating logit keep their frequency.
        hits, misses = self.table.positives[self.z == at].sum(), self.table.negatives[self.z == at].sum()
        return slope, float(xlogy(hits, hits / (hits + misses)) + xlogy(misses, misses / (hits + misses)))


def _of_one_kind(table: ScoreTable, data: _Data) -> Cox:
    none_positive, per_weight = not table.positives.any(), data.table.events_per_weight
    half = 0.5 / per_weight
    b = solve_offset(data.z, table.counts, half if none_positive else table.total - half)
    # The exact tail, without cut-off: a failed prediction of 1 is impossible.
    with np.errstate(divide="ignore"):
        log_rates = np.log1p(-table.score) if none_positive else np.log(table.score)
    p_value = min(1.0, 2.0 * math.exp(per_weight * float(table.counts @ log_rates)))
    return Cox(b, 1.0 / math.sqrt(per_weight * data.information(data.z + b).sum()), True, p_value, p_value)


def _fit_slope(data: _Data, offset: float) -> tuple[float, float]:
    """Intercept and slope of the largest likelihood, which is concave; the search starts at slope 1 and its offset."""
    counts = data.table.counts
    # Centred at the logits' mean, intercept and slope are nearly uncorrelated.
    middle = float(counts @ data.z) / data.table.total
    columns = np.column_stack([np.ones_like(data.z), data.z - middle])
    start = np.array([offset + middle, 1.0])
    anywhere = np.full(2, math.inf)
    center, slope = fit_logistic(
        columns, data.table.positives / counts, counts, start=start, lower=-anywhere, upper=anywhere
    ).tolist()
    return center - slope * middle, slope


def _profile_end(data: _Data, hits: float, start: float, level: float) -> float:
    """Slope next to ``start`` at which the profile likelihood falls to ``level``.

    The profile is concave, so Newton's steps cross this slope at most once, and then converge.
    """

    def above(a: float) -> tuple[float, float]:
        eta = a * data.z
        eta += solve_offset(eta, data.table.counts, hits)
        # The derivative by the intercept is 0 at its optimum.
        slope = float(data.z @ (data.table.positives * expit(-eta) - data.table.negatives * expit(eta)))
        return data.likelihood(eta) - level, slope

    return newton(above, start, tolerance=_END_PRECISION)


def _moments(z: Floats, weight: Floats) -> Floats:
    """Sum of weight (1, z)^T (1, z), shape (2, 2)."""
    first = float(weight @ z)
    return np.array([[weight.sum(), first], [first, weight @ z**2]])


def _chi2(statistic: float, freedom: int) -> float:
    return float(chdtrc(freedom, max(0.0, statistic)))
