"""The expected calibration error over bins, and its relatives in other norms."""

from monitor.measures.base import SemiNorm
from monitor.measures.bins import DEFAULT_N_BINS, BinKind, BinnedError, BinNorm, binned_error
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


def ece(table: ScoreTable, *, bins: BinKind = "equal_width", n_bins: int = DEFAULT_N_BINS, norm: BinNorm = 1) -> float:
    r"""Expected calibration error.

    .. math:: \Big( \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|^q \Big)^{1/q}

    With ``norm`` 1 this is the expected calibration error; with 2 the root mean square calibration error; with ``max``
    the maximum calibration error, the largest |mean outcome - mean prediction| of a bin.

    Parameters
    ----------
    table
        m rows.
    bins
        ``equal_width``: edges i / n_bins, closed on the left and open on the right, except the last: p = 1 falls in
        the last bin. ``quantile``: as equally filled as rows allow; equal predictions share a bin, that of the middle
        of their events.
    n_bins
        Number of bins, at least 1.
    norm
        q: 1, 2 or ``max``.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. Biased upwards where bins hold few events, and discontinuous: a prediction
        that crosses an edge can move it by as much as its share of the events.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Naeini, Cooper, Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015; Guo,
    Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", 2017; Nixon et al., "Measuring Calibration in
    Deep Learning", 2019, for the norm 2 and for bins of equal size.

    Libraries disagree on p = 1 under bins that are open on the right: for p = [.95, 1], y = [1, 0] and 10 bins this
    gives .475, as textbooks do; torchmetrics gives .525.

    Examples
    --------
    >>> round(ece(ScoreTable.from_events([0.95, 1.0], [1, 0])), 6)
    0.475
    """
    require_events(table, "ECE")
    return binned_error(table, bins, n_bins, norm)


MEASURE = SemiNorm(
    name="ece",
    title="ECE",
    help="Expected calibration error over ten bins of equal width: the mean gap between outcome and prediction.",
    unit="ratio",
    value=ece,
    rank=60,
    **BinnedError("equal_width", 1).parts(),
)
