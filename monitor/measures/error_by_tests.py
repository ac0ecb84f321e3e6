"""The test-based calibration error: the share of predictions that a test of the outcomes refutes."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal, TypedDict, Unpack, get_args

import numpy as np

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.measures.base import Measure, of_events
from monitor.measures.binned_errors import DEFAULT_N_BINS
from monitor.measures.binomial_loops import log_factorials
from monitor.measures.tce_loops import pool_adjacent_violators, refuted_events
from monitor.measures.tce_tests import TESTS, Test
from monitor.scores import ScoreTable
from monitor.scores.arguments import number_text, require_choice, require_whole
from monitor.scores.table import require_table

Bins = Literal["pava_bc", "pava", "quantile", "equal_width"]

DEFAULT_ALPHA: Final = 0.05
DEFAULT_BINS: Final[Bins] = "pava_bc"
DEFAULT_TEST: Final[Test] = "binomial"

NARROWER_FROM: Final = 8_000
"""Number of events above which the isotonic bins hold a smaller share. See :meth:`TceOptions.size_limits`."""


_PARTS: Final = 4
_DEALS: Final = 9
_WIDENED: Final = 1.5
_MOST_DEALT: Final = 10**9
"""Events of a cell above which numpy does not deal."""


class TceKeywords(TypedDict, total=False):
    """The options as keywords, for functions that pass them on."""

    alpha: float
    bins: Bins
    n_bins: int
    min_size: int | None
    max_size: int | None
    test: Test


@of_events
def tce(
    table: ScoreTable,
    *,
    alpha: float = DEFAULT_ALPHA,
    bins: Bins = DEFAULT_BINS,
    n_bins: int = DEFAULT_N_BINS,
    min_size: int | None = None,
    max_size: int | None = None,
    test: Test = DEFAULT_TEST,
) -> float:
    r"""Test-based calibration error.

    .. math:: 100 \sum_b \frac{n_b}{n} \cdot \frac{1}{n_b} \sum_{p_i \in b} 1[\mathrm{pvalue}(k_b, n_b, p_i) \le \alpha]

    The percentage of predictions p whose hypothesis "P(Y = 1) = p" a two-sided test rejects, given the k_b positives
    among the n_b events of the prediction's bin.

    Parameters
    ----------
    table
        m rows of whole counts; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
    alpha
        Level of the test, in (0, 1).
    bins
        ``pava_bc``: isotonic blocks of limited size (Algorithm 2 of the paper); ``pava``: isotonic blocks;
        ``quantile``: ``n_bins`` bins of about equal size; ``equal_width``: ``n_bins`` bins of equal width. The last two
        are open on the right, except the last bin, which includes p = 1. Equal predictions share a bin.
    n_bins
        Number of bins of ``quantile`` and ``equal_width``, at least 1.
    min_size, max_size
        Events in a bin of ``pava_bc``, 0 <= min_size <= max_size. If left out, floor(n / 20) and floor(n / 5) as in the
        paper, and for more than 8,000 events n^(2/3), rounded, and four times that.
    test
        ``binomial``: the exact test, with the verdicts of ``scipy.stats.binomtest``; ``t``: Student's test of one
        sample, with those of ``scipy.stats.ttest_1samp``; ``t_published``: the t-test of the paper's Table 11, which
        refutes far more (see the notes). The t-tests treat outcomes that are all equal as certain, and refute every
        other prediction; in a bin with a single event, ``t`` refutes nothing.

    Returns
    -------
    float
        Percent, in [0, 100]; smaller is better. A calibrated model has more than alpha, 7 to 16 percent, because bins
        have width: compare the value with its level under calibration.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong, or counts are not whole numbers.

    Notes
    -----
    Source: Matsubara, Tax, Mudd, Guy, "TCE: A Test-Based Approach to Measuring Calibration Error", 2023, Definition 2.

    The paper's Algorithm 3 would join neighbouring blocks of one rate; its published values do not (Table 2, 1% vs 0%:
    95.50, joined 100), and neither does this.

    The paper's bins hold n/20 to n/5 events at every n. Then the level under calibration grows towards 100% and TCE
    no longer detects faults, so beyond 8,000 events the bins hold a smaller share
    (:meth:`TceOptions.size_limits`). ``min_size=n // 20, max_size=n // 5`` gives the
    paper's.

    The t-test of Table 11 divides by the variance k/n (1 - k/n) where Student's divides by the standard deviation, so
    its statistic is at least twice as large: of the paper's calibrated model it refutes 37.80%, Student's test 7.35%
    and the binomial test 7.28%. ``t_published`` is for comparison with published values.

    Examples
    --------
    >>> tce(ScoreTable.from_events([0.1] * 50 + [0.9] * 50, [0, 1] * 50), bins="equal_width")
    100.0
    """
    options = TceOptions(alpha, bins, n_bins, min_size, max_size, test)
    data = Counts.of(table)
    drawn = data.positives[None].astype(np.float64)
    refuted = int(_refuted_events(data, drawn, options)[0])
    return 100.0 * refuted / int(data.counts.sum())


@of_events
def tce_t(table: ScoreTable) -> float:
    """TCE with the t-test in place of the exact one: :func:`tce` with ``test="t"``.

    Examples
    --------
    >>> round(tce_t(ScoreTable.from_events([0.15] * 50 + [0.35] * 50, [0, 0, 0, 0, 1] * 20)), 6)
    50.0
    """
    return tce(table, test="t")


@dataclass(frozen=True, eq=False)
class TceBins:
    """The test's verdicts in each bin with events, for a test-based reliability diagram.

    Attributes
    ----------
    lower_edge, upper_edge
        float64, shape (bins,): the bin's edges.
    sizes, positives
        int64, shape (bins,): events in the bin, and those with outcome 1.
    rejected
        int64, shape (bins,): events whose prediction the test refutes.
    rejected_below
        int64, shape (bins,): those of them whose prediction is below the bin's rate, and so too low.
    mean_prediction
        float64, shape (bins,).
    alpha
        Level of the test.
    test
        Which test.
    """

    lower_edge: Floats
    upper_edge: Floats
    sizes: Ints
    positives: Ints
    rejected: Ints
    rejected_below: Ints
    mean_prediction: Floats
    alpha: float
    test: Test = DEFAULT_TEST

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Lower and upper limit of each bin, shape (bins,) each: every prediction outside is refuted.

        Inside, nearly none is: the acceptance set of the binomial test has small gaps close to its limits.
        """
        return TESTS[self.test].acceptance_limits(self.positives, self.sizes, self.alpha)

    @property
    def rate(self) -> Floats:
        """Share of positives per bin, shape (bins,)."""
        return self.positives / self.sizes

    @property
    def value(self) -> float:
        """The TCE, percent: the mean of the rejected shares, weighted by the bins' sizes."""
        return float(100.0 * self.rejected.sum() / self.sizes.sum())


