"""The expected calibration error over bins, and its relatives in other norms."""

import operator
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.measures.base import Measure
from monitor.measures.checks import require_choice, require_events
from monitor.measures.displacement import rounding
from monitor.scores import ScoreTable

EceBins = Literal["equal_width", "quantile"]
EceNorm = Literal[1, 2, "max"]

DEFAULT_N_BINS: Final = 10
"""As in Naeini et al. 2015 and in the paper of TCE, so that ECE and TCE over equal-width bins share their bins; the
edges are edges of the grid too, so that a window's ECE is that of its raw predictions."""


def ece(table: ScoreTable, *, bins: EceBins = "equal_width", n_bins: int = DEFAULT_N_BINS, norm: EceNorm = 1) -> float:
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
    require_choice("bins", bins, ("equal_width", "quantile"))
    require_choice("norm", norm, (1, 2, "max"))
    try:
        size = operator.index(n_bins)
    except TypeError:
        raise InputError(f"n_bins must be a whole number, got {n_bins!r}") from None
    if size < 1:
        raise InputError(f"n_bins must be at least 1, got {size}")
    require_events(table, "ECE")
    counts = table.counts
    bounds = _equal_width(table.score, size) if bins == "equal_width" else _quantile(counts, size)
    residual = np.abs(_sums(table.residual, bounds))
    if norm == 1:
        # n_b cancels: the bins' means are never formed, so an empty bin needs no case.
        return float(residual.sum()) / table.total
    count = _sums(counts, bounds)
    gap = residual[count > 0.0] / count[count > 0.0]
    if norm == "max":
        return float(gap.max())
    return float(np.sqrt((count[count > 0.0] * gap**2).sum() / table.total))


def ece_norms(table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """ECE over ten bins of equal width as a semi-norm of the residuals: m rows, residual (draws, m) -> (draws,)."""
    binned = np.abs(_sums(residual, _equal_width(table.score, DEFAULT_N_BINS)))
    return np.asarray(binned.sum(axis=-1) / table.total)


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the ECE of the raw predictions can lie from that of the table.

    Only a row whose predictions may lie on both sides of an edge counts: what belongs to another bin than the row's
    score is taken from one sum and added to others, twice the row's absolute residual at most.
    """
    del value  # the bound holds whatever it is
    if table.exact:
        return 0.0
    # Rows are open on the right where they have a width at all, so one that ends at an edge does not straddle it.
    edges = _edges(DEFAULT_N_BINS)
    straddling = np.searchsorted(edges, table.upper, side="left") > np.searchsorted(edges, table.lower, side="right")
    return 2.0 * float(table.absolute_residual[straddling].sum()) / table.total + rounding(table)


def _edges(n_bins: int) -> NDArray[np.float64]:
    """The inner edges of bins of equal width."""
    return np.arange(1, n_bins) / n_bins


def _equal_width(score: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """First row of each bin, and the number of rows."""
    return np.concatenate([[0], np.searchsorted(score, _edges(n_bins), side="left"), [score.size]])


def _quantile(counts: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """First row of each bin, and the number of rows: a row goes where, of all events, the middle of its own stands."""
    middle = (np.cumsum(counts) - counts / 2.0) / counts.sum()
    return np.concatenate([[0], np.searchsorted(middle * n_bins, np.arange(1, n_bins), side="left"), [counts.size]])


def _sums(values: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of each bin over the last axis; 0 for one without rows, which ``np.add.reduceat`` would not give."""
    return np.stack([values[..., first:end].sum(axis=-1) for first, end in pairwise(bounds.tolist())], axis=-1)


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
