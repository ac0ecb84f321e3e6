"""The maximum calibration error over bins."""

from typing import Final, NamedTuple

import numpy as np
from scipy import special

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, BinnedError, binned_error, first_rows
from monitor.measures.checks import require_events
from monitor.scores import ScoreTable

_SELECTING: Final = 0.001
"""Probability with which a bin that attains the law's gap may be passed over."""


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

    From the limits of Clopper and Pearson for the rate of positives in each bin, which hold at any number of events,
    where resampling could not tell how much a bin of a handful varies.

    The upper end is the largest upper limit with a tail of .025: the bin that attains the law's gap alone must keep to
    its own. The lower end is the largest lower limit, and any of the K bins that may attain the gap can take it too
    high: those whose gap may be as large as the largest one is for certain. Each has a tail of .05 / max(K, 2): where K
    is 1 the upper end may fail, too, with .025; and where bins are as good as tied it hardly can. Whether there is a
    gap at all takes .025 / K, for where there is none a bin can be off to either side.

    Of weights, a bin holds as many events as vary alike.
    """
    bins = _Bins.of(table)
    least, most = bins.limits(_SELECTING / bins.mean.size)
    may = most >= least.max()
    ties = int(may.sum())
    found = bins.limits(0.025 / ties)[0][may].max() > 0.0
    lower = bins.limits(0.05 / max(ties, 2))[0][may].max() if found else 0.0
    return float(lower), float(bins.limits(0.025)[1].max())


class _Bins(NamedTuple):
    """The bins that hold events: hits among events that vary alike, and the mean prediction; each (b,)."""

    hits: Floats
    alike: Floats
    mean: Floats

    @classmethod
    def of(cls, table: ScoreTable) -> "_Bins":
        first = first_rows(table, "equal_width", DEFAULT_N_BINS)
        starts = first[:-1][np.diff(first) > 0]
        squares = table.positive_squares + table.negative_squares
        columns = [np.add.reduceat(each, starts) for each in (table.positives, table.counts, table.residual, squares)]
        held = columns[1] > 0.0
        positives, counts, residual, squares = (column[held] for column in columns)
        alike = counts**2 / squares
        return cls(alike * positives / counts, alike, (positives - residual) / counts)

    def limits(self, tail: float) -> tuple[Floats, Floats]:
        """The least and the largest gap of each bin, each end with this tail."""
        hits, misses = self.hits, self.alike - self.hits
        least = np.where(hits > 0.0, special.betaincinv(np.maximum(hits, 1e-9), misses + 1.0, tail), 0.0)
        most = np.where(misses > 0.0, special.betaincinv(hits + 1.0, np.maximum(misses, 1e-9), 1.0 - tail), 1.0)
        below, above = least - self.mean, most - self.mean
        return np.maximum(0.0, np.maximum(below, -above)), np.maximum(-below, above)


_ERROR: Final = BinnedError("equal_width", "max")

MEASURE = SemiNorm(
    name="mce",
    title="MCE",
    help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal width.",
    unit="ratio",
    value=mce,
    error_bound=_ERROR.error_bound,
    norms=_ERROR.norms,
    witness=_ERROR.witness,
    ends=mce_ends,
    appears_in="reports",
    rank=72,
)