@of_events
def tce_bins(table: ScoreTable, **options: Unpack[TceKeywords]) -> TceBins:
    """The bins of :func:`tce` and the test's verdict in each. Parameters and errors are the same."""
    checked = TceOptions(**options)
    alpha = checked.alpha
    data = Counts.of(table)
    blocks = TceBlocks.build(data, checked)
    refuted = TESTS[checked.test].rejected(data.score, blocks.starts, blocks.positives, blocks.sizes, alpha)
    starts = blocks.starts[:-1]
    rate = np.repeat(blocks.positives / blocks.sizes, np.diff(blocks.starts))
    return TceBins(
        lower_edge=blocks.lower_edge,
        upper_edge=blocks.upper_edge,
        sizes=blocks.sizes,
        positives=blocks.positives,
        rejected=np.add.reduceat(np.where(refuted, data.counts, 0), starts),
        rejected_below=np.add.reduceat(np.where(refuted & (data.score < rate), data.counts, 0), starts),
        mean_prediction=np.add.reduceat(data.prediction_sum, starts) / blocks.sizes,
        alpha=alpha,
        test=checked.test,
    )


def tce_draws(table: ScoreTable, positives: Floats, **options: Unpack[TceKeywords]) -> Floats:
    """The TCE of drawn outcomes, to the bit that of :func:`tce`. Errors are the same.

    Parameters
    ----------
    table
        m rows of whole counts; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
    positives
        float64, shape (draws, m), whole numbers: positives a row, among as many events as in the table.
    options
        Those of :func:`tce`.

    Returns
    -------
    float64, shape (draws,)
        Percent.
    """
    checked = TceOptions(**options)
    data = Counts.of(table)
    if data.counts.size < table.rows:
        positives = positives[:, table.counts > 0.0]
    refuted = _refuted_events(data, np.ascontiguousarray(positives), checked)
    return np.asarray(100.0 * refuted / int(data.counts.sum()), np.float64)


