"""Whether a shift of the prior explains a model's error: what remains after the best offset of the logits."""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import chndtrinc, expit

from monitor.arrays import Floats
from monitor.inference.calibration_tests import cauchy_combination, gamma_tail
from monitor.inference.cox import Cox, fit_cox, logits
from monitor.inference.rare_outcomes import Contradictions, contradictions, with_contradictions
from monitor.inference.resampling import resampled
from monitor.measures.laplace_loops import laplace_potential, laplace_quadratic_form
from monitor.measures.lipschitz_loops import lipschitz_supremum
from monitor.scores import ScoreTable

GROUPS: Final = 8
"""Stretches of the predictions, of equal information, over which the remaining error of the logits is computed."""

LEVEL: Final = 0.01
"""A p-value up to this is evidence. Windows are tested again and again, so it is stricter than the usual .05."""

_RARE: Final = 0.05
"""Probability that an upper limit lies below the truth."""

_BANDWIDTH: Final = 1.0
_ROUNDING: Final = 1e-12
"""Share of a variance that rounding alone may leave."""


@dataclass(frozen=True, slots=True)
class PriorShift:
    """A model's errors before and after the best offset of its logits.

    Attributes
    ----------
    prevalence, mean_prediction
        Share of positives, and the mean prediction.
    offset
        b of sigmoid(z + b).
    error, error_after_offset
        smCE of the predictions as they are, and after the offset.
    logit_error_after_offset
        Root mean square error of the logits after the offset, 0 if not significant. Unlike smCE, it compares across
        prevalences. The largest of three: over eight stretches of the predictions, less what chance adds; by the slope;
        by the contradictions. The last two count only if their own p-values are at most .01.
    p_value
        Of the hypothesis that there is no error besides the shift.
    contradictions
        Outcomes that the surest predictions nearly excluded, after the offset.
    slope_limit
        Root mean square error of the logits after the offset at the end of the slope's 95% interval that is farther
        from 1: infinite if the predictions separate the outcomes, 0 if all predictions are equal.
    stretch_limit
        Upper 95% limit of the root mean square error over the eight stretches, whatever its shape.
    """

    prevalence: float
    mean_prediction: float
    offset: float
    error: float
    error_after_offset: float
    logit_error_after_offset: float
    p_value: float
    contradictions: Contradictions
    slope_limit: float
    stretch_limit: float


def prior_shift(table: ScoreTable, *, fit: Cox | None = None) -> PriorShift:
    r"""Test whether a shift of the prior explains all of a model's error.

    If only the prior has shifted, outcomes follow q = sigmoid(z + b) for some b. Two tests of that are combined by
    :func:`~monitor.inference.calibration_tests.cauchy_combination`: that of the Cox fit's slope, and, for faults of any
    other shape, one of the kernel calibration error. A tenth of the level is for single outcomes that contradict
    predictions near 0 or 1 (:func:`~monitor.inference.rare_outcomes.contradictions`), which neither of the two sees.

    That of the kernel compares the quadratic form :math:`R^T K R` of the residuals R after the fitted b, K the Laplace
    kernel on logits, with its law. Fitting an offset subtracts :math:`v \sum R / \sum v` from the residuals, to first
    order, with :math:`v = n q (1 - q)`: they are projected, and have the covariance
    :math:`C = \mathrm{diag}(v) - v v^T / \sum v`. The law is approximated by the Gamma law of its mean
    :math:`\mathrm{tr}(K C)` and variance :math:`2 \, \mathrm{tr}(K C K C)`, both of which are sums in linear time.

    Parameters
    ----------
    table
        m rows.
    fit
        The table's :func:`~monitor.inference.cox.fit_cox`, if already computed.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: section 5 of the mathematics, which draws from the law of the projected residuals instead, as the tests do,
    and tests neither the slope, for which such a test has more power, nor contradictions.
    """
    cells = resampled(table, "a test for a prior shift")
    fit = fit or fit_cox(cells)
    after = shifted(cells, fit.offset)
    p_value = projected_kernel_p_value(cells, after)
    if fit.slope_p_value is not None:
        p_value = cauchy_combination([p_value, fit.slope_p_value])
    rare = contradictions(after)
    # Stretches of equal information hardly cover sure predictions: there the model itself claims little information,
    # however wrong it is. Slope and contradictions cover them.
    by_stretches, stretch_limit = _logit_error(after)
    by_slope, slope_limit = _slope_error(cells, fit)
    sizes = [by_stretches, by_slope]
    if rare.p_value <= LEVEL:
        sizes.append(rare.logit_error(float(_information(after).sum())))
    return PriorShift(
        prevalence=cells.prevalence,
        mean_prediction=cells.mean_prediction,
        offset=fit.offset,
        error=_smce(cells),
        error_after_offset=_smce(after),
        logit_error_after_offset=max(sizes),
        p_value=with_contradictions(p_value, rare),
        contradictions=rare,
        slope_limit=slope_limit,
        stretch_limit=stretch_limit,
    )


