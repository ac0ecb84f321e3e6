import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import binomtest, norm

from monitor.errors import InputError, NotEnoughData
from monitor.inference import interval
from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.measures.binomial_loops import log_factorials
from monitor.measures.error_by_tests import (
    Bins,
    Counts,
    TceKeywords,
    TceOptions,
    tce,
    tce_bins,
    tce_draws,
    tce_error_bound,
    tce_t,
)
from monitor.measures.tce_loops import refuted_events
from monitor.measures.tce_tests import Test
from monitor.scores import GridTable, ScoreTable
from tests.long import examples, longer
from tests.reference import naive_tce

MEASURE, T_MEASURE = MEASURES["tce"], MEASURES["tce_t"]

Events = tuple[NDArray[np.float64], NDArray[np.int64]]
NAIVE_VERDICTS: dict[Test, Callable[[int, int, float, float], bool]] = {
    "binomial": naive_tce.is_rejected,
    "t": naive_tce.is_rejected_by_t,
    "t_published": naive_tce.is_rejected_by_published_t,
}
KINDS: tuple[Bins, ...] = ("pava_bc", "pava", "quantile", "equal_width")


def draw_events(seed: int, n: int, slope: float = 1.0, offset: float = 0.0, decimals: int | None = None) -> Events:
    rng = np.random.default_rng(seed)
    z = rng.normal(offset, 1.5, n)
    p = expit(z) if decimals is None else np.round(expit(z), decimals)
    return p, (rng.random(n) < expit(slope * z)).astype(np.int64)


# Against the naive loops.


@pytest.mark.parametrize(("train", "test"), [(0.5, 0.5), (0.01, 0.02)])
def test_every_prediction_has_scipys_verdict(train: float, test: float) -> None:
    predictions, outcomes = naive_tce.synthetic_data(train, test)
    p, y = predictions[:1500], outcomes[:1500]
    order = np.argsort(p)
    table = ScoreTable.from_events(p, y)
    assert tce(table) == naive_tce.tce(p[order], naive_tce.pava_bc(y[order].tolist(), 75, 300))
    blocks, _ = naive_tce.quantile_blocks(p[order], y[order], 10)
    assert tce(table, bins="quantile") == naive_tce.tce(p[order], blocks)


@pytest.mark.parametrize("kind", ["pava_bc", "pava", "quantile"])
@pytest.mark.parametrize("test", NAIVE_VERDICTS)
@examples(10, 25)
@given(
    scores=st.lists(st.integers(0, 2000), min_size=6, max_size=80, unique=True),
    seed=st.integers(0, 2**32 - 1),
    options=st.tuples(st.sampled_from([0.001, 0.0499, 0.3, 0.9]), st.integers(0, 6), st.integers(6, 30)),
)
def test_all_bins_with_all_tests_are_the_papers_loops(
    scores: list[int], seed: int, options: tuple[float, int, int], kind: Bins, test: Test
) -> None:
    p = np.sort(np.array(scores)) / 2000
    y = (np.random.default_rng(seed).random(p.size) < p).astype(np.int64)
    alpha, *sizes = options
    asked: dict[str, Any] = {"alpha": alpha, "bins": kind, "n_bins": 4, "test": test}
    if kind == "quantile":
        blocks, _ = naive_tce.quantile_blocks(p, y, 4)
    elif kind == "pava":
        blocks = naive_tce.pava_bc(y.tolist(), 0, p.size)
    else:
        blocks = naive_tce.pava_bc(y.tolist(), *sizes)
        asked |= {"min_size": sizes[0], "max_size": sizes[1]}
    table = ScoreTable.from_events(p, y)
    value = tce(table, **asked)
    expected = naive_tce.tce(p, [block for block in blocks if block[1]], alpha, NAIVE_VERDICTS[test])
    assert value == pytest.approx(expected, abs=1e-9)
    assert tce_bins(table, **asked).value == value
    other = tce(ScoreTable.from_events(p, 1 - y), **asked)
    assert tce_draws(table, np.stack([table.positives, table.negatives]), **asked).tolist() == [value, other]


