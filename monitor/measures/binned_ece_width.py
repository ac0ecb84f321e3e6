"""The binned ECE plus the width of the bins: an upper bound of the distance to calibration."""

import numpy as np
from numpy.typing import NDArray

from monitor.measures.base import Measure
from monitor.measures.bins import (
    DEFAULT_N_BINS,
    binned_error,
    binned_error_bound,
    binned_norms,
    first_rows,
    whole_bins,
)
from monitor.measures.checks import require_events
from monitor.scores import ScoreTable


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


def binned_ece_norms(table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Binned ECE, without the width, as a semi-norm of the residuals: m rows, residual (draws, m) -> (draws,)."""
    return binned_norms(table, residual, first_rows(table, "equal_width", DEFAULT_N_BINS), 1)


def mean_width(_table: ScoreTable) -> float:
    """Mean width of the bins: all are of one width, wherever the predictions lie."""
    return 1.0 / DEFAULT_N_BINS


def error_bound(table: ScoreTable, value: float) -> float:
    """How far that of the raw predictions can lie from that of the table."""
    return binned_error_bound(table, value, "equal_width", DEFAULT_N_BINS, 1)


MEASURE = Measure(
    name="binned_ece_width",
    title="binned ECE + width",
    help="ECE over ten bins of equal width plus their width: an upper bound of the distance to calibration.",
    unit="ratio",
    value=binned_ece_width,
    error_bound=error_bound,
    norms=binned_ece_norms,
    offset=mean_width,
    stands_in="reports",
    rank=73,
)