def shifted(table: ScoreTable, offset: float) -> ScoreTable:
    """The table after an offset of every logit: p becomes sigmoid(logit p + offset).

    Parameters
    ----------
    table
        m rows.
    offset
        b. Predictions of 0 and of 1 move as those at the ends of the grid do, whose logits are -17 and 17.
    """
    score, lower, upper = (np.asarray(expit(logits(p) + offset)) for p in (table.score, table.lower, table.upper))
    return replace(
        table,
        score=score,
        positive_sum=table.positives * score,
        negative_sum=table.negatives * score,
        lower=lower,
        upper=upper,
    )


def _smce(table: ScoreTable) -> float:
    return float(lipschitz_supremum(table.score, table.residual)) / table.total


def projected_kernel_p_value(table: ScoreTable, after: ScoreTable) -> float:
    """P-value of the kernel calibration error on logits after the table's best offset, with no resampling."""
    location, varying = logits(table.score), after.residual_variance
    square = float(laplace_quadratic_form(location, after.residual, _BANDWIDTH))
    share = after.counts * after.score * (1.0 - after.score)
    share /= share.sum()
    # With J = 1 - share 1^T the projection, C = J diag(varying) J^T: with weights, information and variance differ.
    potential = laplace_potential(location, share, _BANDWIDTH)
    between = float(share @ potential)
    total = float(varying.sum())
    crossed = laplace_potential(location, varying, _BANDWIDTH)
    mean = total - 2.0 * float(potential @ varying) + between * total
    if mean <= _ROUNDING * total:
        # Equal predictions: the offset removes the whole residual, and nothing is left to test.
        return 1.0
    # J^T K J = K - potential 1^T - 1 potential^T + between 1 1^T: its squares, weighted by both variances.
    squares = (
        float(laplace_quadratic_form(location, varying, _BANDWIDTH / 2.0))
        + 2.0 * total * float(varying @ potential**2)
        + 2.0 * float(varying @ potential) ** 2
        + (between * total) ** 2
        - 4.0 * float((varying * potential) @ crossed)
        + 2.0 * between * float(varying @ crossed)
        - 4.0 * between * total * float(varying @ potential)
    )
    return gamma_tail(square, mean, 2.0 * squares)


def _information(table: ScoreTable) -> Floats:
    """Fisher information of each row about its logit, shape (m,)."""
    return table.counts * table.score * (1.0 - table.score)


def _slope_error(table: ScoreTable, fit: Cox) -> tuple[float, float]:
    """Root mean square error of the logits from the slope alone, and its 95% limit.

    That of (a - 1)(z - mean), weighted by the information of the events if the fitted slope is right. The model itself
    would claim next to none near 0 and 1, where an overconfident model has most of its events. The first is 0 without
    evidence of a slope.
    """
    if fit.slope is None:
        return 0.0, 0.0
    if fit.intercept is None or fit.slope_lower is None or fit.slope_upper is None or fit.slope_p_value is None:
        return 0.0, math.inf
    z = logits(table.score)
    q = expit(fit.intercept + fit.slope * z)
    weight = table.counts * q * (1.0 - q)
    spread = math.sqrt(float(np.cov(z, aweights=weight, ddof=0)))
    farthest = max(abs(fit.slope_lower - 1.0), abs(fit.slope_upper - 1.0))
    return (abs(fit.slope - 1.0) * spread if fit.slope_p_value <= LEVEL else 0.0), farthest * spread


def _logit_error(table: ScoreTable) -> tuple[float, float]:
    """Root mean square of the groups' errors in logits, weighted by information, less that of chance, and its limit.

    In units of what chance adds a group, the sum of squares is noncentral chi-squared with a degree of freedom fewer
    than there are groups, because the offset is fitted; the limit is the error at which 5% of such sums are as small.
    """
    information = _information(table)
    total = float(information.sum())
    middle = (np.cumsum(information) - information / 2.0) / total
    group = np.minimum((middle * GROUPS).astype(np.int64), GROUPS - 1)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    hits, misses, expected, count, held, varying = (
        np.add.reduceat(column, first)
        for column in (
            table.positives,
            table.negatives,
            table.counts * table.score,
            table.counts,
            information,
            table.residual_variance,
        )
    )
    # Half an event of each kind keeps the logit of a group without either finite.
    half = 0.5 / table.events_per_weight
    observed = np.log(hits + half) - np.log(misses + half)
    error = observed - np.log(expected + half) + np.log(count - expected + half)
    chance = float(np.divide(varying, held, out=np.zeros(held.size), where=held > 0.0).sum()) - varying.sum() / total
    square, freedom = float(held @ error**2), int(np.count_nonzero(held)) - 1
    if freedom < 1 or chance <= _ROUNDING * total:
        return math.sqrt(max(0.0, square - chance) / total), 0.0
    unit = chance / freedom
    beyond = float(chndtrinc(square / unit, freedom, _RARE))
    return math.sqrt(max(0.0, square - chance) / total), math.sqrt(unit * beyond / total)
