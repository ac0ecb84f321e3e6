"""Tests of the hypothesis that a model of many classes is calibrated."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash
from scipy.special import ndtr

from monitor.classes.base import require_rows
from monitor.classes.class_loops import categorical_draws, term_rows
from monitor.classes.skce import Estimator, KernelName, Lengthscale, PairSums, VectorKernel, skce, skce_blocks
from monitor.errors import NotEnoughData
from monitor.inference.resampling import require_draws, resampled_p_value
from monitor.scores import ClassTable

MAX_TERM: Final = 2.0
"""Bound of |h_ij|: k <= 1, and residuals of a simplex have length sqrt(2) at most."""

_ROWS_AT_ONCE: Final = 1 << 21
"""Number of terms h_ij in memory."""


@dataclass(frozen=True, slots=True)
class ClassCalibrationTest:
    """The result of a test.

    Attributes
    ----------
    test
        Its name.
    estimate
        The measure.
    p_value
        Probability, or an upper bound, that a calibrated model does as badly.
    statistic
        The test statistic; in some tests the estimate itself.
    deviation
        Standard error of the estimate, or its standard deviation under calibration; None if the test computes neither.
    """

    test: str
    estimate: float
    p_value: float
    statistic: float
    deviation: float | None = None


def block_test(
    table: ClassTable, *, block_size: int = 2, kernel: KernelName = "exponential", lengthscale: Lengthscale = 1.0
) -> ClassCalibrationTest:
    """Asymptotic normal test of the block estimator of the SKCE: z = mean / standard error over the blocks.

    Linear in the number of events, but weak: of errors that all pairs detect in 92% of cases, blocks of two detect 5 to
    18%. For more events than fit in memory; otherwise use :func:`exact_variance_test`.

    Parameters
    ----------
    table
        n events, at least two blocks. Their order matters.
    block_size
        Events in a block, at least 2.
    kernel, lengthscale
        See :func:`~monitor.classes.skce`.

    Raises
    ------
    NotEnoughData
        There are fewer than two blocks.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Widmann, Lindsten, Zachariah 2019, Corollary 1; ``AsymptoticBlockSKCETest`` of CalibrationTests.jl.
    """
    values = skce_blocks(table, kernel=kernel, lengthscale=lengthscale, block_size=block_size)
    if values.size < 2:
        raise NotEnoughData(f"the block test needs at least 2 blocks of {block_size} events, got {table.rows} events")
    estimate = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    if estimate == 0.0:
        z = 0.0
    elif error > 0.0:
        z = estimate / error
    else:  # all blocks are equal
        z = math.copysign(math.inf, estimate)
    return ClassCalibrationTest("block", estimate, float(ndtr(-z)), z, error)


def exact_variance_test(
    table: ClassTable, *, kernel: KernelName = "exponential", lengthscale: Lengthscale = 1.0
) -> ClassCalibrationTest:
    """Test of the unbiased quadratic estimator of the SKCE, whose variance under calibration is known exactly.

    Given the predictions, every outcome is drawn from its prediction if the model is calibrated; mean and variance of
    the estimate follow without draws, and a Gamma law of these gives the p-value. In time n^2 K.

    Parameters
    ----------
    table
        n events, at least 2.
    kernel, lengthscale
        See :func:`~monitor.classes.skce`.

    Raises
    ------
    NotEnoughData
        Fewer than two events.
    InputError
        An option is wrong.
    """
    require_rows(table, "the exact-variance test", least=2)
    sums = PairSums.of(table, VectorKernel.of(table, kernel, lengthscale))
    _, p_value = sums.null_law()
    return ClassCalibrationTest("exact_variance", sums.unbiased, p_value, sums.unbiased, sums.null_deviation)


def bootstrap_test(
    table: ClassTable,
    *,
    kernel: KernelName = "exponential",
    lengthscale: Lengthscale = 1.0,
    draws: int = 999,
    seed: int | None = None,
) -> ClassCalibrationTest:
    r"""Bootstrap test of the unbiased quadratic estimator of the SKCE.

    The statistic is n/(n-1) U - V. Its distribution under calibration is approximated by resamples of the events: the
    mean of h over pairs of the resample, minus twice the mean over pairs of one event of the resample and one of the
    data (Arcones and Gine 1992). In time n^2 (K + draws).

    Parameters
    ----------
    table
        n events, at least 2.
    kernel, lengthscale
        See :func:`~monitor.classes.skce`.
    draws
        Number of resamples, at least 19.
    seed
        For the draws; derived from the table's content if left out.

    Raises
    ------
    NotEnoughData
        Fewer than two events.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Widmann, Lindsten, Zachariah, "Calibration tests beyond classification", 2021; ``AsymptoticSKCETest`` of
    CalibrationTests.jl. Here the data count as one of the draws, so that the p-value is never 0.
    """
    require_rows(table, "the bootstrap test", least=2)
    rng = _generator(table, draws, seed)
    chosen = VectorKernel.of(table, kernel, lengthscale)
    n = table.rows
    weights = rng.multinomial(n, np.full(n, 1.0 / n), size=draws).astype(np.float64)
    own = (table.residual**2).sum(axis=1)
    resampled, crossed, total = np.zeros(draws), np.zeros(draws), 0.0
    step = max(1, _ROWS_AT_ONCE // n)
    for first in range(0, n, step):
        end = min(n, first + step)
        terms = term_rows(table.prediction, table.outcome, first, end, chosen.kind, chosen.lengthscale)
        resampled += ((weights @ terms.T) * weights[:, first:end]).sum(axis=1)
        crossed += weights[:, first:end] @ terms.sum(axis=1)
        total += float(terms.sum())
    pairs = n * (n - 1.0)
    unbiased = (total - float(own.sum())) / pairs
    statistic = n / (n - 1.0) * unbiased - total / n**2
    resampled_values = (resampled - weights @ own) / pairs - 2.0 * crossed / n**2
    return ClassCalibrationTest("bootstrap", unbiased, resampled_p_value(resampled_values, statistic), statistic)


def distribution_free_test(
    table: ClassTable,
    *,
    estimator: Estimator = "unbiased",
    block_size: int = 2,
    kernel: KernelName = "exponential",
    lengthscale: Lengthscale = 1.0,
) -> ClassCalibrationTest:
    r"""Test by a bound that holds for every calibrated model and every number of events.

    .. math:: P(U \ge t) \le \exp(-\lfloor n/2 \rfloor t^2 / (2 B^2)), \qquad
              P(V \ge t) \le \exp(-\max(0, \sqrt{n t / B} - 1)^2 / 2)

    with B = 2 the largest \|h\|. The p-value is never too small, and mostly far too large.

    Parameters
    ----------
    table
        n events.
    estimator, block_size, kernel, lengthscale
        See :func:`~monitor.classes.skce`.

    Raises
    ------
    NotEnoughData
        There are too few events for the estimator.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Widmann, Lindsten, Zachariah 2019, Theorems 2 and 3; ``DistributionFreeSKCETest`` of CalibrationTests.jl.
    Two departures from the latter: an estimate below 0 has the p-value 1, not that of its square; and the estimator of
    blocks of m counts the floor(m/2) independent pairs of its whole blocks, not all n/2.
    """
    estimate = skce(table, kernel=kernel, lengthscale=lengthscale, estimator=estimator, block_size=block_size)
    if estimator == "biased":
        excess = max(0.0, math.sqrt(table.rows * estimate / MAX_TERM) - 1.0)
        p_value = math.exp(-(excess**2) / 2.0)
    else:
        pairs = table.rows // 2 if estimator == "unbiased" else table.rows // block_size * (block_size // 2)
        p_value = math.exp(-pairs * max(0.0, estimate) ** 2 / (2.0 * MAX_TERM**2))
    return ClassCalibrationTest("distribution_free", estimate, p_value, estimate)


def consistency_test(
    table: ClassTable, measure: Callable[[ClassTable], float], *, draws: int = 199, seed: int | None = None
) -> ClassCalibrationTest:
    """Test of any measure by consistency resampling.

    Predictions are resampled, and outcomes drawn from them.

    Parameters
    ----------
    table
        n events, at least 1.
    measure
        The statistic; larger is worse.
    draws
        Number of resamples, at least 19. Each calls ``measure`` once.
    seed
        For the draws; derived from the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table holds too little for the measure.
    InputError
        ``draws`` is too small.

    Notes
    -----
    Source: Broecker and Smith, "Increasing the reliability of reliability diagrams", 2007; Vaicenavicius et al. 2019;
    ``ConsistencyTest`` of CalibrationTests.jl. The data count as one of the draws, so that the p-value is never 0.
    """
    require_rows(table, "the consistency test")
    rng = _generator(table, draws, seed)
    estimate = measure(table)
    resampled_values = np.empty(draws)
    for draw in range(draws):
        prediction = table.prediction[rng.integers(table.rows, size=table.rows)]
        outcome = categorical_draws(rng, np.cumsum(prediction, axis=1), 1)[0]
        resampled_values[draw] = measure(ClassTable(prediction, outcome.astype(np.int64)))
    return ClassCalibrationTest("consistency", estimate, resampled_p_value(resampled_values, estimate), estimate)


def table_seed(table: ClassTable) -> int:
    """Derive a seed from a table's content, so that draws are reproducible."""
    digest = xxhash.xxh3_64(np.ascontiguousarray(table.prediction).astype("<f8").tobytes())
    digest.update(table.outcome.astype("<i8").tobytes())
    return int(digest.intdigest())


def _generator(table: ClassTable, draws: int, seed: int | None) -> np.random.Generator:
    require_draws(draws)
    return np.random.default_rng(table_seed(table) if seed is None else seed)
