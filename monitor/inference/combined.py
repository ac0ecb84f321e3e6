"""One p-value of a window: four tests of calibration that see different faults, combined."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from monitor.inference.contradictions import contradictions, with_contradictions
from monitor.inference.cox import Cox, fit_cox, logits
from monitor.inference.kce_test import kce_p_value, pearson_p_value
from monitor.inference.resampling import RANKS, generator, outcomes, require_draws, resampled
from monitor.measures.laplace_loops import laplace_cubic_form, laplace_quadratic_form
from monitor.measures.shifted_bins_loops import shifted_bins_mean, shifted_bins_means
from monitor.scores import ScoreTable
from monitor.scores.merging import merge_rows

RANK_BIN_WIDTH: Final = 1.0 / 16.0
"""Width of the bins over ranks: each holds a sixteenth of the events."""

RANK_GROUPS: Final = 256
"""Rows are gathered into about so many groups of one size for the test on ranks, a sixteenth of a bin each: resampling
then costs the same, and little, for every table."""

_LARGEST: Final = 0.995
"""A p-value of 1 would outweigh all others in a Cauchy combination: beyond this, there is no evidence to weigh."""

_ROUNDING: Final = 1e-9
"""A draw that repeats the outcomes may differ from the value in its last bits; it counts as equal."""


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
        Of the random interval calibration error on ranks: faults anywhere, however narrow the predictions lie.
    cox
        Of offset and slope of the logits.
    contradictions
        Of the surest predictions: outcomes that they as good as excluded. 1 of weights.
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
        The table's :func:`~monitor.inference.cox.fit_cox`, if it is known already.
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
    no knowledge of how the tests depend on each other. A departure: section 3 names the three alone, which are of means
    over many events and do not see three events of p = 1e-6 come true among thousands. The contradictions' p-value is a
    bound, often 1, which would outweigh the others' evidence in a Cauchy combination; they have a tenth of the level.
    """
    require_draws(draws)
    cells = resampled(table, "a test of calibration")
    kernel = kernel_p_value(cells)
    ranks = _ranks_p_value(cells, draws, seed)
    cox = (fit or fit_cox(cells)).p_value
    surprise = contradictions(cells)
    p_value = with_contradictions(cauchy_combination([kernel, ranks, cox]), surprise)
    return CalibrationTest(p_value, kernel, ranks, cox, surprise.p_value)


def cauchy_combination(p_values: list[float]) -> float:
    """The p-value of several that may depend on each other in any way."""
    # A p-value of 0 is infinite evidence, and some 1e16 stands for that.
    evidence = [math.tan((0.5 - min(p, _LARGEST)) * math.pi) for p in p_values]
    mean = sum(evidence) / len(evidence)
    # Far out, the difference of 1/2 and the arctangent has no digits left; its reciprocal's arctangent has.
    return math.atan(1.0 / mean) / math.pi if mean > 1.0 else 0.5 - math.atan(mean) / math.pi


def kernel_p_value(table: ScoreTable) -> float:
    r"""P-value of the kernel calibration error on logits, with no resampling.

    That of :func:`~monitor.inference.kce_test.kce_p_value`. Of weights, of whose single events nothing is known, rows
    count as normal: the quadratic form of their residuals, of variances v, has the mean :math:`\sum v_i`, the variance
    :math:`2 \sum_{ij} v_i v_j k_{ij}^2` and the third cumulant :math:`8 \sum_{ijl} v_i v_j v_l k_{ij} k_{jl} k_{il}`.
    """
    if not table.weighted:
        return kce_p_value(table, scale="logit")
    location = logits(table.score)
    variance = (table.positive_squares + table.negative_squares) * table.score * (1.0 - table.score)
    return pearson_p_value(
        float(laplace_quadratic_form(location, table.residual, 1.0)),
        float(variance.sum()),
        2.0 * float(laplace_quadratic_form(location, variance, 0.5)),
        8.0 * float(laplace_cubic_form(location, variance, 1.0)),
    )


def _ranks_p_value(table: ScoreTable, draws: int, seed: int | None) -> float:
    groups = merge_rows(table, RANK_GROUPS)
    counts = groups.counts
    # Where of all events the middle of the row's own stands: ties are atomic.
    ranks = (np.cumsum(counts) - counts / 2.0) / counts.sum()
    value = float(shifted_bins_mean(ranks, groups.residual, RANK_BIN_WIDTH))
    null = np.concatenate(
        [
            shifted_bins_means(ranks, positives - counts * groups.score, RANK_BIN_WIDTH)
            for positives in outcomes(generator(table, seed, RANKS), groups, groups.score, draws)
        ]
    )
    return _resampled_p_value(null, value)


def gamma_p_value(value: float, mean: float, variance: float) -> float:
    """The tail of the Gamma law of this mean and variance from a value on."""
    if mean <= 0.0 or variance <= 0.0:
        # Nothing can vary, as where every prediction is 0 or 1: what differs all the same is impossible.
        return 1.0 if value <= 0.0 else 0.0
    return float(scipy.stats.gamma.sf(value, mean**2 / variance, scale=variance / mean))


def _resampled_p_value(null: NDArray[np.float64], value: float) -> float:
    """(1 + number of draws that reach the value) / (1 + number of draws)."""
    return (1 + int((null >= value * (1.0 - _ROUNDING)).sum())) / (1 + null.size)
