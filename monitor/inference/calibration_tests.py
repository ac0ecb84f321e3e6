"""Tests of calibration: four that see different faults, and their combination in one p-value."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from monitor.arrays import Floats
from monitor.errors import InputError
from monitor.inference.cox import Cox, fit_cox, logits
from monitor.inference.rare_outcomes import contradictions, with_contradictions
from monitor.inference.resampling import RANKS, generator, outcomes, require_draws, resampled, resampled_p_value
from monitor.measures.intce_loops import shifted_bins_mean, shifted_bins_means
from monitor.measures.kernel_error import Scale, kernel_location
from monitor.measures.laplace_loops import laplace_cubic_form, laplace_potential, laplace_quadratic_form
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice, require_positive
from monitor.scores.table import merge_rows, require_events

RANK_BIN_WIDTH: Final = 1.0 / 16.0
"""Width of the bins over ranks: each holds a sixteenth of the events."""

RANK_GROUPS: Final = 256
"""Rows are merged into about this many groups of equal size for the test on ranks, a sixteenth of a bin each, so that
resampling costs the same, and little, for every table."""

_MAX_P_VALUE: Final = 0.995
"""A p-value of 1 would outweigh all others in a Cauchy combination; larger ones count as this."""

_MIN_SKEWNESS: Final = 1.6e-5
"""Below it a Pearson III law is taken for a normal one: the shape of its Gamma law would be too large for floats."""


@dataclass(frozen=True, slots=True)
class CalibrationTest:
    """p-values of the hypothesis that the model is calibrated.

    Attributes
    ----------
    p_value
        Of the four together.
    kernel
        Of the kernel calibration error on logits: residuals of one sign over a stretch of the logits.
    ranks
        Of the random interval calibration error on ranks: faults anywhere, however close the predictions are.
    cox
        Of offset and slope of the logits.
    contradictions
        Of outcomes that the surest predictions nearly excluded; 1 for weighted tables.
    """

    p_value: float
    kernel: float
    ranks: float
    cox: float
    contradictions: float


def calibration_test(
    table: ScoreTable, *, fit: Cox | None = None, draws: int = 199, seed: int | None = None
) -> CalibrationTest:
    r"""Test calibration against faults of every kind.

    .. math:: p = \min \Big( \frac{p_3}{.9}, \frac{p_4}{.1} \Big), \qquad
        p_3 = \frac12 - \frac1\pi \arctan \frac13 \sum_{j=1}^3 \tan\big( (\tfrac12 - p_j^*) \pi \big)

    with p* those of the kernel, of the ranks and of Cox, and :math:`p_4` that of the contradictions.

    Parameters
    ----------
    table
        m rows.
    fit
        The table's :func:`~monitor.inference.cox.fit_cox`, if already computed.
    draws
        Resamples for the test on ranks, at least 19.
    seed
        Seed of the draws; the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small.

    Notes
    -----
    Source: section 3 of the mathematics; Liu, Xie, "Cauchy combination test", 2020, for the combination, which needs
    no knowledge of how the tests depend on each other. Section 3 names the first three only, which are of means over
    many events and do not see three events of p = 1e-6 come true among thousands. The contradictions' p-value is a
    bound, often 1, which would outweigh the others' evidence in a Cauchy combination; they have a tenth of the level.
    """
    require_draws(draws)
    cells = resampled(table, "a test of calibration")
    kernel = kernel_p_value(cells)
    ranks = _ranks_p_value(cells, draws, seed)
    cox = (fit or fit_cox(cells)).p_value
    rare = contradictions(cells)
    p_value = with_contradictions(cauchy_combination([kernel, ranks, cox]), rare)
    return CalibrationTest(p_value, kernel, ranks, cox, rare.p_value)


def cauchy_combination(p_values: list[float]) -> float:
    """The p-value of several that may depend on each other in any way."""
    # A p-value of 0 is infinite evidence, for which about 1e16 is used.
    evidence = [math.tan((0.5 - min(p, _MAX_P_VALUE)) * math.pi) for p in p_values]
    mean = sum(evidence) / len(evidence)
    # Far out, the difference of 1/2 and the arctangent has no digits left; its reciprocal's arctangent has.
    return math.atan(1.0 / mean) / math.pi if mean > 1.0 else 0.5 - math.atan(mean) / math.pi


def kernel_p_value(table: ScoreTable) -> float:
    r"""P-value of the kernel calibration error on logits, with no resampling: :func:`kce_p_value`.

    In weighted tables, whose single events are unknown, rows count as normal: the quadratic form of their residuals, of
    variances v, has the mean :math:`\sum v_i`, the variance :math:`2 \sum_{ij} v_i v_j k_{ij}^2` and the third cumulant
    :math:`8 \sum_{ijl} v_i v_j v_l k_{ij} k_{jl} k_{il}`.
    """
    if not table.weighted:
        return kce_p_value(table, scale="logit")
    location = logits(table.score)
    variance = table.residual_variance
    return pearson_p_value(
        float(laplace_quadratic_form(location, table.residual, 1.0)),
        float(variance.sum()),
        2.0 * float(laplace_quadratic_form(location, variance, 0.5)),
        8.0 * float(laplace_cubic_form(location, variance, 1.0)),
    )


def _ranks_p_value(table: ScoreTable, draws: int, seed: int | None) -> float:
    groups = merge_rows(table, RANK_GROUPS)
    counts = groups.counts
    # The rank of a row is that of the middle of its events: equal predictions share a rank.
    ranks = (np.cumsum(counts) - counts / 2.0) / counts.sum()
    value = float(shifted_bins_mean(ranks, groups.residual, RANK_BIN_WIDTH))
    null = np.concatenate(
        [
            shifted_bins_means(ranks, np.ascontiguousarray((positives - counts * groups.score).T), RANK_BIN_WIDTH)
            for positives in outcomes(generator(table, seed, RANKS), groups, groups.score, draws)
        ]
    )
    return resampled_p_value(null, value)


def gamma_tail(value: float, mean: float, variance: float) -> float:
    """The tail, from a value on, of the Gamma law of this mean and variance, close to that of a quadratic form."""
    if variance <= 0.0:
        # Nothing can vary, as if every prediction is 0 or 1: any difference is impossible.
        return 1.0 if value <= mean else 0.0
    return float(gammaincc(mean**2 / variance, max(value, 0.0) * mean / variance))


@dataclass(frozen=True, slots=True)
class KceMoments:
    """The law of kCE^2 if the model is calibrated, given its predictions.

    Attributes
    ----------
    mean
        Of kCE^2; the unbiased estimate U has mean 0.
    variance
        Of kCE^2.
    third_cumulant
        Of kCE^2: its third moment about the mean.
    unbiased_variance
        Of U; nan for a single event, of which there is no U.
    """

    mean: float
    variance: float
    third_cumulant: float
    unbiased_variance: float


def kce_null_moments(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> KceMoments:
    r"""Moments of kCE^2 and of its unbiased estimate under calibration, exact and in linear time.

    With :math:`v_i = p_i (1 - p_i)`, the residuals are independent and of mean 0 and variance v, so

    .. math:: E[\mathrm{kCE}^2] = \frac{1}{n^2} \sum_i v_i, \qquad
        \mathrm{Var}(U) = \frac{2}{n^2 (n - 1)^2} \sum_{i \ne j} v_i v_j k_{ij}^2,

    and kCE^2 has the diagonal's variance, :math:`n^{-4} \sum_i v_i s_i^2` with :math:`s_i = 1 - 2 p_i`, besides that of
    its pairs. The diagonal is linear in the residuals, :math:`r_i^2 = v_i + s_i r_i`, from which the third cumulant
    follows:

    .. math:: n^6 \kappa_3 = \sum_i s_i^4 v_i + \sum_{i \ne j} v_i v_j
        \big( 6 s_i s_j k_{ij} + 12 s_i^2 k_{ij}^2 + 4 s_i s_j k_{ij}^3 \big)
        + 8 \sum_{i \ne j \ne l \ne i} v_i v_j v_l k_{ij} k_{jl} k_{il}

    A power of the Laplace kernel is the Laplace kernel of that part of the bandwidth.

    Parameters
    ----------
    table
        m rows of whole counts; the outcomes are ignored. The events of a cell count as lying at its mean.
    bandwidth
        Bandwidth of the kernel, finite and above 0.
    scale
        ``probability`` or ``logit``, as of ``monitor.measures.kernel_error``.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong, or the table is weighted.
    """
    location = _location(table, bandwidth, scale)
    p, counts, n = table.score, table.counts, table.total
    v, skew = p * (1.0 - p), 1.0 - 2.0 * p
    of_row, skewed = counts * v, counts * v * skew
    # Sums over pairs of events: those over pairs of rows, less each event with itself.
    potential = laplace_potential(location, of_row, bandwidth / 2.0)
    pairs = max(0.0, float(of_row @ (potential - v)))
    own = float(skewed @ (v * skew))
    first_power = float(laplace_quadratic_form(location, skewed, bandwidth)) - own
    second_power = float((skewed * skew) @ (potential - v))
    third_power = float(laplace_quadratic_form(location, skewed, bandwidth / 3.0)) - own
    # Triples with two equal events are left out, three times as often as there are such pairs.
    triples = float(laplace_cubic_form(location, of_row, bandwidth)) - float((of_row * v) @ (3.0 * potential - 2.0 * v))
    return KceMoments(
        mean=float(of_row.sum()) / n**2,
        variance=(2.0 * pairs + float(skewed @ skew)) / n**4,
        third_cumulant=(
            float(skewed @ skew**3) + 6.0 * first_power + 12.0 * second_power + 4.0 * third_power + 8.0 * triples
        )
        / n**6,
        unbiased_variance=2.0 * pairs / (n * (n - 1.0)) ** 2 if n > 1.0 else float("nan"),
    )


def kce_p_value(table: ScoreTable, *, bandwidth: float = 1.0, scale: Scale = "probability") -> float:
    """How often a calibrated model's kCE is as large, by :func:`pearson_p_value` with the moments of kCE^2.

    Without draws it costs as little as kCE, and can be smaller than 1 / (1 + draws).

    Parameters
    ----------
    table
        m rows of whole counts.
    bandwidth, scale
        As of :func:`kce_null_moments`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong, or the table is weighted.
    """
    moments = kce_null_moments(table, bandwidth=bandwidth, scale=scale)
    location = _location(table, bandwidth, scale)
    square = max(0.0, float(laplace_quadratic_form(location, table.residual, bandwidth))) / table.total**2
    return pearson_p_value(square, moments.mean, moments.variance, moments.third_cumulant)


def pearson_p_value(value: float, mean: float, variance: float, third_cumulant: float) -> float:
    """The tail, from a value on, of the Pearson III law (a shifted Gamma law) of these three cumulants.

    A Gamma law of the mean and variance alone, as in section 3 of the mathematics, has too thin a tail for a quadratic
    form: it is right at .05, but rejects at .001 two to three times as often as it should.
    """
    if variance <= 0.0:
        # Nothing can vary, as if every prediction is 0 or 1: any difference is impossible.
        return 1.0 if value <= mean else 0.0
    spread = math.sqrt(variance)
    deviation, skewness = (value - mean) / spread, third_cumulant / spread**3
    if abs(skewness) < _MIN_SKEWNESS:
        return float(ndtr(-deviation))
    shape = (2.0 / skewness) ** 2
    tail = gammaincc if skewness > 0.0 else gammainc
    return float(tail(shape, max(shape + 2.0 / skewness * deviation, 0.0)))


def _location(table: ScoreTable, bandwidth: float, scale: Scale) -> Floats:
    """Where the rows lie for the kernel; checks the options."""
    require_positive("bandwidth", bandwidth)
    require_choice("scale", scale, ("probability", "logit"))
    require_events(table, "the law of kCE")
    if table.weighted:
        raise InputError("the law of kCE needs whole counts, got a weighted table; leave the weights out")
    return kernel_location(table, scale)