def tce_error_bound(table: ScoreTable, **options: Unpack[TceKeywords]) -> float:
    """How far :func:`tce` of a table of cells can lie from that of the raw predictions, percent; 0 if it is exact.

    With bins whose edges are edges of cells, as with ``equal_width`` and 10, 15, 20 or 30 bins, a bound: the share of
    the events in cells that straddle a limit of the test, because they hold, or could hold, predictions of both
    verdicts. No arrangement of the predictions inside their cells moves the value further.

    Isotonic bins follow the data: the raw predictions have other ones, each of which may begin inside a cell, and no
    useful bound covers them all. The value is then an estimate, at least that share: 1.5 times the most by which TCE
    moves where each cell is a few predictions, among which chance deals its positives. It held for 96 to 100% of
    simulated data sets of 1e4 to 1e6 events, and is some twice the average difference.

    Parameters and errors are those of :func:`tce`.
    """
    checked = TceOptions(**options)
    data = Counts.of(table)
    blocks, test, total = TceBlocks.build(data, checked), TESTS[checked.test], int(data.counts.sum())
    if table.exact:
        return 0.0
    unsure = blocks.split | test.straddling(
        data.lower, data.upper, blocks.starts, blocks.positives, blocks.sizes, alpha=checked.alpha
    )
    bound = int(data.counts[unsure].sum())
    if checked.bins.startswith("pava"):
        verdicts = test.rejected(data.score, blocks.starts, blocks.positives, blocks.sizes, checked.alpha)
        moved = _refuted_events(*data.dealt(), checked) - data.counts[verdicts].sum()
        return float(100.0 * max(bound, _WIDENED * np.abs(moved).max()) / total)
    return 100.0 * bound / total


@dataclass(frozen=True, slots=True)
class TceOptions:
    """The checked options of TCE; see :func:`tce`.

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

    def dealt(self) -> tuple["Counts", Floats]:
        """Cells as a few rows each, of equally many events, and deals of their positives, shape (deals, m)."""
        rng = np.random.default_rng(0)
        divided = (self.lower < self.upper) & (self.counts < _MOST_DEALT)
        parts = np.where(divided, np.minimum(self.counts, _PARTS), 1)
        cell = np.repeat(np.arange(parts.size), parts)
        place = np.arange(cell.size) - np.repeat(np.cumsum(parts) - parts, parts)
        spread = self.lower[cell] + (self.upper - self.lower)[cell] * (place + 0.5) / parts[cell]
        score = np.where(divided[cell], spread, self.score[cell])
        counts = self.counts[cell] // parts[cell] + (place < self.counts[cell] % parts[cell])
        positives = np.empty((_DEALS, cell.size))
        left, events = np.tile(self.positives, (_DEALS, 1)), self.counts.copy()
        for part in range(_PARTS):
            rows = np.flatnonzero(place == part)
            of, last = cell[rows], part == parts[cell[rows]] - 1
            dealt = left[:, of].copy()
            some = of[~last]
            dealt[:, ~last] = rng.hypergeometric(left[:, some], events[some] - left[:, some], counts[rows[~last]])
            positives[:, rows] = dealt
            left[:, of] -= dealt
            events[of] -= counts[rows]
        return Counts(score, score, score, positives[0].astype(np.int64), counts, score * counts), positives


@dataclass(frozen=True, eq=False)
class TceBlocks:
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
    def build(cls, data: Counts, options: TceOptions) -> "TceBlocks":
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


def _refuted_events(data: Counts, positives: Floats, options: TceOptions) -> Ints:
    """Refuted events of each draw of positives (draws, m), shape (draws,)."""
    refuted = np.empty(positives.shape[0], np.int64)
    unsure = np.arange(refuted.size)
    if options.bins == "pava_bc" and options.test == "binomial":
        # Without the blocks' edges and the rows' verdicts, one kernel can do nearly all the work.
        low, high = options.size_limits(int(data.counts.sum()))
        refuted, sure = refuted_events(data.score, data.counts, positives, low, high, options.alpha, log_factorials())
        unsure = np.flatnonzero(~sure)
    test = TESTS[options.test]
    for draw in unsure:
        drawn = replace(data, positives=positives[draw].astype(np.int64))
        blocks = TceBlocks.build(drawn, options)
        verdict = test.rejected(data.score, blocks.starts, blocks.positives, blocks.sizes, options.alpha)
        refuted[draw] = data.counts[verdict].sum()
    return refuted


def _measure(test: Test, **declaration: Any) -> Measure:
    """Declare TCE with this test and the default bins."""
    return Measure(
        unit="percent",
        error_bound=lambda table, _value: tce_error_bound(table, test=test),
        error_bound_is_certain=False,
        draws=partial(tce_draws, test=test),
        max_draws=199,
        drawn_rows=16_384,  # see :func:`~monitor.scores.table.merge_rows`
        needs_whole_counts=True,
        **declaration,
    )


MEASURES: Final = (
    _measure(
        "binomial",
        name="tce",
        title="TCE",
        help="Percentage of predictions that an exact binomial test refutes, given the outcomes of similar "
        "predictions.",
        value=tce,
        rank=10,
    ),
    _measure(
        "t",
        name="tce_t",
        title="TCE (t-test)",
        help="Percentage of predictions that Student's t-test refutes, given the outcomes of similar predictions.",
        value=tce_t,
        appears_in="request",
        rank=110,
    ),
)
