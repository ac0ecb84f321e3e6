"""The expected calibration error over bins, and its relatives in other norms."""

import numpy as np
from numpy.typing import NDArray

from monitor.measures.base import Measure
from monitor.measures.bins import (
    DEFAULT_N_BINS,
    BinKind,
    BinNorm,
    binned_error,
    binned_error_bound,
    binned_norms,
    first_rows,
)
from monitor.measures.checks import require_events
from monitor.scores import ScoreTable


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
        ``equal_width``: edges i / n_bins, closed on the left and open on the right, but for the last: p = 1 falls in
        the last bin. ``quantile``: as equally filled as rows allow; equal predictions are never parted, so a row goes
        where the middle of its events falls.
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


def ece_norms(table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """ECE over ten bins of equal width as a semi-norm of the residuals: m rows, residual (draws, m) -> (draws,)."""
    return binned_norms(table, residual, first_rows(table, "equal_width", DEFAULT_N_BINS), 1)


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the ECE of the raw predictions can lie from that of the table."""
    return binned_error_bound(table, value, "equal_width", DEFAULT_N_BINS, 1)


MEASURE = Measure(
    name="ece",
    title="ECE",
    help="Expected calibration error over ten bins of equal width: the mean gap between outcome and prediction.",
    unit="ratio",
    value=ece,
    error_bound=error_bound,
    norms=ece_norms,
    rank=60,
)
