"""The maximum calibration error over bins."""

from typing import Final

from monitor.measures.base import Measure
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, BinnedError, binned_error
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


_ERROR: Final = BinnedError("equal_width", "max")

MEASURE = Measure(
    name="mce",
    title="MCE",
    help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal width.",
    unit="ratio",
    value=mce,
    error_bound=_ERROR.error_bound,
    norms=_ERROR.norms,
    stands_in="reports",
    rank=72,
)