@examples(20, 60)
@given(
    scores=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    seed=st.integers(0, 2**32 - 1),
    n_bins=st.integers(1, 7),
    kind=st.sampled_from(["quantile", "equal_width"]),
)
def test_bins_by_edges_are_those_of_numpys_edges(scores: list[int], seed: int, n_bins: int, kind: Bins) -> None:
    p = np.sort(np.array(scores) / 12)
    y = np.random.default_rng(seed).integers(0, 2, p.size)
    if kind == "quantile":
        blocks, _ = naive_tce.quantile_blocks(p, y, n_bins)
    else:
        place = np.minimum(np.array([int((np.arange(1, n_bins) / n_bins <= v).sum()) for v in p]), n_bins - 1)
        blocks = [(int(y[place == b].sum()), int((place == b).sum())) for b in range(n_bins)]
    bins = tce_bins(ScoreTable.from_events(p, y), bins=kind, n_bins=n_bins)
    held = [block for block in blocks if block[1]]
    assert list(zip(bins.positives.tolist(), bins.sizes.tolist(), strict=True)) == held
    assert bins.value == pytest.approx(naive_tce.tce(p, held))


def test_a_prediction_of_one_falls_in_the_last_bin_and_one_on_an_edge_in_the_upper() -> None:
    table = ScoreTable.from_events([0.0, 0.1, 0.95, 1.0], [0, 1, 1, 0])
    bins = tce_bins(table, bins="equal_width")
    assert bins.sizes.tolist() == [1, 1, 2]
    np.testing.assert_allclose(bins.lower_edge, [0.0, 0.1, 0.9])
    np.testing.assert_allclose(bins.upper_edge, [0.1, 0.2, 1.0])


def test_isotonic_bins_meet_halfway_between_predictions() -> None:
    bins = tce_bins(ScoreTable.from_events([0.1, 0.2, 0.6, 0.8], [0, 0, 1, 1]), bins="pava")
    np.testing.assert_allclose(bins.lower_edge, [0.0, 0.4])
    np.testing.assert_allclose(bins.upper_edge, [0.4, 1.0])


# Laws.


@examples(25, 80)
@given(
    scores=st.lists(st.integers(0, 40), min_size=1, max_size=150),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
)
def test_the_order_of_events_does_not_matter_and_ties_stay_together(scores: list[int], seed: int, kind: Bins) -> None:
    rng = np.random.default_rng(seed)
    p = np.array(scores) / 40
    y = rng.integers(0, 2, p.size)
    shuffled = rng.permutation(p.size)
    bins = tce_bins(ScoreTable.from_events(p, y), bins=kind)
    assert tce(ScoreTable.from_events(p[shuffled], y[shuffled]), bins=kind) == bins.value
    assert 0.0 <= bins.value <= 100.0
    assert bins.sizes.sum() == p.size
    assert bins.positives.sum() == y.sum()
    # Each distinct prediction lies in one bin: the bins' sizes are sums over whole ties.
    cumulative = np.cumsum(np.unique(p, return_counts=True)[1])
    assert np.isin(np.cumsum(bins.sizes), cumulative).all()


@pytest.mark.parametrize("kind", ["pava", "quantile", "equal_width"])
def test_swapping_the_classes_mirrors_the_bins(kind: Bins) -> None:
    # Not so with pava_bc: its limits make it a greedy pass from the left, and the mirror image has other blocks.
    p, y = draw_events(5, 3000, slope=1.3)
    bins = tce_bins(ScoreTable.from_events(p, y), bins=kind)
    mirrored = tce_bins(ScoreTable.from_events(1.0 - p, 1 - y), bins=kind)
    assert mirrored.sizes.tolist() == bins.sizes.tolist()[::-1]
    assert mirrored.rejected.tolist() == bins.rejected.tolist()[::-1]


