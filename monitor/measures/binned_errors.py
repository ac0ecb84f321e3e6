"""Calibration errors over bins of predictions: ECE and its relatives by bins, norm and offset."""

from typing import Any, Final, Literal, NamedTuple

import numpy as np
from scipy import special

from monitor.arrays import Floats, Ints
from monitor.measures.base import SemiNorm, of_events
from monitor.measures.displacement import rounding
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice, require_whole
from monitor.scores.table import effective_number, require_events

BinKind = Literal["equal_width", "quantile"]
BinNorm = Literal[1, 2, "max"]

DEFAULT_N_BINS: Final = 10
"""Bins of Naeini et al. 2015 and of the paper of TCE, so that ECE and TCE over equal-width bins share their bins; the
edges are edges of the grid too, so that a window's ECE is that of its raw predictions."""

_SELECTING: Final = 0.001
"""Probability of missing a bin that attains the law's gap."""


@of_events
def ece(table: ScoreTable, *, bins: BinKind = "equal_width", n_bins: int = DEFAULT_N_BINS, norm: BinNorm = 1) -> float:
    r"""Expected calibration error.

    .. math:: \Big( \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|^q \Big)^{1/q}

    With ``norm`` 1 this is the expected calibration error; with 2 the root mean square calibration error; with ``max``
    the maximum calibration error, the largest |mean outcome - mean prediction| of a bin.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
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


@of_events
def ece_quantile(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Expected calibration error over equally filled bins.

    .. math:: \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|

    Of two classes, this is the term of one class in the adaptive calibration error (ACE).

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
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


@of_events
def rmsce(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Root mean square calibration error over equally filled bins.

    .. math:: \Big( \sum_b \frac{n_b}{n} (\bar y_b - \bar p_b)^2 \Big)^{1/2}

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
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


@of_events
def binned_ece_width(table: ScoreTable, *, n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Binned ECE plus the mean width of the bins.

    .. math:: \sum_j \Big| \frac{1}{n} \sum_{p_i \in I_j} (y_i - p_i) \Big| + \sum_j \frac{n_j}{n} \mathrm{width}(I_j)

    over bins I_j of equal width.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
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
    return binned_error(table, "equal_width", n_bins, 1) + 1.0 / require_whole("n_bins", n_bins, 1)


@of_events
def mce(table: ScoreTable, *, bins: BinKind = "equal_width", n_bins: int = DEFAULT_N_BINS) -> float:
    r"""Maximum calibration error.

    .. math:: \max_b |\bar y_b - \bar p_b|

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
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

    From the limits of Clopper and Pearson for the rate of positives in each bin, which hold for any number of events;
    resampling cannot estimate the variance of a bin of a few events.

    The upper end is the largest upper limit with a tail of .025: only the limit of the bin that attains the law's gap
    must hold. The lower end is the largest lower limit, and each of the K bins that may attain the gap can make it too
    high: those whose gap may be as large as the largest certain one. Each has a tail of .05 / max(K, 2): for K = 1 the
    upper end may fail, too, with .025; for nearly tied bins it hardly can. The existence of a gap is tested with
    .025 / K, because without one a bin can deviate to either side.

    With weights, a bin counts as the number of equal events with the same variance.
    """
    bins = _Bins.of(table)
    smallest, largest = bins.limits(_SELECTING / bins.mean.size)
    candidates = largest >= smallest.max()
    ties = int(candidates.sum())
    gap_exists = bins.limits(0.025 / ties)[0][candidates].max() > 0.0
    lower = bins.limits(0.05 / max(ties, 2))[0][candidates].max() if gap_exists else 0.0
    return float(lower), float(bins.limits(0.025)[1].max())


class _Bins(NamedTuple):
    """Bins with events: hits, effective events and mean prediction, (b,) each."""

    hits: Floats
    events: Floats
    mean: Floats

    @classmethod
    def of(cls, table: ScoreTable) -> "_Bins":
        first = first_rows(table, "equal_width", DEFAULT_N_BINS)
        starts = first[:-1][np.diff(first) > 0]
        squares = table.event_squares
        columns = [
            np.add.reduceat(column, starts) for column in (table.positives, table.counts, table.residual, squares)
        ]
        held = columns[1] > 0.0
        positives, counts, residual, squares = (column[held] for column in columns)
        events = effective_number(counts, squares)
        return cls(events * positives / counts, events, (positives - residual) / counts)

    def limits(self, tail: float) -> tuple[Floats, Floats]:
        """The smallest and the largest gap of each bin, each with this tail probability."""
        hits, misses = self.hits, self.events - self.hits
        lowest = np.where(hits > 0.0, special.betaincinv(np.maximum(hits, 1e-9), misses + 1.0, tail), 0.0)
        highest = np.where(misses > 0.0, special.betaincinv(hits + 1.0, np.maximum(misses, 1e-9), 1.0 - tail), 1.0)
        below, above = lowest - self.mean, highest - self.mean
        return np.maximum(0.0, np.maximum(below, -above)), np.maximum(-below, above)


def first_rows(table: ScoreTable, kind: BinKind, n_bins: int) -> Ints:
    """First row of each bin, and the number of rows: int64, shape (n_bins + 1,). Bins can be empty.

    ``equal_width``: edges i / n_bins, closed on the left and open on the right, except the last: p = 1 falls in
    the last bin. ``quantile``: as equally filled as rows allow; the middle of a row's events decides its bin. The
    outcomes do not matter.
    """
    require_choice("bins", kind, ("equal_width", "quantile"))
    n_bins = require_whole("n_bins", n_bins, 1)
    if kind == "equal_width":
        inner = np.searchsorted(table.score, _inner_edges(n_bins), side="left")
    else:
        counts = table.counts
        middle = (np.cumsum(counts) - counts / 2.0) / counts.sum()
        inner = np.searchsorted(middle * n_bins, np.arange(1, n_bins), side="left")
    return np.concatenate([[0], inner, [table.rows]])


def binned_norms(table: ScoreTable, residual: Floats, first: Ints, norm: BinNorm) -> Floats:
    r"""Norms of the bins' mean residuals, weighted by the bins' events.

    .. math:: \Big( \sum_b \frac{n_b}{n} \Big| \frac{1}{n_b} \sum_{i \in b} r_i \Big|^q \Big)^{1/q}

    Parameters
    ----------
    table
        m rows.
    residual
        float64, shape (..., m).
    first
        The result of :func:`first_rows`.
    norm
        q: 1, 2 or ``max``.

    Returns
    -------
    float64, shape (...)
    """
    # reduceat would give an empty bin the following row.
    starts = first[:-1][np.diff(first) > 0]
    binned = np.abs(np.add.reduceat(residual, starts, axis=-1))
    if norm == 1:
        # n_b cancels: the bins' means are never formed.
        return np.asarray(binned.sum(axis=-1) / table.total)
    count = np.add.reduceat(table.counts, starts)
    held = count > 0.0
    binned, count = binned[..., held], count[held]
    if norm == 2:
        return np.asarray(np.sqrt((binned**2 / count).sum(axis=-1) / table.total))
    return np.asarray((binned / count).max(axis=-1))


def binned_error(table: ScoreTable, kind: BinKind, n_bins: int, norm: BinNorm) -> float:
    """The norm of the table's own residuals, for a table that is not empty."""
    require_choice("norm", norm, (1, 2, "max"))
    return float(binned_norms(table, table.residual, first_rows(table, kind, n_bins), norm))


