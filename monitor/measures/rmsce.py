"""The root mean square calibration error."""

from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinnedError, binned_error
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


def rmsce(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Root mean square calibration error over equally filled bins.

    .. math:: \Big( \sum_b \frac{n_b}{n} (\bar y_b - \bar p_b)^2 \Big)^{1/2}

    Parameters
    ----------
    table
        m rows.
    n_bins
        Number of bins, at least 1, filled as those of :func:`ece_quantile`.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. At least :func:`ece_quantile`, because large gaps weigh more.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``n_bins`` is wrong.

    Notes
    -----
    Source: Hendrycks, Mazeika, Dietterich, "Deep Anomaly Detection with Outlier Exposure", 2019; Nixon, Dusenberry,
    Zhang, Jerfel, Tran, "Measuring Calibration in Deep Learning", 2019, where it is of the top label: adaptive bins and
    the norm 2.

    Examples
    --------
    >>> round(rmsce(ScoreTable.from_events([0.1, 0.2, 0.7, 0.9], [0, 1, 1, 0]), n_bins=2), 6)
    0.32596
    """
    require_events(table, "RMSCE")
    return binned_error(table, "quantile", n_bins, 2)


MEASURE = SemiNorm(
    name="rmsce",
    title="RMSCE",
    help="Root mean square gap between outcome and prediction over ten bins that hold equally many predictions.",
    unit="ratio",
    value=rmsce,
    appears_in="reports",
    rank=71,
    **BinnedError("quantile", 2).parts(),
)
