"""The randomised estimators of kCE^2 and the jackknife against kCE itself and against double loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.measures import kce, kce_by_frequencies, kce_by_random_bins, kce_jackknife
from monitor.scores import ScoreTable
from tests.reference.naive_measures import squared_kce_unbiased_by_double_sum

Floats = NDArray[np.float64]

both = pytest.mark.parametrize("estimate", [kce_by_frequencies, kce_by_random_bins])


def miscalibrated(n: int, seed: int = 1) -> ScoreTable:
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), 2)  # with ties
    return ScoreTable.from_events(p, rng.random(n) < p**2)


@both
@pytest.mark.parametrize("bandwidth", [1.0, 0.2])
def test_the_mean_over_many_draws_is_the_exact_square(estimate, bandwidth: float) -> None:  # type: ignore[no-untyped-def]
    table = miscalibrated(200)
    each = [estimate(table, draws=1, seed=seed, bandwidth=bandwidth) for seed in range(4000)]
    assert 0.0 <= min(each) <= max(each) <= 1.0
    error = np.std(each) / math.sqrt(len(each))
    assert error > 0.0
    assert np.mean(each) == pytest.approx(kce(table, bandwidth=bandwidth) ** 2, abs=4.0 * error)


@both
def test_one_call_of_many_draws_is_as_good(estimate) -> None:  # type: ignore[no-untyped-def]
    table = miscalibrated(300)
    assert estimate(table, draws=20_000, seed=3) == pytest.approx(kce(table) ** 2, rel=0.03)
    assert estimate(table, draws=50, seed=3) == estimate(table, draws=50, seed=3)
    assert estimate(table, draws=50, seed=3) != estimate(table, draws=50, seed=4)


def test_a_binning_is_the_loop_over_its_bins() -> None:
    table = miscalibrated(50)
    rng = np.random.default_rng(8)
    width, shift = rng.gamma(2.0, 1.0), rng.random()
    bins: dict[int, float] = {}
    for x, residual in zip(table.score, table.residual, strict=True):
        place = math.floor(x / width - shift)
        bins[place] = bins.get(place, 0.0) + residual
    expected = sum(total**2 for total in bins.values()) / table.total**2
    assert kce_by_random_bins(table, draws=1, seed=8) == pytest.approx(expected, rel=1e-12)


def test_a_frequency_is_the_loop_over_the_events() -> None:
    table = miscalibrated(50)
    omega = np.random.default_rng(8).standard_cauchy()
    total = sum(residual * np.exp(1j * omega * x) for x, residual in zip(table.score, table.residual, strict=True))
    expected = abs(total) ** 2 / table.total**2
    assert kce_by_frequencies(table, draws=1, seed=8) == pytest.approx(expected, rel=1e-12)


@both
def test_options_of_the_estimators_are_checked(estimate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="draws must be a whole number of at least 1, got 0"):
        estimate(miscalibrated(5), draws=0, seed=1)
    with pytest.raises(InputError, match=r"draws must be a whole number of at least 1, got 2\.5"):
        estimate(miscalibrated(5), draws=2.5, seed=1)
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0"):
        estimate(miscalibrated(5), draws=1, seed=1, bandwidth=-1.0)
    with pytest.raises(NotEnoughData, match="kCE needs at least 1 event"):
        estimate(ScoreTable.from_events([], []), draws=1, seed=1)


@st.composite
def events(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """At least three predictions, ties among them."""
    score = st.floats(0.0, 1.0, allow_subnormal=False) | st.integers(0, 5).map(lambda i: i / 5)
    pairs = draw(st.lists(st.tuples(score, st.integers(0, 1)), min_size=3, max_size=12))
    p, y = zip(*pairs, strict=True)
    return np.array(p), np.array(y, np.float64)


@given(events(), st.sampled_from([0.3, 1.0]))
def test_the_jackknife_leaves_out_one_event_after_another(data: tuple[Floats, Floats], bandwidth: float) -> None:
    p, y = data
    n = p.size
    table = ScoreTable.from_events(p, y)
    jackknife = kce_jackknife(table, bandwidth=bandwidth)
    assert jackknife.value == pytest.approx(kce(table, bandwidth=bandwidth, unbiased=True), rel=1e-9, abs=1e-15)
    without = []
    for i in range(n):
        expected = squared_kce_unbiased_by_double_sum(np.delete(p, i), np.delete(y, i), bandwidth)
        row = int(np.searchsorted(table.score, p[i]))
        value = (jackknife.without_positive if y[i] else jackknife.without_negative)[row]
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-14)
        without.append(expected)
    expected_error = math.sqrt((n - 1) / n * np.sum((np.array(without) - np.mean(without)) ** 2))
    assert jackknife.standard_error == pytest.approx(expected_error, rel=1e-6, abs=1e-9)
    assert np.isnan(jackknife.without_positive[table.positives == 0.0]).all()
    assert np.isnan(jackknife.without_negative[table.negatives == 0.0]).all()


def test_the_jackknife_of_logits() -> None:
    table = ScoreTable.from_events([0.0, 0.1, 0.5, 0.9, 1.0], [0, 1, 1, 0, 0])
    jackknife = kce_jackknife(table, scale="logit")
    assert jackknife.value == pytest.approx(kce(table, scale="logit", unbiased=True), rel=1e-12)
    without = ScoreTable.from_events([0.0, 0.1, 0.9, 1.0], [0, 1, 0, 0])
    assert jackknife.without_positive[2] == pytest.approx(kce(without, scale="logit", unbiased=True), rel=1e-12)


def test_the_standard_error_is_how_much_the_estimate_varies() -> None:
    found = [kce_jackknife(miscalibrated(400, seed)) for seed in range(300)]
    spread = np.std([each.value for each in found])
    assert np.mean([each.standard_error for each in found]) == pytest.approx(spread, rel=0.15)


def test_the_jackknife_needs_three_events_and_no_weights() -> None:
    with pytest.raises(NotEnoughData, match="the jackknife of kCE needs at least 3 events, got 2"):
        kce_jackknife(ScoreTable.from_events([0.1, 0.2], [0, 1]))
    with pytest.raises(InputError, match="the jackknife needs whole counts, got a weighted table"):
        kce_jackknife(ScoreTable.from_events([0.1, 0.2, 0.3], [0, 1, 1], [1, 1, 1]))
