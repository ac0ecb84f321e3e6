"""Interval calibration errors: under the best bins, under randomly shifted bins, and the surrogate of both."""

from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.measures.base import Limit, SemiNorm, of_events
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.intce_loops import (
    cheapest_partition,
    cheapest_partition_costs,
    shifted_bins_mean,
    shifted_bins_means,
    shifted_bins_signs,
)
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_positive
from monitor.scores.table import require_events


@of_events
def intce(table: ScoreTable) -> float:
    r"""Interval calibration error.

    .. math:: \mathrm{intCE} = \min_I \sum_j \Big| \frac{1}{n} \sum_{p_i \in I_j} (y_i - p_i) \Big|
        + \sum_j \frac{n_j}{n} \mathrm{width}(I_j)

    over all partitions of [0, 1] into intervals. Exact: an interval without predictions costs nothing, so others need
    be no wider than the distance of their predictions, and dynamic programming finds the best partition.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. An upper bound of the distance to the nearest calibrated predictor.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    For a calibrated model it falls only as n^(-1/3): compare the value with its null level, not with a fixed bound.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 6.1,
    which leaves the infimum without an algorithm.

    Examples
    --------
    >>> round(intce(ScoreTable.from_events([0.4, 0.6], [1, 0])), 6)
    0.2
    """
    require_events(table, "intCE")
    value, _ = cheapest_partition(table.score, table.residual / table.total, table.counts / table.total)
    return float(value)


@of_events
def intce_partition(table: ScoreTable) -> Ints:
    """The partition at which intCE is attained.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    int64, shape (k + 1,), ascending from 0 to m
        Interval j holds the rows from ``bounds[j]`` up to, but not including, ``bounds[j + 1]``.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    require_events(table, "intCE")
    _, start = cheapest_partition(table.score, table.residual / table.total, table.counts / table.total)
    bounds = [table.rows]
    while bounds[-1] > 0:
        bounds.append(int(start[bounds[-1] - 1]))
    return np.array(bounds[::-1], np.int64)


def intce_draws(table: ScoreTable, positives: Floats) -> Floats:
    """The intCE of drawn outcomes: positives (draws, m) -> (draws,)."""
    n, counts = table.total, table.counts
    residual = positives - counts * table.score
    residual /= n
    return np.asarray(cheapest_partition_costs(table.score, residual, counts / n), np.float64)


def intce_gradient(table: ScoreTable) -> Floats:
    """The derivative by the residuals at a fixed best partition, (m,): the signs of the binned residuals."""
    bounds = intce_partition(table)
    signs = np.sign(np.add.reduceat(table.residual, bounds[:-1]))
    return np.asarray(np.repeat(signs, np.diff(bounds)) / table.total, np.float64)


def intce_error_bound(table: ScoreTable, value: float) -> float:
    r"""How far the intCE of the raw predictions can lie from that of the table, at worst.

    From above: the table's best partition is one of the raw predictions too, with the same binned residuals; only its
    intervals may be as wide as the cells at their ends reach.

    From below: cut any partition by bins of width 1 under a uniform shift. An interval of width w is cut with
    probability w at most and then adds its mass at most, so RintCE(1) <= binned residual + mean width: RintCE(1) is at
    most intCE, and known from the table up to 2 E[|r| d].
    """
    if table.exact:
        return 0.0
    bounds = intce_partition(table)
    n = table.total
    binned = np.abs(np.add.reduceat(table.residual, bounds[:-1])).sum()
    reach = table.upper[bounds[1:] - 1] - table.lower[bounds[:-1]]
    above = float(binned + (np.add.reduceat(table.counts, bounds[:-1]) * reach).sum()) / n
    unit_bins = float(shifted_bins_mean(table.score, table.residual, 1.0)) / n
    below = max(0.0, unit_bins - 2.0 * mean_residual_displacement(table))
    return max(above - value, value - below) + 2.0 * rounding(table)


DEFAULT_WIDTH: Final = 1.0 / 16.0
"""Narrow enough to locate errors, and wide enough to average out noise."""


@of_events
def rintce(table: ScoreTable, width: float = DEFAULT_WIDTH) -> float:
    r"""Random interval calibration error.

    .. math:: \mathrm{RintCE}(e) =
        E_u \sum_j \Big| \frac{1}{n} \sum_{p_i \in [u + j e, u + (j + 1) e)} (y_i - p_i) \Big|

    with u uniform in [0, e). The expectation is exact: no shift is drawn.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
    width
        e, finite and above 0.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``width`` is not a finite number above 0.

    Notes
    -----
    It never falls when the width is halved. With the width added it is an upper bound of intCE.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 6.5. The
    paper draws shifts.

    Examples
    --------
    >>> round(rintce(ScoreTable.from_events([0.4, 0.6], [1, 0]), 0.5), 6)
    0.24
    """
    require_positive("width", width)
    require_events(table, "RintCE")
    return float(shifted_bins_mean(table.score, table.residual, width)) / table.total


def rintce_norms(table: ScoreTable, residual: Floats) -> Floats:
    """RintCE as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    return np.asarray(shifted_bins_means(table.score, np.ascontiguousarray(residual.T), DEFAULT_WIDTH)) / table.total


def rintce_functional(table: ScoreTable) -> Floats:
    """The functional that attains RintCE, (m,): the mean sign of the bins that hold a prediction."""
    return np.asarray(shifted_bins_signs(table.score, table.residual, DEFAULT_WIDTH)) / table.total


