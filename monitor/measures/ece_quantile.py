"""The expected calibration error over bins that hold equally many events."""

from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinnedError, binned_error
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


def ece_quantile(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Expected calibration error over equally filled bins.

    .. math:: \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|

    Of two classes, this is the term of one class in the adaptive calibration error (ACE).

    Parameters
    ----------
    table
        m rows.
    n_bins
        Number of bins, at least 1. They are as equally filled as rows allow: equal predictions share a bin, that of
        the middle of their events.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. Biased upwards where bins hold few events.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``n_bins`` is wrong.

    Notes
    -----
    Source: Nixon, Dusenberry, Zhang, Jerfel, Tran, "Measuring Calibration in Deep Learning", 2019, section 3.3; the
    quantile bins of Matsubara, Tax, Mudd, Guy, "TCE", 2023. Those split equal predictions, this does not.

    Examples
    --------
    >>> round(ece_quantile(ScoreTable.from_events([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 0]), n_bins=2), 6)
    0.35
    """
    require_events(table, "ECE")
    return binned_error(table, "quantile", n_bins, 1)


MEASURE = SemiNorm(
    name="ece_quantile",
    title="equal-mass ECE",
    help="Expected calibration error over ten bins that hold equally many predictions.",
    unit="ratio",
    value=ece_quantile,
    appears_in="reports",
    rank=70,
    **BinnedError("quantile", 1).parts(),
)
