"""The interval calibration error."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.measures.base import Limit
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.interval_partition_loops import cheapest_partition, cheapest_partition_costs
from monitor.measures.shifted_bins_loops import shifted_bins_mean
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


def intce(table: ScoreTable) -> float:
    r"""Interval calibration error.

    .. math:: \mathrm{intCE} = \min_I \sum_j \Big| \frac{1}{n} \sum_{p_i \in I_j} (y_i - p_i) \Big|
        + \sum_j \frac{n_j}{n} \mathrm{width}(I_j)

    over all partitions of [0, 1] into intervals. Exact: an interval without predictions costs nothing, so others need
    be no wider than the distance of their predictions, and dynamic programming finds the best partition.

    Parameters
    ----------
    table
        m rows.

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


def intce_partition(table: ScoreTable) -> Ints:
    """The partition at which intCE is attained.

    Parameters
    ----------
    table
        m rows.

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
    n = table.total
    return np.asarray(
        cheapest_partition_costs(table.score, table.drawn_residual(positives) / n, table.counts / n), np.float64
    )


def intce_gradient(table: ScoreTable) -> Floats:
    """The derivative by the residuals at a fixed best partition, (m,): the signs of the binned residuals."""
    bounds = intce_partition(table)
    signs = np.sign(np.add.reduceat(table.residual, bounds[:-1]))
    return np.asarray(np.repeat(signs, np.diff(bounds)) / table.total, np.float64)


def error_bound(table: ScoreTable, value: float) -> float:
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


MEASURE = Limit(
    name="intce",
    title="intCE",
    help="Interval calibration error: binned residuals plus the bins' mean width, under the best bins there are.",
    unit="ratio",
    value=intce,
    error_bound=error_bound,
    draws=intce_draws,
    gradient=intce_gradient,
    rank=40,
)
