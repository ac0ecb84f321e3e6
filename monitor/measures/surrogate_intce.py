"""The surrogate interval calibration error: bins of one width under a random shift."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.kernels.shifted_bins import shifted_bins_mean, shifted_bins_means
from monitor.measures.base import Envelope, Measure
from monitor.measures.checks import require_events
from monitor.measures.displacement import mean_residual_displacement, rounding
from monitor.measures.drawn import drawn_residuals
from monitor.scores import ScoreTable

_RELATIVE_GAIN: Final = 1e-15
"""What halving the width further could still gain is below the last bits of the value."""

_ENCLOSING_WIDTHS: Final = 10
"""Widths that the interval knows of. Narrower ones are best for millions of events of a calibrated model alone, and
there the interval's upper end is that of width 2^-9."""

_CERTAIN_VARIANCE: Final = 10.0
"""Variance of a bin's number of positives from which on the bootstrap tells how far its residual can be off. Of a bin
with a single event it does not: a Poisson weight differs from 1 by .74 on average, and the residual from its mean by
all of it."""


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
    residual = table.residual
    n = table.total
    best = float(np.abs(residual).sum()) / n  # the limit, attained once no bin holds two scores
    smallest_gap = float(np.diff(table.score).min(initial=1.0))
    width = 1.0
    while width > smallest_gap:
        mean = float(shifted_bins_mean(table.score, residual, width)) / n
        # RintCE(2^-k) never falls with k, so no later total is below this one's first term.
        if mean >= best * (1.0 - _RELATIVE_GAIN):
            break
        best = min(best, mean + width)
        width /= 2.0
    return best


def surrogate_intce_draws(table: ScoreTable, positives: NDArray[np.float64]) -> NDArray[np.float64]:
    """The surrogate intCE of drawn outcomes: positives (draws, m) -> (draws,)."""
    residual = drawn_residuals(table, positives)
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


def surrogate_norms(table: ScoreTable, deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """What encloses the surrogate: RintCE of widths 1, 1/2, ..., 2^-9; deviation (draws, m) -> (draws, 10)."""
    return np.stack(
        [shifted_bins_means(table.score, deviation, 2.0**-k) / table.total for k in range(_ENCLOSING_WIDTHS)], axis=1
    )


def enclosing_means(table: ScoreTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The widths of :func:`surrogate_norms`, and RintCE of each; both (10,)."""
    width = np.exp2(-np.arange(float(_ENCLOSING_WIDTHS)))
    return width, np.array([shifted_bins_mean(table.score, table.residual, each) for each in width]) / table.total


def enclosing_floor(table: ScoreTable, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """What RintCE of the law is at least, at each width, given how far that of the sample can be off; both (10,).

    RintCE of a narrower width is at least that of a wider one, so widths at which the radius is no measure of chance,
    because the bins hold too little, take over from wider ones.
    """
    width, mean = enclosing_means(table)
    squares = table.positive_squares + table.negative_squares
    typical = float(squares.sum()) / table.total
    variance = squares * table.score * (1.0 - table.score) / typical**2
    floor = np.zeros(width.size)
    for place, each in enumerate(width):
        of_bins = np.bincount((table.score / each).astype(np.int64), variance)
        # Of the bin that the variance is in, on average.
        if float(of_bins @ of_bins) >= _CERTAIN_VARIANCE * float(of_bins.sum()):
            floor[place] = mean[place] - radius[place]
    return np.maximum.accumulate(np.maximum(0.0, floor))


def surrogate_ends(table: ScoreTable, radius: NDArray[np.float64]) -> tuple[float, float]:
    """Ends of an interval of the surrogate, given how far RintCE of each width can be off, radius (10,)."""
    width, mean = enclosing_means(table)
    floor = enclosing_floor(table, radius)
    # Whatever the law's best width is, a narrower one or none at all included.
    lower = min(float((floor + width).min()), float(floor[-1]))
    return lower, float((mean + radius + width).min())


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
    while width > moved:  # beyond, the bound says nothing any more
        mean = float(shifted_bins_mean(table.score, residual, width)) / n
        floor = max(floor, mean - moved / width)
        above = min(above, mean + moved / width + width)
        below = min(below, floor + width)
        width /= 2.0
    below = min(below, floor)
    return max(above - value, value - below) + rounding(table)


MEASURE = Measure(
    name="surrogate_intce",
    title="surrogate intCE",
    help="Binned residuals of randomly shifted bins of one width plus that width, at the best width.",
    unit="ratio",
    value=surrogate_intce,
    error_bound=error_bound,
    draws=surrogate_intce_draws,
    envelope=Envelope(surrogate_norms, surrogate_ends),
    rank=50,
)