def rintce_error_bound(table: ScoreTable, value: float) -> float:
    r"""How far the RintCE of the raw predictions can lie from that of the table: :math:`2 E[|r| d] / e`.

    A prediction that moves by d enters and leaves the moving bin by d earlier or later.
    """
    del value  # the bound does not depend on it
    moved = 2.0 * (mean_residual_displacement(table) + rounding(table))
    return min(1.0, moved / DEFAULT_WIDTH) + rounding(table)


_RELATIVE_GAIN: Final = 1e-15
"""Relative gain below which halving the width further does not change the value."""


@of_events
def surrogate_intce(table: ScoreTable) -> float:
    r"""Surrogate interval calibration error.

    .. math:: \mathrm{SintCE} = \inf_{k \ge 0} \mathrm{RintCE}(2^{-k}) + 2^{-k}

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. An upper bound of intCE, whose order it shares, and like it falls only as
        n^(-1/3) for a calibrated model.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    The infimum runs over all k, so on a sample the limit, every score a bin of its own, takes part. The paper's
    estimator draws shifts and stops at a width set by the sample size.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 6.10.

    Examples
    --------
    >>> round(surrogate_intce(ScoreTable.from_events([0.4, 0.6], [1, 0])), 6)
    0.6
    """
    require_events(table, "surrogate intCE")
    value, _ = _best(table)
    return value


def surrogate_intce_gradient(table: ScoreTable) -> Floats:
    """The derivative by the residuals at a fixed best width, (m,): the bins' mean signs."""
    _, width = _best(table)
    signs = np.sign(table.residual) if width is None else shifted_bins_signs(table.score, table.residual, width)
    return np.asarray(signs / table.total, np.float64)


def _best(table: ScoreTable) -> tuple[float, float | None]:
    """The surrogate, and the width that attains it; None is the limit, every score a bin of its own."""
    residual = table.residual
    n = table.total
    best = float(np.abs(residual).sum()) / n  # the limit, attained once no bin holds two scores
    best_width = None
    smallest_gap = float(np.diff(table.score).min(initial=1.0))
    width = 1.0
    while width > smallest_gap:
        mean = float(shifted_bins_mean(table.score, residual, width)) / n
        # RintCE(2^-k) never falls with k, so no later total is below this one's first term.
        if mean >= best * (1.0 - _RELATIVE_GAIN):
            break
        if mean + width < best:
            best, best_width = mean + width, width
        width /= 2.0
    return best, best_width


def surrogate_intce_draws(table: ScoreTable, positives: Floats) -> Floats:
    """The surrogate intCE of drawn outcomes: positives (draws, m) -> (draws,)."""
    residual = positives - table.counts * table.score
    n = table.total
    best = np.asarray(np.abs(residual).sum(axis=1) / n)
    side_by_side = np.ascontiguousarray(residual.T)
    smallest_gap = float(np.diff(table.score).min(initial=1.0))
    falling = np.ones(best.size, np.bool_)  # draws in which a narrower width can still be better
    width = 1.0
    while width > smallest_gap and falling.any():
        mean = shifted_bins_means(table.score, side_by_side, width) / n
        falling &= mean < best * (1.0 - _RELATIVE_GAIN)
        best = np.where(falling, np.minimum(best, mean + width), best)
        width /= 2.0
    return best


def surrogate_intce_error_bound(table: ScoreTable, value: float) -> float:
    r"""How far the surrogate intCE of the raw predictions can lie from that of the table.

    A prediction that moves by d enters and leaves the moving bin by d earlier or later, so RintCE(e) moves by at
    most :math:`2 E[|r| d] / e`. From above, that holds at every width. From below, RintCE of a smaller width is at
    least that of a larger one, also in the limit.
    """
    if table.exact:
        return 0.0
    residual = table.residual
    n = table.total
    moved = 2.0 * (mean_residual_displacement(table) + rounding(table))
    above = 1.0 + float(shifted_bins_mean(table.score, residual, 1.0)) / n + moved
    below = np.inf
    floor = 0.0
    width = 1.0
    while width > moved:  # for smaller widths the bound says nothing
        mean = float(shifted_bins_mean(table.score, residual, width)) / n
        floor = max(floor, mean - moved / width)
        above = min(above, mean + moved / width + width)
        below = min(below, floor + width)
        width /= 2.0
    below = min(below, floor)
    return max(above - value, value - below) + rounding(table)


MEASURES: Final = (
    Limit(
        name="intce",
        title="intCE",
        help="Interval calibration error: binned residuals plus the bins' mean width, under the best bins there are.",
        unit="ratio",
        value=intce,
        error_bound=intce_error_bound,
        draws=intce_draws,
        gradient=intce_gradient,
        rank=40,
    ),
    SemiNorm(
        name="rintce",
        title="RintCE(1/16)",
        help="Mean binned residual of bins of width 1/16, over all shifts of the bins.",
        unit="ratio",
        value=rintce,
        error_bound=rintce_error_bound,
        norms=rintce_norms,
        witness=rintce_functional,
        appears_in="reports",
        rank=66,
    ),
    Limit(
        name="surrogate_intce",
        title="surrogate intCE",
        help="Binned residuals of randomly shifted bins of one width plus that width, at the best width.",
        unit="ratio",
        value=surrogate_intce,
        error_bound=surrogate_intce_error_bound,
        draws=surrogate_intce_draws,
        gradient=surrogate_intce_gradient,
        rank=50,
    ),
)
