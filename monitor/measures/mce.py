"""The maximum calibration error over bins."""

from typing import Final

import numpy as np
from scipy import special

from monitor.measures.base import Measure
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, BinnedError, binned_error, first_rows
from monitor.measures.checks import require_events
from monitor.scores import ScoreTable


def mce(table: ScoreTable, *, bins: BinKind = "equal_width", n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Maximum calibration error.

    .. math:: \max_b |\bar y_b - \bar p_b|

    Parameters
    ----------
    table
        m rows.
    bins, n_bins
        As in :func:`ece`.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. The worst bin decides, however few events it holds: with a single event it
        is |y - p|.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.

    Examples
    --------
    >>> round(mce(ScoreTable.from_events([0.1, 0.2, 0.85, 0.9], [0, 1, 1, 0])), 6)
    0.9
    """
    require_events(table, "MCE")
    return binned_error(table, bins, n_bins, "max")


def mce_ends(table: ScoreTable) -> tuple[float, float]:
    """The ends of a 95% interval of the largest gap of the law in a bin that holds events.

    The rate of positives of each bin lies in its interval of Clopper and Pearson, that of all B bins at once with a
    probability of .95, for each misses it with .05 / B at most (Bonferroni). That holds at any number of events, where
    resampling could not tell how much a bin of a handful of them varies. Of weights, a bin holds as many events as vary
    alike.
    """
    first = first_rows(table, "equal_width", DEFAULT_N_BINS)
    starts = first[:-1][np.diff(first) > 0]
    positives, counts, residual, squares = (
        np.add.reduceat(column, starts)
        for column in (
            table.positives,
            table.counts,
            table.residual,
            table.positive_squares + table.negative_squares,
        )
    )
    held = counts > 0.0
    positives, counts, residual, squares = (column[held] for column in (positives, counts, residual, squares))
    alike = counts**2 / squares
    hits = alike * positives / counts
    tail = 0.025 / counts.size
    least = np.where(hits > 0.0, special.betaincinv(np.maximum(hits, 1e-9), alike - hits + 1.0, tail), 0.0)
    misses = alike - hits
    most = np.where(misses > 0.0, special.betaincinv(hits + 1.0, np.maximum(misses, 1e-9), 1.0 - tail), 1.0)
    mean = (positives - residual) / counts
    below, above = least - mean, most - mean
    return float(np.maximum(0.0, np.maximum(below, -above)).max()), float(np.maximum(-below, above).max())


_ERROR: Final = BinnedError("equal_width", "max")

MEASURE = Measure(
    name="mce",
    title="MCE",
    help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal width.",
    unit="ratio",
    value=mce,
    error_bound=_ERROR.error_bound,
    norms=_ERROR.norms,
    witness=_ERROR.witness,
    ends=mce_ends,
    stands_in="reports",
    rank=72,
)