def binned_error_bound(table: ScoreTable, value: float, kind: BinKind, n_bins: int, norm: BinNorm) -> float:
    """How far the binned error of the raw predictions can lie from that of the table.

    Only rows that a bin's edge cuts matter: those whose predictions may lie on both sides of it or, for quantile bins,
    whose events it splits. All others keep their bin. In a bin with other residual R and N other events, the cut rows
    at most add their absolute residual A to |R| or subtract it, and add their number to N.
    """
    if table.exact:
        return 0.0
    bins = require_whole("n_bins", n_bins, 1)
    low, high = _bins_reached(table, kind, bins)
    cut = high > low
    if norm == 1:
        # One bin gains what another loses: at most twice the residual.
        return 2.0 * float(table.absolute_residual[cut].sum()) / table.total + rounding(table)
    own = np.where(cut, bins, low)  # cut rows are certainly in no bin
    residual = np.abs(np.bincount(own, table.residual, bins + 1)[:bins])
    count = np.bincount(own, table.counts, bins + 1)[:bins]
    added, added_residual = np.zeros(bins), np.zeros(bins)
    for row in np.flatnonzero(cut):
        added[low[row] : high[row] + 1] += table.counts[row]
        added_residual[low[row] : high[row] + 1] += table.absolute_residual[row]
    max_count = count + added
    # A mean residual is at most 1, also in a bin that may be empty.
    gap = np.divide(residual + added_residual, count, out=np.ones(bins), where=count > 0.0)
    highest = np.where(max_count > 0.0, np.minimum(gap, 1.0), 0.0)
    lowest = np.maximum(residual - added_residual, 0.0)
    lowest = np.divide(lowest, max_count, out=np.zeros(bins), where=max_count > 0.0)
    if norm == "max":
        above, below = float(highest.max()), float(lowest.max())
    else:
        above = float(np.sqrt((highest**2 * max_count).sum() / table.total))
        below = float(np.sqrt((lowest**2 * max_count).sum() / table.total))
    return max(above - value, value - below) + rounding(table)


