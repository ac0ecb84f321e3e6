"""The maximum calibration error over bins."""

import numpy as np
from numpy.typing import NDArray

from monitor.measures.base import Measure
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, binned_error, binned_error_bound, binned_norms, first_rows
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


def mce_norms(table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """MCE as a semi-norm of the residuals: m rows, residual (draws, m) -> (draws,)."""
    return binned_norms(table, residual, first_rows(table, "equal_width", DEFAULT_N_BINS), "max")


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the MCE of the raw predictions can lie from that of the table."""
    return binned_error_bound(table, value, "equal_width", DEFAULT_N_BINS, "max")


MEASURE = Measure(
    name="mce",
    title="MCE",
    help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal width.",
    unit="ratio",
    value=mce,
    error_bound=error_bound,
    norms=mce_norms,
    stands_in="reports",
    rank=72,
)