def many(events: int) -> ScoreTable:
    """A table of that many events in 4,096 rows, without outcomes that matter."""
    p = expit(1.2 * norm.ppf((np.arange(4096) + 0.5) / 4096))
    each = np.full(p.size, float(events // p.size))
    return dataclasses.replace(ScoreTable.from_events(p, np.zeros(p.size)), negatives=each, negative_sum=each * p)


@pytest.mark.parametrize(
    ("events", "least", "most"),
    [(100, 5, 20), (8_000, 400, 1_600), (8_001, 400, 1_600), (64_000, 1_600, 6_400), (10**6, 10_000, 40_000)],
)
def test_bins_hold_a_share_of_few_events_and_a_smaller_one_of_many(events: int, least: int, most: int) -> None:
    assert TceOptions().size_limits(events) == (least, most)
    assert TceOptions(min_size=events // 20, max_size=events // 5).size_limits(events) == (events // 20, events // 5)


@pytest.mark.parametrize("events", [2**18, 2**22])
def test_of_many_events_tce_still_sees_a_small_fault(events: int) -> None:
    """With the paper's bins a calibrated model shows 66 to 92% and a slope of .94 no more than that."""
    table, rng = many(events), np.random.default_rng(1)
    z = np.log(table.score) - np.log1p(-table.score)

    def drawn(p: NDArray[np.float64], **sizes: Unpack[TceKeywords]) -> NDArray[np.float64]:
        return tce_draws(table, rng.binomial(events // p.size, p, (39, p.size)).astype(np.float64), **sizes)

    calibrated = drawn(table.score)
    assert 10.0 < calibrated.mean() < 20.0
    assert (drawn(expit(0.94 * z)) > calibrated.max()).all()
    assert (drawn(expit(z + 0.05)) > calibrated.max()).all()
    assert drawn(table.score, min_size=events // 20, max_size=events // 5).mean() > 60.0


@pytest.mark.parametrize("test", NAIVE_VERDICTS)
def test_the_detail_is_the_value(test: Test) -> None:
    table = ScoreTable.from_events(*draw_events(6, 4000, slope=1.2, decimals=3))
    for kind in KINDS:
        bins = tce_bins(table, bins=kind, test=test)
        assert bins.test == test
        assert bins.value == tce(table, bins=kind, test=test)
        assert (bins.lower_edge < bins.upper_edge).all()
        assert (bins.upper_edge[:-1] <= bins.lower_edge[1:]).all()
        lower_limit, upper_limit = bins.limits
        assert (lower_limit <= bins.rate).all()
        assert (bins.rate <= upper_limit).all()
        assert (bins.mean_prediction >= bins.lower_edge).all()
        assert (bins.mean_prediction <= bins.upper_edge).all()
        # Predictions outside the limits are rejected, so at least those are; below the rate, those below the lower one.
        for b in range(bins.sizes.size):
            last = bins.upper_edge[b] == 1.0
            held = (table.score >= bins.lower_edge[b]) & ((table.score < bins.upper_edge[b]) | last)
            below, above = held & (table.score < lower_limit[b]), held & (table.score > upper_limit[b])
            assert table.counts[below].sum() <= bins.rejected_below[b]
            assert table.counts[above].sum() <= bins.rejected[b] - bins.rejected_below[b]


def test_a_far_miscalibrated_model_is_refuted_and_a_calibrated_one_is_not() -> None:
    p, y = draw_events(7, 5000)
    assert tce(ScoreTable.from_events(p, y)) < 40.0
    assert tce(ScoreTable.from_events(expit(logit(p) + 2.0), y)) > 95.0


# Tables of cells.


@pytest.mark.longer
@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (1.2, 0.0), (1.0, -4.0), (1.3, -4.0)])
@pytest.mark.parametrize("n", [300, 5000, 200_000])
def test_with_edges_on_the_grid_a_grid_table_is_within_its_bound(n: int, slope: float, offset: float) -> None:
    for seed, n_bins, test in itertools.product(range(longer(1, 3)), (10, 15, 20, 30), NAIVE_VERDICTS):
        p, y = draw_events(seed, n, slope, offset)
        asked: dict[str, Any] = {"bins": "equal_width", "n_bins": n_bins, "test": test}
        raw = tce(ScoreTable.from_events(p, y), **asked)
        cells = GridTable.from_events(p, y).to_scores()
        assert abs(tce(cells, **asked) - raw) <= tce_error_bound(cells, **asked) + 1e-9


def test_with_isotonic_bins_a_grid_table_is_nearly_always_within_its_bound() -> None:
    held = []
    for seed, (slope, offset) in itertools.product(range(15), [(1.0, 0.0), (1.2, 0.0), (1.0, -4.0), (1.2, -4.0)]):
        p, y = draw_events(seed, 20_000, slope, offset)
        cells = GridTable.from_events(p, y).to_scores()
        value = tce(cells)
        difference = abs(value - tce(ScoreTable.from_events(p, y)))
        held.append(difference <= MEASURE.error_bound(cells, value))
        assert difference < 15.0
    assert np.mean(held) >= 0.95


def test_the_bound_of_many_events_is_small_for_a_clearly_wrong_model() -> None:
    """The cells beside the edges of bins alone hold several percent."""
    p, y = draw_events(1, 200_000, 1.5, -2.0)
    cells = GridTable.from_events(p, y).to_scores()
    assert abs(tce(cells) - tce(ScoreTable.from_events(p, y))) <= tce_error_bound(cells) < 3.0


def test_positives_that_are_dealt_within_cells_stay_in_them() -> None:
    cells = Counts.of(GridTable.from_events(*draw_events(4, 5_000, 1.2, -1.0)).to_scores())
    rows, positives = cells.dealt()
    cell = np.searchsorted(cells.lower, rows.score, side="right") - 1
    assert (cells.lower[cell] <= rows.score).all()
    assert (rows.score <= cells.upper[cell]).all()
    assert (np.diff(rows.score) > 0.0).all()
    assert (positives <= rows.counts).all()
    assert (positives >= 0.0).all()
    assert np.array_equal(np.bincount(cell, rows.counts), cells.counts)
    for dealt in positives:
        assert np.array_equal(np.bincount(cell, dealt), cells.positives)
    assert len(np.unique(positives, axis=0)) == len(positives)


def test_an_interval_holds_what_the_bound_allows() -> None:
    cells = GridTable.from_events(*draw_events(2, 10_000, 1.2, 0.0)).to_scores()
    value = tce(cells)
    unsure = dataclasses.replace(MEASURE, error_bound=lambda _table, _value: 40.0)
    found = interval(cells, unsure, draws=19)
    assert (found.lower, found.upper) == (max(0.0, value - 40.0), min(100.0, value + 40.0))
    sure = interval(cells, MEASURE, draws=19)
    assert found.lower < sure.lower < value < sure.upper < found.upper


def test_the_bound_of_raw_predictions_is_zero() -> None:
    assert tce_error_bound(ScoreTable.from_events(*draw_events(8, 500))) == 0.0


def test_a_cell_below_an_edge_stays_there_even_where_its_mean_rounds_up() -> None:
    p = np.concatenate([np.full(50, np.nextafter(0.9, 0.0)), np.full(50, 0.95)])
    y = np.concatenate([np.ones(50, np.int64), np.zeros(50, np.int64)])
    cells = GridTable.from_events(p, y).to_scores()
    for table in (ScoreTable.from_events(p, y), cells):
        assert tce_bins(table, bins="equal_width").positives.tolist() == [50, 0]


# Errors.


def test_an_empty_table_is_not_enough_data() -> None:
    for function in (tce, tce_bins, tce_error_bound):
        with pytest.raises(NotEnoughData, match="at least 1 event"):
            function(ScoreTable.from_events([], []))


def test_a_weighted_table_is_refused() -> None:
    with pytest.raises(InputError, match="weighted"):
        tce(ScoreTable.from_events([0.2, 0.4], [0, 1], weight=[1.0, 1.0]))


def test_counts_that_are_not_whole_are_refused() -> None:
    table = dataclasses.replace(ScoreTable.from_events([0.2, 0.4], [0, 1]), negatives=np.array([1.5, 0.0]))
    with pytest.raises(InputError, match=r"negatives 1\.5 at score 0\.2"):
        tce(table)


def test_rows_without_events_change_nothing() -> None:
    p, y = draw_events(9, 400)
    table = ScoreTable.from_events(p, y)
    padded: dict[str, Any] = {
        field.name: np.insert(getattr(table, field.name), 7, 0.0)
        for field in dataclasses.fields(table)
        if field.name != "squares"
    }
    for name in ("score", "lower", "upper"):
        padded[name][7] = 0.5 * (table.score[6] + table.score[7])
    for kind in KINDS:
        assert tce(dataclasses.replace(table, **padded), bins=kind) == tce(table, bins=kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must lie between 0 and 1, both excluded, got 0"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"bins": "quantiles"}, "bins must be one of 'pava_bc', 'pava', 'quantile', 'equal_width', got 'quantiles'"),
        ({"test": "z"}, "test must be one of 'binomial', 't', 't_published', got 'z'"),
        ({"bins": "quantile", "n_bins": 0}, "n_bins must be a whole number of at least 1, got 0"),
        ({"bins": "quantile", "n_bins": 2.5}, r"n_bins must be a whole number of at least 1, got 2\.5"),
        ({"min_size": -1}, "min_size must be a whole number of at least 0, got -1"),
        ({"max_size": "3"}, "max_size must be a whole number of at least 0, got '3'"),
        ({"min_size": 3, "max_size": 2}, "min_size must be at most max_size, got min_size=3 and max_size=2"),
        ({"min_size": 3}, "got min_size=3 and max_size=2 for 10 events"),
        ({"bins": "pava", "max_size": 2}, "max_size limits the bins of pava_bc alone, got max_size=2 with bins='pava'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str) -> None:
    table = ScoreTable.from_events(np.arange(10) / 10, [0, 1] * 5)
    for function in (tce, tce_bins, tce_error_bound):
        with pytest.raises(InputError, match=message):
            function(table, **options)


def test_the_smallest_tables_have_a_value() -> None:
    for n in range(1, 25):
        p, y = draw_events(n, n)
        for kind in KINDS:
            assert 0.0 <= tce(ScoreTable.from_events(p, y), bins=kind) <= 100.0
    assert tce(ScoreTable.from_events([0.01], [1])) == 100.0


def test_a_draw_that_rounding_could_decide_has_the_verdict_of_its_table() -> None:
    k, n = 20, 100
    hypothesis = brentq(lambda p: binomtest(k, n, p).pvalue - 0.05, 0.2, 0.3, xtol=1e-16, rtol=1e-15)
    score = np.unique([np.nextafter(hypothesis, 0.0), hypothesis, np.nextafter(hypothesis, 1.0)])
    for p in score.tolist():
        table = ScoreTable.from_events([p] * n, [1] * k + [0] * (n - k))
        _, sure = refuted_events(
            table.score, np.array([n]), np.array([[float(k)]]), n // 20, n // 5, 0.05, log_factorials()
        )
        assert not sure[0]
        # Of 35 positives in 100, too, p = .29 is no outlier.
        assert tce_draws(table, np.array([[20.0], [35.0]])).tolist() == [tce(table), 0.0]


def test_the_t_test_by_its_name() -> None:
    table = ScoreTable.from_events(*draw_events(2, 3000, slope=1.3))
    assert tce_t(table) == tce(table, test="t") != tce(table)
    assert T_MEASURE.appears_in == "request"
    cells = GridTable.from_events(*draw_events(2, 3000, slope=1.3)).to_scores()
    assert T_MEASURE.error_bound(cells, tce_t(cells)) == tce_error_bound(cells, test="t") > 0.0


def test_the_declaration() -> None:
    table = ScoreTable.from_events(*draw_events(1, 200))
    assert (type(MEASURE), MEASURE.name, MEASURE.unit, MEASURE.needs_whole_counts) == (Measure, "tce", "percent", True)
    assert MEASURE.value(table) == tce(table)
