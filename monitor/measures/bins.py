"""Bins of predictions, and the common parts of the measures over bins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.measures.displacement import rounding
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice, require_whole

BinKind = Literal["equal_width", "quantile"]
BinNorm = Literal[1, 2, "max"]

DEFAULT_N_BINS: Final = 10
"""As in Naeini et al. 2015 and in the paper of TCE, so that ECE and TCE over equal-width bins share their bins; the
edges are edges of the grid too, so that a window's ECE is that of its raw predictions."""


def whole_bins(n_bins: int) -> int:
    """The number of bins; raises InputError unless it is a whole number of at least 1."""
    return require_whole("n_bins", n_bins, 1)


def first_rows(table: ScoreTable, kind: BinKind, n_bins: int) -> Ints:
    """First row of each bin, and the number of rows: int64, shape (n_bins + 1,). Bins can be empty.

    ``equal_width``: edges i / n_bins, closed on the left and open on the right, except the last: p = 1 falls in
    the last bin. ``quantile``: as equally filled as rows allow; the middle of a row's events decides its bin. The
    outcomes do not matter.
    """
    require_choice("bins", kind, ("equal_width", "quantile"))
    n_bins = whole_bins(n_bins)
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
    bins = whole_bins(n_bins)
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


class _BinnedParts(TypedDict):
    error_bound: Callable[[ScoreTable, float], float]
    norms: Callable[[ScoreTable, Floats], Floats]
    witness: Callable[[ScoreTable], Floats]


@dataclass(frozen=True, slots=True)
class BinnedError:
    """A binned error over the default number of bins: the parts of a measure's declaration.

    Attributes
    ----------
    bins
        ``equal_width`` or ``quantile``.
    norm
        1, 2 or ``max``.
    """

    bins: BinKind
    norm: BinNorm

    def parts(self) -> _BinnedParts:
        """Keywords of the measure's :class:`~monitor.measures.base.SemiNorm`."""
        return {"error_bound": self.error_bound, "norms": self.norms, "witness": self.witness}

    def norms(self, table: ScoreTable, residual: Floats) -> Floats:
        """The error as a semi-norm of the residuals: residual (draws, m) -> (draws,)."""
        return binned_norms(table, residual, first_rows(table, self.bins, DEFAULT_N_BINS), self.norm)

    def witness(self, table: ScoreTable) -> Floats:
        """The functional that attains it, (m,): constant in each bin."""
        first = first_rows(table, self.bins, DEFAULT_N_BINS)
        starts = first[:-1][np.diff(first) > 0]
        binned = np.add.reduceat(table.residual, starts)
        count = np.add.reduceat(table.counts, starts)
        mean = np.divide(binned, count, out=np.zeros(binned.size), where=count > 0.0)
        if self.norm == 1:
            per_bin = np.sign(binned) / table.total
        elif self.norm == 2:
            size = float(np.sqrt((binned @ mean) / table.total))
            per_bin = mean / (size * table.total) if size > 0.0 else np.zeros(mean.size)
        else:
            worst = int(np.abs(mean).argmax())
            per_bin = np.zeros(mean.size)
            per_bin[worst] = np.sign(mean[worst]) / count[worst]
        return np.repeat(per_bin, np.diff(np.append(starts, table.rows)))

    def error_bound(self, table: ScoreTable, value: float) -> float:
        """How far the error of the raw predictions can lie from that of the table."""
        return binned_error_bound(table, value, self.bins, DEFAULT_N_BINS, self.norm)


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