def _witness(table: ScoreTable, first: Ints, norm: BinNorm) -> Floats:
    """The functional that attains the table's own norm, (m,): constant in each bin."""
    starts = first[:-1][np.diff(first) > 0]
    binned = np.add.reduceat(table.residual, starts)
    count = np.add.reduceat(table.counts, starts)
    mean = np.divide(binned, count, out=np.zeros(binned.size), where=count > 0.0)
    if norm == 1:
        per_bin = np.sign(binned) / table.total
    elif norm == 2:
        size = float(np.sqrt((binned @ mean) / table.total))
        per_bin = mean / (size * table.total) if size > 0.0 else np.zeros(mean.size)
    else:
        worst = int(np.abs(mean).argmax())
        per_bin = np.zeros(mean.size)
        per_bin[worst] = np.sign(mean[worst]) / count[worst]
    return np.repeat(per_bin, np.diff(np.append(starts, table.rows)))


def _inner_edges(n_bins: int) -> Floats:
    """The inner edges of bins of equal width."""
    return np.arange(1, n_bins) / n_bins


def _bins_reached(table: ScoreTable, kind: BinKind, n_bins: int) -> tuple[Ints, Ints]:
    """First and last bin that a raw prediction of each row may lie in."""
    if kind == "equal_width":
        # Rows with a width are open on the right, so an edge at their end does not cut them.
        edges = _inner_edges(n_bins)
        low = np.searchsorted(edges, table.lower, side="right")
        return low, np.maximum(low, np.searchsorted(edges, table.upper, side="left"))
    # A raw row's events, and so their middle, are among those of its cell.
    share = np.concatenate([[0.0], np.cumsum(table.counts)]) * n_bins / table.total
    inner = np.arange(1, n_bins)
    low = np.searchsorted(inner, share[:-1], side="right")
    return low, np.maximum(low, np.searchsorted(inner, share[1:], side="left"))


def _measure(bins: BinKind, norm: BinNorm, **declaration: Any) -> SemiNorm:
    """Declare the error over the default number of bins."""
    return SemiNorm(
        unit="ratio",
        error_bound=lambda table, value: binned_error_bound(table, value, bins, DEFAULT_N_BINS, norm),
        norms=lambda table, residual: binned_norms(table, residual, first_rows(table, bins, DEFAULT_N_BINS), norm),
        witness=lambda table: _witness(table, first_rows(table, bins, DEFAULT_N_BINS), norm),
        **declaration,
    )


MEASURES: Final = (
    _measure(
        "equal_width",
        1,
        name="ece",
        title="ECE",
        help="Expected calibration error over ten bins of equal width: the mean gap between outcome and prediction.",
        value=ece,
        on_wide_cells=True,  # whose edges are those of its bins
        rank=60,
    ),
    _measure(
        "quantile",
        1,
        name="ece_quantile",
        title="equal-mass ECE",
        help="Expected calibration error over ten bins that hold equally many predictions.",
        value=ece_quantile,
        appears_in="reports",
        rank=70,
    ),
    _measure(
        "quantile",
        2,
        name="rmsce",
        title="RMSCE",
        help="Root mean square gap between outcome and prediction over ten bins that hold equally many predictions.",
        value=rmsce,
        appears_in="reports",
        rank=71,
    ),
    _measure(
        "equal_width",
        "max",
        name="mce",
        title="MCE",
        help="Maximum calibration error: the largest gap between outcome and prediction in one of ten bins of equal "
        "width.",
        value=mce,
        ends=mce_ends,
        appears_in="reports",
        rank=72,
    ),
    _measure(
        "equal_width",
        1,
        name="binned_ece_width",
        title="binned ECE + width",
        help="ECE over ten bins of equal width plus their width: an upper bound of the distance to calibration.",
        value=binned_ece_width,
        offset=lambda _table: 1.0 / DEFAULT_N_BINS,
        appears_in="reports",
        rank=73,
    ),
)
