"""ECE's relatives, RintCE and ECCE against their definitions, and their error bounds where bins cut cells."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.measures import (
    MEASURES,
    binned_ece_width,
    ecce,
    ece,
    ece_quantile,
    intce,
    kce,
    kce_logit,
    mce,
    rintce,
    rmsce,
)
from monitor.measures.binned_errors import BinKind, BinNorm, binned_error, binned_error_bound
from monitor.scores import GridTable, ScoreTable
from tests.long import examples
from tests.reference import naive_measures as naive

Floats = NDArray[np.float64]

P = np.array([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19])
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
VECTOR = ScoreTable.from_events(P, Y)


@st.composite
def events(draw: st.DrawFn, least: int = 1, most: int = 30) -> tuple[Floats, Floats]:
    """Predictions with ties, and outcomes that need have nothing to do with them."""
    score = st.floats(0.0, 1.0, allow_subnormal=False) | st.integers(0, 10).map(lambda i: i / 10)
    pairs = draw(st.lists(st.tuples(score, st.integers(0, 1)), min_size=least, max_size=most))
    p, y = zip(*pairs, strict=True)
    return np.array(p), np.array(y, np.float64)


n_bins = st.sampled_from([1, 2, 5, 10, 15])


@given(events(), n_bins)
def test_quantile_bins_are_the_loops(data: tuple[Floats, Floats], bins: int) -> None:
    p, y = data
    table = ScoreTable.from_events(p, y)
    members = naive.quantile_bins_by_loops(p, bins)
    for value, norm in (
        (ece_quantile(table, n_bins=bins), 1),
        (rmsce(table, n_bins=bins), 2),
        (mce(table, bins="quantile", n_bins=bins), "max"),
    ):
        assert value == pytest.approx(naive.norm_over_bins(p, y, members, norm), rel=1e-9, abs=1e-12)


@given(events(), n_bins)
def test_mce_is_the_loop_over_bins(data: tuple[Floats, Floats], bins: int) -> None:
    p, y = data
    value = mce(ScoreTable.from_events(p, y), n_bins=bins)
    assert value == pytest.approx(naive.ece_by_loops(p, y, bins, "max"), rel=1e-9, abs=1e-12)


@given(events())
def test_binned_ece_plus_width_bounds_the_interval_calibration_error(data: tuple[Floats, Floats]) -> None:
    table = ScoreTable.from_events(*data)
    for bins in (1, 2, 10, 15):
        value = binned_ece_width(table, n_bins=bins)
        assert value == ece(table, n_bins=bins) + 1.0 / bins
        assert value >= intce(table) - 1e-12


@given(events())
def test_larger_norms_are_larger(data: tuple[Floats, Floats]) -> None:
    table = ScoreTable.from_events(*data)
    for bins in (2, 10):
        largest = mce(table, bins="quantile", n_bins=bins)
        assert ece_quantile(table, n_bins=bins) <= rmsce(table, n_bins=bins) + 1e-12
        assert rmsce(table, n_bins=bins) <= largest + 1e-12


@pytest.mark.parametrize("kind", ["mad", "range"])
@given(data=events(most=14))
def test_ecce_is_the_largest_mean_residual_of_an_interval(kind: str, data: tuple[Floats, Floats]) -> None:
    p, y = data
    value = ecce(ScoreTable.from_events(p, y), kind=kind)  # type: ignore[call-overload]  # parametrized by its values
    assert value == pytest.approx(naive.ecce_by_loops(p, y, kind), abs=1e-14)


@given(events())
def test_the_two_kinds_of_ecce_enclose_each_other(data: tuple[Floats, Floats]) -> None:
    table = ScoreTable.from_events(*data)
    deviation, spread = ecce(table), ecce(table, kind="range")
    assert deviation - 1e-15 <= spread <= 2.0 * deviation + 1e-15
    # An interval's mean residual is at most what all of them add up to.
    assert spread <= np.abs(table.residual).sum() / table.total + 1e-12


def test_ecce_of_calibrated_models_is_that_of_brownian_motion() -> None:
    rng = np.random.default_rng(7)
    values, spreads = [], []
    for _ in range(400):
        p = rng.beta(2.0, 5.0, 2000)
        table = ScoreTable.from_events(p, rng.random(p.size) < p)
        sigma = np.sqrt((p * (1.0 - p)).mean() / p.size)
        values.append(ecce(table) / sigma)
        spreads.append(ecce(table, kind="range") / sigma)
    # Mean of the largest deviation sqrt(pi / 2), of the range sqrt(8 / pi); steps are finite, so a little less.
    assert np.mean(values) == pytest.approx(np.sqrt(np.pi / 2.0), abs=0.08)
    assert np.mean(spreads) == pytest.approx(np.sqrt(8.0 / np.pi), abs=0.08)


def test_kce_logit_is_kce_on_the_logit_scale() -> None:
    table = ScoreTable.from_events([0.0, 1e-9, 0.001, 0.3, 1.0], [1, 0, 1, 0, 0])
    assert kce_logit(table) == kce(table, scale="logit")
    assert kce_logit(table, bandwidth=0.3) == kce(table, scale="logit", bandwidth=0.3)
    assert kce_logit(table) != kce(table)


def test_kce_logit_sees_what_kce_averages_away() -> None:
    """One prediction in ten is .001 and comes true in a hundredth of cases; the others of .01 are too high in turn."""
    p = np.repeat([0.001, 0.01], [10_000, 90_000])
    y = np.concatenate([np.arange(10_000) < 100, np.arange(90_000) < 810]).astype(np.float64)
    table = ScoreTable.from_events(p, y)  # the residuals cancel but for the distance
    assert table.residual.sum() == pytest.approx(0.0, abs=1e-9)
    assert kce_logit(table) > 10.0 * kce(table)


@given(events(), st.sampled_from([1 / 16, 0.3]))
def test_rintce_is_at_most_intce_per_width(data: tuple[Floats, Floats], width: float) -> None:
    table = ScoreTable.from_events(*data)
    assert rintce(table) == rintce(table, 1 / 16)
    assert intce(table) - 1e-12 <= rintce(table, width) + width


# --- Error bounds -----------------------------------------------------------------------------------------------------


def in_cells(p: Floats, y: Floats, cells: int) -> ScoreTable:
    """The table of a grid of cells of equal width."""
    cell = np.minimum((p * cells).astype(np.int64), cells - 1)
    place = np.unique(cell)
    counts = np.array([[((cell == c) & (y == k)).sum() for c in place] for k in (1, 0)], np.float64)
    sums = np.array([[p[(cell == c) & (y == k)].sum() for c in place] for k in (1, 0)])
    return ScoreTable(
        score=np.clip(sums.sum(axis=0) / counts.sum(axis=0), place / cells, np.nextafter((place + 1) / cells, 0.0)),
        positives=counts[0],
        negatives=counts[1],
        positive_sum=sums[0],
        negative_sum=sums[1],
        lower=place / cells,
        upper=(place + 1) / cells,
    )


@pytest.mark.parametrize("kind", ["equal_width", "quantile"])
@pytest.mark.parametrize("norm", [1, 2, "max"])
@examples(25, 100)
@given(data=events(most=60), bins=st.integers(1, 7), cells=st.sampled_from([4, 9, 30]))
def test_a_binned_error_of_cells_is_within_its_bound(
    kind: BinKind, norm: BinNorm, data: tuple[Floats, Floats], bins: int, cells: int
) -> None:
    """Edges that cut cells: as those of seven bins cut nine cells."""
    p, y = np.minimum(data[0], np.nextafter(1.0, 0.0)), data[1]
    raw, table = ScoreTable.from_events(p, y), in_cells(p, y, cells)
    value = binned_error(table, kind, bins, norm)
    bound = binned_error_bound(table, value, kind, bins, norm)
    assert abs(binned_error(raw, kind, bins, norm) - value) <= bound + 1e-12
    assert binned_error_bound(raw, binned_error(raw, kind, bins, norm), kind, bins, norm) == 0.0


@pytest.mark.parametrize("name", ["ece", "ece_quantile", "rmsce", "mce", "kce_logit", "rintce", "ecce"])
def test_the_bound_of_a_window_says_something(name: str) -> None:
    """Of a model that is clearly off: less than the value, so that the value can be told from 0."""
    rng = np.random.default_rng(3)
    q = rng.beta(2.0, 5.0, 100_000)
    p = 1.0 / (1.0 + ((1.0 - q) / q) ** 1.5)
    table = GridTable.from_events(p, (rng.random(q.size) < q).astype(np.int64)).to_scores()
    measure = MEASURES[name]
    value = measure.value(table)
    assert 0.0 <= measure.error_bound(table, value) < 0.5 * value


def test_the_bound_of_kce_logit_counts_what_lies_next_to_0() -> None:
    """A cell that ends at p = 0 is infinitely long in logits: its events may lie anywhere in it, and no farther off."""
    p = np.concatenate([np.full(50, 1e-300), np.full(50, 1e-9)])
    y = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 20, 5, 45])
    table = GridTable.from_events(p, y.astype(np.int64)).to_scores()
    assert table.rows == 1
    value = kce_logit(table)
    bound = MEASURES["kce_logit"].error_bound(table, value)
    of_raw = kce_logit(ScoreTable.from_events(p, y))
    assert of_raw < 0.9 * value
    assert value - of_raw <= bound < np.inf


# --- Options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", [ece_quantile, rmsce, mce, binned_ece_width, kce_logit, ecce, rintce])
def test_an_empty_table_is_not_enough(measure: Callable[[ScoreTable], float]) -> None:
    with pytest.raises(NotEnoughData, match="needs at least 1 event, got 0"):
        measure(ScoreTable.from_events([], []))


@pytest.mark.parametrize("measure", [ece_quantile, rmsce, mce, binned_ece_width])
def test_the_number_of_bins_is_whole_and_at_least_1(measure: Callable[..., float]) -> None:
    with pytest.raises(InputError, match="n_bins must be a whole number of at least 1, got 0"):
        measure(VECTOR, n_bins=0)
    with pytest.raises(InputError, match=r"n_bins must be a whole number of at least 1, got 2\.5"):
        measure(VECTOR, n_bins=2.5)


def test_wrong_options_are_named() -> None:
    with pytest.raises(InputError, match="kind must be one of 'mad', 'range', got 'max'"):
        ecce(VECTOR, kind="max")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="bins must be one of 'equal_width', 'quantile', got 'even'"):
        mce(VECTOR, bins="even")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0"):
        kce_logit(VECTOR, bandwidth=0.0)


@pytest.mark.parametrize("measure", [ece_quantile, rmsce, mce, binned_ece_width, kce_logit, ecce, rintce])
def test_weights_count_as_repetitions(measure: Callable[[ScoreTable], float]) -> None:
    times = np.array([1, 2, 3, 1, 1, 4, 2, 1])
    weighted = ScoreTable.from_events(P, Y, times)
    repeated = ScoreTable.from_events(np.repeat(P, times), np.repeat(Y, times))
    assert measure(weighted) == pytest.approx(measure(repeated), rel=1e-12)
    assert MEASURES[measure.__name__].error_bound(weighted, measure(weighted)) == 0.0


def test_rows_without_events_count_for_nothing() -> None:
    """As drawn tables may have."""
    table = ScoreTable.from_events([0.05, 0.5, 0.95], [0, 1, 0])
    with_empty = replace(
        ScoreTable.from_events([0.05, 0.25, 0.5, 0.95], [0, 1, 1, 0]),
        positives=np.array([0.0, 0.0, 1.0, 0.0]),
        positive_sum=np.array([0.0, 0.0, 0.5, 0.0]),
    )
    for measure in (ece_quantile, rmsce, mce, binned_ece_width, ecce, rintce):
        assert measure(with_empty) == pytest.approx(measure(table), rel=1e-12)
