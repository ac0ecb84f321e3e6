"""The maximum calibration error over bins."""

from typing import Final, NamedTuple

import numpy as np
from scipy import special

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, BinnedError, binned_error, first_rows
from monitor.scores import ScoreTable
from monitor.scores.table import require_events

_SELECTING: Final = 0.001
"""Probability of missing a bin that attains the law's gap."""


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
    r"""The ends of a 95% interval of the largest gap of the law in a bin that holds events.

    From the limits of Clopper and Pearson for the rate of positives in each bin, which hold for any number of events;
    resampling cannot estimate the variance of a bin of a few events.

    The upper end is the largest upper limit with a tail of .025: only the limit of the bin that attains the law's gap
    must hold. The lower end is the largest lower limit, and each of the K bins that may attain the gap can make it too
    high: those whose gap may be as large as the largest certain one. Each has a tail of .05 / max(K, 2): for K = 1 the
    upper end may fail, too, with .025; for nearly tied bins it hardly can. The existence of a gap is tested with
    .025 / K, because without one a bin can deviate to either side.

    With weights, a bin counts as the number of equal events with the same variance.
    """
    bins = _Bins.of(table)
    smallest, largest = bins.limits(_SELECTING / bins.mean.size)
    candidates = largest >= smallest.max()
    ties = int(candidates.sum())
    gap_exists = bins.limits(0.025 / ties)[0][candidates].max() > 0.0
    lower = bins.limits(0.05 / max(ties, 2))[0][candidates].max() if gap_exists else 0.0
    return float(lower), float(bins.limits(0.025)[1].max())


class _Bins(NamedTuple):
    """Bins with events: hits, effective events and mean prediction, (b,) each."""

    hits: Floats
    events: Floats
    mean: Floats

    @classmethod
    def of(cls, table: ScoreTable) -> "_Bins":
        first = first_rows(table, "equal_width", DEFAULT_N_BINS)
        starts = first[:-1][np.diff(first) > 0]
        squares = table.event_squares
        columns = [
            np.add.reduceat(column, starts) for column in (table.positives, table.counts, table.residual, squares)
        ]
        held = columns[1] > 0.0
        positives, counts, residual, squares = (column[held] for column in columns)
        events = counts**2 / squares
        return cls(events * positives / counts, events, (positives - residual) / counts)

    def limits(self, tail: float) -> tuple[Floats, Floats]:
        """The smallest and the largest gap of each bin, each with this tail probability."""
        hits, misses = self.hits, self.events - self.hits
        lowest = np.where(hits > 0.0, special.betaincinv(np.maximum(hits, 1e-9), misses + 1.0, tail), 0.0)
        highest = np.where(misses > 0.0, special.betaincinv(hits + 1.0, np.maximum(misses, 1e-9), 1.0 - tail), 1.0)
        below, above = lowest - self.mean, highest - self.mean
        return np.maximum(0.0, np.maximum(below, -above)), np.maximum(-below, above)


MEASURE = SemiNorm(
    name="mce",
    title="MCE",
    help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal width.",
    unit="ratio",
    value=mce,
    ends=mce_ends,
    appears_in="reports",
    rank=72,
    **BinnedError("equal_width", "max").parts(),
)
