"""kCE, smCE, intCE, its surrogate and ECE against their definitions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.measures import (
    binned_ece_width,
    dce_lower,
    ecce,
    ece,
    intce,
    intce_partition,
    kce,
    kce_logit,
    rintce,
    smce,
    smce_witness,
    surrogate_intce,
)
from monitor.measures.interval_error import intce_gradient, surrogate_intce_gradient
from monitor.scores import ScoreTable
from tests.reference import naive_measures as naive

Floats = NDArray[np.float64]

P = np.array([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19])
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
VECTOR = ScoreTable.from_events(P, Y)
EMPTY = ScoreTable.from_events([], [])


@st.composite
def events(draw: st.DrawFn, least: int = 1, most: int = 30) -> tuple[Floats, Floats]:
    """Predictions with ties, near-ties and both ends, and outcomes that need have nothing to do with them."""
    spread = st.floats(0.0, 1.0, allow_subnormal=False)
    coarse = st.integers(0, 8).map(lambda i: i / 8)
    close = st.integers(0, 8).map(lambda i: 0.5 + i * 1e-9)
    pairs = draw(
        st.lists(st.tuples(spread | coarse | close, st.integers(0, 1)), min_size=least, max_size=most),
    )
    p, y = zip(*pairs, strict=True)
    return np.array(p), np.array(y, np.float64)


def test_the_published_vectors() -> None:
    assert smce(VECTOR) == pytest.approx(0.10575, rel=1e-14)
    assert kce(VECTOR) == pytest.approx(0.10627258027498664, rel=1e-14)
    assert intce(VECTOR) == pytest.approx(0.17875, rel=1e-14)
    assert surrogate_intce(VECTOR) == pytest.approx(0.28375, rel=1e-14)
    assert [rintce(VECTOR, width) for width in (1.0, 0.5, 0.25)] == pytest.approx(
        [0.12275, 0.15605, 0.19485], rel=1e-13
    )


def test_code_that_stops_halving_at_a_512th_has_a_larger_surrogate() -> None:
    stopped = min(rintce(VECTOR, 2.0**-k) + 2.0**-k for k in range(10))
    assert stopped == pytest.approx(0.285703125, rel=1e-13)
    assert surrogate_intce(VECTOR) < stopped


def test_the_temperatures_of_the_papers_second_figure() -> None:
    """y ~ Bernoulli(q), q uniform, p = sigmoid(beta logit q): calibrated at beta = 1, where every measure is least."""
    rng = np.random.default_rng(2)
    q = rng.random(50_000)
    y = rng.random(q.size) < q
    betas = 2.0 ** np.arange(-3, 4)
    tables = [ScoreTable.from_events(1.0 / (1.0 + ((1.0 - q) / q) ** beta), y) for beta in betas]
    for measure in (kce, kce_logit, smce, rintce, intce, surrogate_intce, ece, binned_ece_width, ecce, dce_lower):
        value = [measure(table) for table in tables]
        assert np.argmin(value) == 3, measure.__name__
        assert min(value[2], value[4]) > value[3] + 0.015, measure.__name__


def test_a_prediction_of_1_is_in_the_last_bin() -> None:
    table = ScoreTable.from_events([0.95, 1.0], [1, 0])
    assert ece(table, n_bins=10) == pytest.approx(0.475, rel=1e-14)


def test_a_prediction_on_an_edge_is_in_the_upper_bin() -> None:
    # .3 and .35 share the fourth bin of ten, though .3 * 10 is below 3 in floating point.
    table = ScoreTable.from_events([0.3, 0.35], [1, 0])
    assert ece(table, n_bins=10) == pytest.approx(abs(0.7 - 0.35) / 2, rel=1e-14)


@given(events())
def test_kce_is_the_double_sum(data: tuple[Floats, Floats]) -> None:
    p, y = data
    table = ScoreTable.from_events(p, y)
    for bandwidth in (0.1, 1.0, 7.0):
        # The root magnifies what rounding leaves of a square that is 0.
        expected = naive.kce_by_double_sum(p, y, bandwidth)
        assert kce(table, bandwidth=bandwidth) ** 2 == pytest.approx(expected**2, rel=1e-10, abs=1e-15)


@given(events(least=2))
def test_unbiased_kce_is_the_double_sum_without_its_diagonal(data: tuple[Floats, Floats]) -> None:
    p, y = data
    expected = naive.squared_kce_unbiased_by_double_sum(p, y, 0.5)
    assert kce(ScoreTable.from_events(p, y), bandwidth=0.5, unbiased=True) == pytest.approx(
        expected, rel=1e-9, abs=1e-14
    )


def test_kce_on_the_logit_scale_is_the_double_sum_of_logits() -> None:
    rng = np.random.default_rng(5)
    p = rng.uniform(0.001, 0.999, 40)
    y = (rng.random(40) < p).astype(np.float64)
    logit = np.log(p / (1.0 - p))
    kernel = np.exp(-np.abs(logit[:, None] - logit[None, :]) / 2.0)
    expected = math.sqrt((y - p) @ kernel @ (y - p)) / 40
    assert kce(ScoreTable.from_events(p, y), scale="logit", bandwidth=2.0) == pytest.approx(expected, rel=1e-12)


def test_kce_on_the_logit_scale_takes_0_and_1() -> None:
    table = ScoreTable.from_events([0.0, 0.5, 1.0, 1.0], [1, 1, 0, 0])
    assert kce(table, scale="logit") == pytest.approx(math.sqrt(1.0 + 0.25 + 4.0) / 4, rel=1e-14)


@given(events())
def test_smce_is_the_linear_programme(data: tuple[Floats, Floats]) -> None:
    p, y = data
    assert smce(ScoreTable.from_events(p, y)) == pytest.approx(naive.smce_by_linear_programme(p, y), abs=2e-8)


@pytest.mark.parametrize("seed", range(6))
def test_smce_is_the_linear_programme_on_many_predictions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 0.5 + seed, 400)
    y = (rng.random(400) < p ** rng.uniform(0.5, 2.0)).astype(np.float64)
    assert smce(ScoreTable.from_events(p, y)) == pytest.approx(naive.smce_by_linear_programme(p, y), abs=1e-9)


@given(events())
def test_the_witness_attains_smce_and_is_lipschitz(data: tuple[Floats, Floats]) -> None:
    table = ScoreTable.from_events(*data)
    witness = smce_witness(table)
    assert witness.shape == table.score.shape
    assert np.abs(witness).max() <= 1.0
    assert (np.abs(np.diff(witness)) <= np.diff(table.score) + 1e-15).all()
    assert float(witness @ table.residual) / table.total == pytest.approx(smce(table), abs=1e-14)


def test_the_witness_attains_smce_on_a_million_predictions() -> None:
    rng = np.random.default_rng(11)
    p = rng.random(1_000_000)
    table = ScoreTable.from_events(p, rng.random(p.size) < p**1.2)
    assert float(smce_witness(table) @ table.residual) / table.total == pytest.approx(smce(table), rel=1e-9)


def test_the_witness_points_at_what_is_wrong() -> None:
    # Calibrated throughout, but for too many positives at .2 and too few at .8.
    p = np.repeat(np.arange(1, 10) / 10, 10)
    positives = np.array([1, 5, 3, 4, 5, 6, 7, 5, 9])
    y = np.concatenate([np.r_[np.ones(k), np.zeros(10 - k)] for k in positives])
    table = ScoreTable.from_events(p, y)
    witness = smce_witness(table)
    assert witness[1] - witness[7] == pytest.approx(0.6, abs=1e-12)
    assert smce(table) == pytest.approx(3 * 0.6 / 90, abs=1e-12)


@given(events(), st.sampled_from([1.0, 0.7, 0.5, 0.125, 1.9]))
def test_rintce_is_the_mean_over_shifts(data: tuple[Floats, Floats], width: float) -> None:
    p, y = data
    assert rintce(ScoreTable.from_events(p, y), width) == pytest.approx(naive.rintce_by_shifts(p, y, width), abs=1e-12)


def test_rintce_below_the_smallest_gap_parts_all_scores() -> None:
    assert rintce(VECTOR, 0.01 - 1e-12) == pytest.approx(np.abs(VECTOR.residual).sum() / 8, rel=1e-12)


def test_rintce_keeps_widths_near_the_last_bit() -> None:
    step = 2.0**-50
    table = ScoreTable.from_events([0.5, 0.5 + step], [1, 0])
    # Bins of width e hold both of two scores a gap g apart with probability 1 - g / e.
    for width in (step, 1.25 * step, 4.0 * step):
        together = 1.0 - step / width
        expected = together * 0.0 + (1.0 - together) * 0.5
        assert rintce(table, width) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_surrogate_intce_goes_on_to_the_limit() -> None:
    table = ScoreTable.from_events([0.5, 0.5 + 2.0**-40], [1, 0])
    # Opposite residuals: a narrow bin costs its width and what falls apart, g / e * .5.
    expected = min(2.0**-k + 2.0 ** (k - 40) * 0.5 for k in range(41))
    assert surrogate_intce(table) == pytest.approx(expected, rel=1e-4)


@given(events(most=9))
def test_intce_is_the_least_over_all_partitions(data: tuple[Floats, Floats]) -> None:
    p, y = data
    assert intce(ScoreTable.from_events(p, y)) == pytest.approx(naive.intce_by_enumeration(p, y), abs=1e-14)


@pytest.mark.parametrize("slope", [0.3, 1.0, 1.3, 4.0])
@pytest.mark.parametrize("shape", [(1.0, 1.0), (1.0, 30.0), (0.3, 0.3)])
def test_pruning_loses_nothing(slope: float, shape: tuple[float, float]) -> None:
    rng = np.random.default_rng(17)
    q = np.clip(rng.beta(*shape, 3000), 1e-9, 1 - 1e-9)
    y = (rng.random(3000) < q).astype(np.float64)
    p = 1.0 / (1.0 + ((1.0 - q) / q) ** slope)
    assert intce(ScoreTable.from_events(p, y)) == pytest.approx(naive.intce_by_quadratic_programme(p, y), rel=1e-12)


@given(events())
def test_the_partition_attains_intce(data: tuple[Floats, Floats]) -> None:
    p, y = data
    table = ScoreTable.from_events(p, y)
    bounds = intce_partition(table)
    assert bounds[0] == 0
    assert bounds[-1] == table.rows
    assert (np.diff(bounds) > 0).all()
    assert naive.partition_cost(p, y, bounds.tolist()) == pytest.approx(intce(table), abs=1e-14)


@given(events(), st.sampled_from([1, 2, 10, 15]), st.sampled_from([1, 2, "max"]))
def test_ece_is_the_loop_over_bins(data: tuple[Floats, Floats], n_bins: int, norm: int | str) -> None:
    p, y = data
    value = ece(ScoreTable.from_events(p, y), n_bins=n_bins, norm=norm)  # type: ignore[call-overload]
    assert value == pytest.approx(naive.ece_by_loops(p, y, n_bins, norm), rel=1e-9, abs=1e-12)


def test_quantile_bins_of_distinct_predictions_are_equally_filled() -> None:
    rng = np.random.default_rng(3)
    p = np.sort(rng.random(40))
    y = (rng.random(40) < 0.5).astype(np.float64)
    expected = np.abs((y - p).reshape(4, 10).sum(axis=1)).sum() / 40
    assert ece(ScoreTable.from_events(p, y), bins="quantile", n_bins=4) == pytest.approx(expected, rel=1e-12)


def test_quantile_bins_keep_equal_predictions_together() -> None:
    p = np.repeat([0.2, 0.6], 50)
    y = np.r_[np.zeros(50), np.ones(50)]
    assert ece(ScoreTable.from_events(p, y), bins="quantile", n_bins=10) == pytest.approx((0.2 + 0.4) / 2, rel=1e-12)


def test_weights_count_as_repetitions() -> None:
    p, y, times = P, Y, np.array([1, 2, 3, 1, 1, 4, 2, 1])
    weighted = ScoreTable.from_events(p, y, times)
    repeated = ScoreTable.from_events(np.repeat(p, times), np.repeat(y, times))
    for measure in (kce, smce, intce, surrogate_intce, ece):
        assert measure(weighted) == pytest.approx(measure(repeated), rel=1e-12)


@pytest.mark.parametrize("measure", [kce, smce, smce_witness, intce, intce_partition, surrogate_intce, ece])
def test_an_empty_table_is_not_enough(measure) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NotEnoughData, match="needs at least 1 event, got 0"):
        measure(EMPTY)


def test_rintce_of_an_empty_table_is_not_enough() -> None:
    with pytest.raises(NotEnoughData, match="RintCE needs at least 1 event"):
        rintce(EMPTY, 0.5)


def test_unbiased_kce_needs_two_events() -> None:
    with pytest.raises(NotEnoughData, match="kCE needs at least 2 events, got 1"):
        kce(ScoreTable.from_events([0.5], [1]), unbiased=True)
    with pytest.raises(NotEnoughData, match="kCE needs at least 2 events, got 1"):
        kce(ScoreTable.from_events([0.5], [1], [3.0]), unbiased=True)


def test_unbiased_kce_of_weights_leaves_out_the_pairs_of_an_event_with_itself() -> None:
    weight = np.array([0.5, 2.0, 1.0, 3.0, 0.25, 1.0, 0.0, 1.5])
    p = np.round(P, 1)  # with ties
    pairs = [(i, j) for i in range(p.size) for j in range(p.size) if i != j]
    total = sum(weight[i] * weight[j] * (Y[i] - p[i]) * (Y[j] - p[j]) * np.exp(-abs(p[i] - p[j])) for i, j in pairs)
    expected = total / sum(weight[i] * weight[j] for i, j in pairs)
    assert kce(ScoreTable.from_events(p, Y, weight), unbiased=True) == pytest.approx(expected, rel=1e-12)


def test_wrong_options_are_named() -> None:
    with pytest.raises(InputError, match=r"bandwidth must be a finite number above 0, got 0\.0"):
        kce(VECTOR, bandwidth=0.0)
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0, got inf"):
        kce(VECTOR, bandwidth=math.inf)
    with pytest.raises(InputError, match="scale must be one of 'probability', 'logit', got 'log'"):
        kce(VECTOR, scale="log")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="width must be a finite number above 0, got -1"):
        rintce(VECTOR, -1)
    with pytest.raises(InputError, match="bins must be one of 'equal_width', 'quantile', got 'even'"):
        ece(VECTOR, bins="even")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="norm must be one of 1, 2, 'max', got 3"):
        ece(VECTOR, norm=3)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="n_bins must be a whole number of at least 1, got 0"):
        ece(VECTOR, n_bins=0)
    with pytest.raises(InputError, match=r"n_bins must be a whole number of at least 1, got 2\.5"):
        ece(VECTOR, n_bins=2.5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("measure", "gradient"), [(intce, intce_gradient), (surrogate_intce, surrogate_intce_gradient)]
)
@pytest.mark.parametrize("places", [None, 60, 2])
def test_a_gradient_says_how_the_value_moves(
    measure: Callable[[ScoreTable], float], gradient: Callable[[ScoreTable], Floats], places: int | None
) -> None:
    rng = np.random.default_rng(51)
    p = rng.random(400)
    if places is not None:
        # Not at 0 or 1: there the residuals are exactly 0, where their size has no gradient.
        p = np.clip(np.round(p * places) / places, 0.05, 0.95)
    table = ScoreTable.from_events(p, rng.random(400) < p**1.5)
    for _ in range(5):
        step = 1e-6 * rng.normal(size=table.rows)
        moved = measure(table.with_outcomes(table.positives + step)) - measure(table)
        assert moved == pytest.approx(float(gradient(table) @ step), rel=1e-4, abs=1e-13)
