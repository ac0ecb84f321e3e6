"""What TCE tests: its options, and the events of a table gathered into bins."""

from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

import numpy as np

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.measures.bins import DEFAULT_N_BINS
from monitor.measures.tce_loops import pool_adjacent_violators
from monitor.scores import ScoreTable
from monitor.scores.arguments import number_text, require_choice, require_whole
from monitor.scores.table import require_table

Bins = Literal["pava_bc", "pava", "quantile", "equal_width"]
Test = Literal["binomial", "t", "t_published"]

DEFAULT_ALPHA: Final = 0.05
DEFAULT_BINS: Final[Bins] = "pava_bc"
DEFAULT_TEST: Final[Test] = "binomial"

NARROWER_FROM: Final = 8_000
"""Number of events above which the isotonic bins hold a smaller share. See :meth:`Options.size_limits`."""


class TceKeywords(TypedDict, total=False):
    """The options as keywords, for functions that pass them on."""

    alpha: float
    bins: Bins
    n_bins: int
    min_size: int | None
    max_size: int | None
    test: Test


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of TCE; see :func:`~monitor.measures.tce.tce`.

    Raises
    ------
    InputError
        An option is wrong.
    """

    alpha: float = DEFAULT_ALPHA
    bins: Bins = DEFAULT_BINS
    n_bins: int = DEFAULT_N_BINS
    min_size: int | None = None
    max_size: int | None = None
    test: Test = DEFAULT_TEST

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InputError(f"alpha must lie between 0 and 1, both excluded, got {self.alpha}")
        require_choice("bins", self.bins, get_args(Bins))
        require_choice("test", self.test, get_args(Test))
        require_whole("n_bins", self.n_bins, 1)
        for name, size in (("min_size", self.min_size), ("max_size", self.max_size)):
            if size is not None:
                require_whole(name, size, 0)
                if self.bins != "pava_bc":
                    raise InputError(
                        f"{name} limits the bins of pava_bc alone, got {name}={size} with bins={self.bins!r}"
                    )

    def size_limits(self, n: int) -> tuple[int, int]:
        """The smallest and the largest number of events of an isotonic bin, for n events.

        By default, floor(n / 20) and floor(n / 5) as in the paper, and n^(2/3), rounded, and four times that from 8,000
        events on, where the two agree. A bin's predictions differ by its width, and the test distinguishes predictions
        that differ by about 1 / sqrt(events in the bin). With bins of a fixed share of the events the width is constant
        and the test sharpens, until it refutes nearly all predictions of a calibrated model (83% at a million events,
        92% at five) and no fault raises that. With bins of n^(2/3) events both shrink as n^(-1/3).

        Raises
        ------
        InputError
            ``min_size`` is above ``max_size``.
        """
        if self.bins == "pava":
            return 0, n
        low, high = (n // 20, n // 5) if n <= NARROWER_FROM else (round(n ** (2 / 3)), 4 * round(n ** (2 / 3)))
        low = low if self.min_size is None else self.min_size
        high = high if self.max_size is None else self.max_size
        if low > high:
            raise InputError(
                f"min_size must be at most max_size, got min_size={low} and max_size={high} for {n} events"
                " (if left out, floor(n / 20) and floor(n / 5), beyond 8,000 events n^(2/3) and four times that)"
            )
        return low, high


@dataclass(frozen=True, eq=False)
class Counts:
    """The rows of a table with events, as whole counts."""

    score: Floats
    lower: Floats
    upper: Floats
    positives: Ints
    counts: Ints
    prediction_sum: Floats

    @classmethod
    def of(cls, table: ScoreTable) -> "Counts":
        """The counts of a table; NotEnoughData if there are none, InputError if they are not whole."""
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
    """Bins with events.

    ``starts`` is (bins + 1,): first row of each bin, then m. ``split``, bool (m,), marks cells that an edge may split.
    """

    starts: Ints
    positives: Ints
    sizes: Ints
    lower_edge: Floats
    upper_edge: Floats
    split: Bools

    @classmethod
    def build(cls, data: Counts, options: Options) -> "Blocks":
        """Gather rows into bins by the options."""
        if options.bins == "quantile":
            starts, lower_edge, upper_edge, split = _gather(data, _quantiles(data, options.n_bins))
        elif options.bins == "equal_width":
            starts, lower_edge, upper_edge, split = _gather(data, np.arange(options.n_bins + 1) / options.n_bins)
        else:
            low, high = options.size_limits(int(data.counts.sum()))
            starts = pool_adjacent_violators(data.positives, data.counts, low, high)
            inner = starts[1:]
            # Algorithm 3: edges halfway between neighbouring predictions; between cells, where they meet.
            edges = np.concatenate([[0.0], 0.5 * (data.upper[inner - 1] + data.lower[inner]), [1.0]])
            lower_edge, upper_edge = edges[:-1], edges[1:]
            split = np.zeros(data.score.size, np.bool_)
            split[inner] = split[inner - 1] = True
            split &= data.lower < data.upper
        return cls(
            starts=np.append(starts, data.score.size),
            positives=np.add.reduceat(data.positives, starts),
            sizes=np.add.reduceat(data.counts, starts),
            lower_edge=lower_edge,
            upper_edge=upper_edge,
            split=split,
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


def _gather(data: Counts, edges: Floats) -> tuple[Ints, Floats, Floats, Bools]:
    """Starts, lower edges, upper edges and split cells of the bins with events; edges shape (n_bins + 1,)."""
    inner = edges[1:-1]
    first = np.searchsorted(inner, data.lower, side="right")
    last = np.maximum(first, np.searchsorted(inner, data.upper, side="left"))
    split = first != last
    # A cell inside one bin stays there, even if its mean rounds up to the edge.
    place = np.where(split, np.searchsorted(inner, data.score, side="right"), first)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    return starts, edges[place[starts]], edges[place[starts] + 1], split
