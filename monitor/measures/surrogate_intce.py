"""The surrogate interval calibration error: bins of one width under a random shift."""

from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import Limit
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.shifted_bins_loops import shifted_bins_mean, shifted_bins_means, shifted_bins_signs
from monitor.scores import ScoreTable
from monitor.scores.table import require_events

_RELATIVE_GAIN: Final = 1e-15
"""Relative gain below which halving the width further does not change the value."""


def surrogate_intce(table: ScoreTable) -> float:
    r"""Surrogate interval calibration error.

    .. math:: \mathrm{SintCE} = \inf_{k \ge 0} \mathrm{RintCE}(2^{-k}) + 2^{-k}

    Parameters
    ----------
    table
        m rows.

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
    residual = table.drawn_residual(positives)
    n = table.total
    best = np.asarray(np.abs(residual).sum(axis=1) / n)
    smallest_gap = float(np.diff(table.score).min(initial=1.0))
    falling = np.arange(best.size)  # draws in which a narrower width can still be better
    width = 1.0
    while width > smallest_gap and falling.size:
        mean = shifted_bins_means(table.score, residual[falling], width) / n
        going = mean < best[falling] * (1.0 - _RELATIVE_GAIN)
        falling = falling[going]
        best[falling] = np.minimum(best[falling], mean[going] + width)
        width /= 2.0
    return best


def error_bound(table: ScoreTable, value: float) -> float:
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


MEASURE = Limit(
    name="surrogate_intce",
    title="surrogate intCE",
    help="Binned residuals of randomly shifted bins of one width plus that width, at the best width.",
    unit="ratio",
    value=surrogate_intce,
    error_bound=error_bound,
    draws=surrogate_intce_draws,
    gradient=surrogate_intce_gradient,
    rank=50,
)
