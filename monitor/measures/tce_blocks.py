"""What TCE tests: the events of a table, gathered into bins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.measures.isotonic_loops import pool_adjacent_violators
from monitor.measures.tce_options import Options
from monitor.scores import ScoreTable
from monitor.scores.arguments import number_text
from monitor.scores.table import require_table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """The rows of a table that hold events, with whole counts."""

    score: Floats
    lower: Floats
    upper: Floats
    positives: Ints
    counts: Ints
    prediction_sum: Floats

    @classmethod
    def of(cls, table: ScoreTable) -> "Counts":
        """Those of a table; NotEnoughData if there are none, InputError if counts are not whole."""
        require_table(table, "tce")
        if table.weighted:
            raise InputError(
                "tce needs whole counts, because its test is of counts; got a weighted table: leave weight out"
            )
        total = table.counts
        positives, counts = table.positives.astype(np.int64), total.astype(np.int64)
        whole = (positives == table.positives) & (counts == total)
        if not whole.all():
            at = int(np.argmin(whole))
            raise InputError(
                f"tce needs whole counts, got positives {number_text(table.positives[at])} "
                f"and negatives {number_text(table.negatives[at])} "
                f"at score {number_text(table.score[at])}"
            )
        held = counts > 0
        if not held.any():
            raise NotEnoughData("tce needs at least 1 event, got 0")
        return cls(
            score=table.score[held],
            lower=table.lower[held],
            upper=table.upper[held],
            positives=positives[held],
            counts=counts[held],
            prediction_sum=(table.positive_sum + table.negative_sum)[held],
        )


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows gathered into bins that hold events.

    ``starts`` is (bins + 1,): first row of each bin, then m. ``parted``, bool (m,), marks cells an edge could part.
    """

    starts: Ints
    positives: Ints
    sizes: Ints
    lower_edge: Floats
    upper_edge: Floats
    parted: NDArray[np.bool_]

    @classmethod
    def build(cls, data: Counts, options: Options) -> "Blocks":
        """Those that the options ask for."""
        if options.bins == "quantile":
            starts, lower_edge, upper_edge, parted = _gather(data, _quantiles(data, options.n_bins))
        elif options.bins == "equal_width":
            starts, lower_edge, upper_edge, parted = _gather(data, np.arange(options.n_bins + 1) / options.n_bins)
        else:
            low, high = options.size_limits(int(data.counts.sum()))
            starts = pool_adjacent_violators(data.positives, data.counts, low, high)
            inner = starts[1:]
            # Algorithm 3: edges halfway between neighbouring predictions; between cells, where they meet.
            edges = np.concatenate([[0.0], 0.5 * (data.upper[inner - 1] + data.lower[inner]), [1.0]])
            lower_edge, upper_edge = edges[:-1], edges[1:]
            parted = np.zeros(data.score.size, np.bool_)
            parted[inner] = parted[inner - 1] = True
            parted &= data.lower < data.upper
        return cls(
            starts=np.append(starts, data.score.size),
            positives=np.add.reduceat(data.positives, starts),
            sizes=np.add.reduceat(data.counts, starts),
            lower_edge=lower_edge,
            upper_edge=upper_edge,
            parted=parted,
        )


def _quantiles(data: Counts, n_bins: int) -> Floats:
    """Edges at the quantiles of the events' predictions, interpolated linearly as numpy does; shape (n_bins + 1,)."""
    position = np.linspace(0.0, 1.0, n_bins + 1) * (data.counts.sum() - 1)
    below = np.floor(position)
    cumulative = np.cumsum(data.counts)
    left = data.score[np.searchsorted(cumulative, below, side="right")]
    right = data.score[np.searchsorted(cumulative, np.ceil(position), side="right")]
    edges: Floats = np.where(left == right, left, left + (position - below) * (right - left))
    edges[0], edges[-1] = 0.0, 1.0
    return edges


def _gather(data: Counts, edges: Floats) -> tuple[Ints, Floats, Floats, NDArray[np.bool_]]:
    """Starts, lower edges, upper edges and parted cells of the bins that hold events; edges shape (n_bins + 1,)."""
    inner = edges[1:-1]
    first = np.searchsorted(inner, data.lower, side="right")
    last = np.maximum(first, np.searchsorted(inner, data.upper, side="left"))
    parted = first != last
    # A cell inside one bin stays there, even where its mean rounds up to the edge.
    place = np.where(parted, np.searchsorted(inner, data.score, side="right"), first)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    return starts, edges[place[starts]], edges[place[starts] + 1], parted
