"""The binned ECE plus the width of the bins: an upper bound of the distance to calibration."""

from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinnedError, binned_error, whole_bins
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


def binned_ece_width(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Binned ECE plus the mean width of the bins.

    .. math:: \sum_j \Big| \frac{1}{n} \sum_{p_i \in I_j} (y_i - p_i) \Big| + \sum_j \frac{n_j}{n} \mathrm{width}(I_j)

    over bins I_j of equal width.

    Parameters
    ----------
    table
        m rows.
    n_bins
        Number of bins, at least 1; the mean width is 1 / n_bins.

    Returns
    -------
    float
        In [1 / n_bins, 1 + 1 / n_bins]; smaller is better. An upper bound of intCE, and with it of the distance to the
        nearest calibrated predictor, which the binned ECE without the width is not.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``n_bins`` is wrong.

    Notes
    -----
    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, equations 4 and 5.

    Examples
    --------
    >>> round(binned_ece_width(ScoreTable.from_events([0.2, 0.8], [1, 0])), 6)
    0.9
    """
    require_events(table, "binned ECE")
    return binned_error(table, "equal_width", n_bins, 1) + 1.0 / whole_bins(n_bins)


def mean_width(_table: ScoreTable) -> float:
    """Mean width of the bins, all of which have the same width."""
    return 1.0 / DEFAULT_N_BINS


MEASURE = SemiNorm(
    name="binned_ece_width",
    title="binned ECE + width",
    help="ECE over ten bins of equal width plus their width: an upper bound of the distance to calibration.",
    unit="ratio",
    value=binned_ece_width,
    offset=mean_width,
    appears_in="reports",
    rank=73,
    **BinnedError("equal_width", 1).parts(),
)
