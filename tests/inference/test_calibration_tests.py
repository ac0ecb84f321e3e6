"""The tests of calibration and their combination; the law of kCE against loops and draws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from monitor.errors import InputError, NotEnoughData
from monitor.inference import kce_null_moments, kce_p_value, null_level
from monitor.inference.calibration_tests import calibration_test, cauchy_combination, kernel_p_value, pearson_p_value
from monitor.inference.cox import fit_cox
from monitor.inference.rare_outcomes import contradictions
from monitor.measures import MEASURES, kce
from monitor.measures.laplace_loops import laplace_quadratic_forms
from monitor.scores import GridTable, ScoreTable
from tests.long import short_rows
from tests.reference.naive_calibration_tests import (
    cauchy_by_formula,
    kernel_p_value_by_matrices,
    third_cumulant_by_loops,
    variance_by_loops,
)

Floats = NDArray[np.float64]


def simulated(
    seed: int, n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions p, and outcomes whose logits are slope * logit p + offset."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n)
    return expit(z), (rng.random(n) < expit(slope * z + offset)).astype(np.float64)


def window(seed: int, n: int, **of: float) -> ScoreTable:
    return GridTable.from_events(*simulated(seed, n, **of)).to_scores()


@pytest.mark.parametrize("seed", range(4))
def test_the_kernels_p_value_is_that_of_whole_matrices(seed: int) -> None:
    p, y = simulated(seed, 60, slope=0.5)
    assert kernel_p_value(ScoreTable.from_events(p, y)) == pytest.approx(kernel_p_value_by_matrices(p, y), rel=1e-9)
    # Ties share a row, whose law is binomial.
    p = np.round(p, 1).clip(0.1, 0.9)
    assert kernel_p_value(ScoreTable.from_events(p, y)) == pytest.approx(kernel_p_value_by_matrices(p, y), rel=1e-9)


@given(st.lists(st.floats(1e-6, 0.99), min_size=1, max_size=5))
def test_the_combination_is_as_in_its_formula(p_values: list[float]) -> None:
    assert cauchy_combination(p_values) == pytest.approx(cauchy_by_formula(p_values), rel=1e-8)


def test_the_combination_keeps_its_digits_and_no_p_value_of_1_outweighs_the_others() -> None:
    assert cauchy_combination([1e-14, 0.5, 0.5]) == pytest.approx(3e-14, rel=1e-6)
    assert 0.0 <= cauchy_combination([0.0, 0.5, 0.5]) < 1e-15
    assert cauchy_combination([1e-6, 1.0, 1.0]) < 1e-5
    assert cauchy_combination([0.3, 0.3]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("n", "mean", "on_grid"),
    short_rows([(1000, -4.0, True), (100, 0.0, False), (2000, 0.0, True), (12_000, -2.0, False)], 1),
)
def test_the_test_has_its_size(n: int, mean: float, on_grid: bool) -> None:
    runs = 100 if n > 10_000 else 400
    refused, sure = 0, 0
    for run in range(runs):
        p, y = simulated(run, n, mean=mean)
        table = GridTable.from_events(p, y).to_scores() if on_grid else ScoreTable.from_events(p, y)
        p_value = calibration_test(table).p_value
        refused += p_value <= 0.05
        sure += p_value <= 0.01
    # Within .03, and within three of its own standard deviations where there are few runs.
    assert abs(refused / runs - 0.05) <= max(0.03, 3.0 * math.sqrt(0.05 * 0.95 / runs))
    assert sure / runs <= 0.01 + 3.0 * math.sqrt(0.01 * 0.99 / runs)


def test_the_size_holds_for_weights() -> None:
    runs, refused = 300, 0
    for run in range(runs):
        p, y = simulated(run, 600, mean=-1.0)
        weight = np.random.default_rng(run).exponential(1.0, p.size)
        refused += calibration_test(ScoreTable.from_events(p, y, weight)).p_value <= 0.05
    assert abs(refused / runs - 0.05) <= 0.03


@pytest.mark.parametrize(
    ("of", "least"),
    [
        ({"slope": 1.4}, 0.95),
        ({"slope": 1.4, "mean": -3.0}, 0.9),
        ({"offset": 0.3}, 0.95),
        ({"offset": 0.5, "mean": -4.0}, 0.7),
    ],
)
def test_faults_of_shape_and_of_the_prior_are_seen(of: dict[str, float], least: float) -> None:
    runs = 60
    assert np.mean([calibration_test(window(run, 2000, **of)).p_value <= 0.05 for run in range(runs)]) >= least


def test_a_fault_that_has_neither_offset_nor_slope_is_seen() -> None:
    """Residuals that change their sign every quarter of the events, alike on both sides."""
    runs, refused = 40, np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng(run)
        z = rng.normal(0.0, 1.2, 3000)
        p, ranks = expit(z), np.argsort(np.argsort(z)) / z.size
        y = rng.random(z.size) < expit(z + 0.5 * np.sign(np.cos(4.0 * math.pi * ranks)))
        found = calibration_test(GridTable.from_events(p, y).to_scores())
        refused += [found.p_value <= 0.05, found.cox <= 0.05]
    assert refused[0] / runs >= 0.9
    assert refused[1] / runs <= 0.5


def test_it_is_deterministic_and_says_what_its_parts_say() -> None:
    table = window(1, 3000, slope=1.1)
    found = calibration_test(table)
    assert found == calibration_test(table)
    assert found == calibration_test(table, fit=fit_cox(table))
    assert found.ranks != calibration_test(table, seed=5).ranks
    three = cauchy_combination([found.kernel, found.ranks, found.cox])
    assert found.p_value == min(1.0, three / 0.9, found.contradictions / 0.1)
    assert found.contradictions == contradictions(table).p_value
    assert found.kernel == kernel_p_value(table)
    assert found.cox == fit_cox(table).p_value
    # Each group of rows is drawn as one, however many rows there are.
    assert calibration_test(window(2, 20_000, slope=1.5), draws=19).ranks == 1 / 20


def test_sure_predictions_that_are_right_or_wrong() -> None:
    assert calibration_test(ScoreTable.from_events([0.0, 1.0] * 20, [0, 1] * 20)).p_value > 0.5
    assert calibration_test(ScoreTable.from_events([0.0, 1.0] * 20, [0, 0] * 20)).p_value < 1e-9


def test_refusals() -> None:
    with pytest.raises(NotEnoughData, match="a test of calibration needs at least 1 event, got 0"):
        calibration_test(ScoreTable.from_events([], []))
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 5"):
        calibration_test(ScoreTable.from_events([0.5], [1]), draws=5)


scores = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=12)


@given(scores, st.sampled_from([0.4, 1.0]))
def test_the_moments_are_the_loops(score: list[float], bandwidth: float) -> None:
    n = len(score)
    moments = kce_null_moments(ScoreTable.from_events(score, [0] * n), bandwidth=bandwidth)
    kernel = np.exp(-np.abs(np.subtract.outer(score, score)) / bandwidth)
    variance = [p * (1.0 - p) for p in score]
    pairs = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                pairs += variance[i] * variance[j] * kernel[i, j] ** 2
    assert moments.mean == pytest.approx(sum(variance) / n**2, rel=1e-12)
    assert moments.unbiased_variance == pytest.approx(2.0 * pairs / (n * (n - 1)) ** 2, rel=1e-9, abs=1e-15)
    assert moments.variance == pytest.approx(variance_by_loops(score, kernel) / n**4, rel=1e-9, abs=1e-15)
    assert moments.third_cumulant == pytest.approx(third_cumulant_by_loops(score, kernel) / n**6, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_the_moments_are_those_of_all_outcomes_there_can_be(scale) -> None:  # type: ignore[no-untyped-def]
    p = np.array([0.05, 0.2, 0.2, 0.55, 0.9, 0.93, 0.3])
    squares, unbiased, share = [], [], []
    for k in range(1 << p.size):
        y = (k >> np.arange(p.size)) & 1
        table = ScoreTable.from_events(p, y)
        squares.append(kce(table, scale=scale) ** 2)
        unbiased.append(kce(table, scale=scale, unbiased=True))
        share.append(np.where(y == 1, p, 1.0 - p).prod())
    moments = kce_null_moments(table, scale=scale)
    mean = np.average(squares, weights=share)
    assert moments.mean == pytest.approx(mean, rel=1e-12)
    assert moments.variance == pytest.approx(np.average((squares - mean) ** 2, weights=share), rel=1e-10)
    assert moments.third_cumulant == pytest.approx(np.average((squares - mean) ** 3, weights=share), rel=1e-9)
    assert np.average(unbiased, weights=share) == pytest.approx(0.0, abs=1e-15)
    assert moments.unbiased_variance == pytest.approx(np.average(np.square(unbiased), weights=share), rel=1e-10)


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize(("a", "b", "n"), [(2.0, 2.0, 200), (1.0, 20.0, 1000)])
def test_a_calibrated_model_is_refused_in_one_case_of_twenty(scale, a: float, b: float, n: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(1500):
        p = rng.beta(a, b, n)
        refused += kce_p_value(ScoreTable.from_events(p, rng.random(n) < p), scale=scale) <= 0.05
    assert 0.03 <= refused / 1500 <= 0.07


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize(("n", "mean_logit"), [(200, 0.0), (1000, -5.0), (20, -2.0)])
def test_the_tail_is_no_surer_than_it_should_be(scale, n: int, mean_logit: float) -> None:  # type: ignore[no-untyped-def]
    """A Gamma law without the third cumulant refuses .001 three to five times as often on logits."""
    draws = 40_000
    rng = np.random.default_rng(21)
    p = np.sort(expit(rng.normal(mean_logit, 1.2, n)))
    moments = kce_null_moments(ScoreTable.from_events(p, np.zeros(n)), scale=scale)
    location = p if scale == "probability" else logit(p)
    squares = np.concatenate(
        [laplace_quadratic_forms(location, (rng.random((2000, n)) < p) - p, 1.0) for _ in range(draws // 2000)]
    )
    squares /= n**2
    spread = math.sqrt(moments.variance)
    for level in (0.05, 0.01, 0.001):
        critical = brentq(
            lambda square, level=level: (
                pearson_p_value(square, moments.mean, moments.variance, moments.third_cumulant) - level
            ),
            moments.mean - spread,
            moments.mean + 50.0 * spread,
        )
        refused = float(np.mean(squares >= critical)) / level
        # Of a handful of positives, kCE takes few values, and misses the level by the weight of one.
        assert abs(refused - 1.0) <= 0.45 + 3.0 / math.sqrt(draws * level)


@pytest.mark.parametrize("third_cumulant", [-0.8, 0.0, 1e-9, 0.8, 4.0])
def test_the_law_has_the_moments_that_it_was_given(third_cumulant: float) -> None:
    mean, variance = 3.0, 2.0
    at = np.linspace(mean - 12.0, mean + 48.0, 3001)
    tail = np.array([pearson_p_value(value, mean, variance, third_cumulant) for value in at.tolist()])
    assert (np.diff(tail) <= 1e-12).all()
    mass, middle = -np.diff(tail), (at[1:] + at[:-1]) / 2.0
    assert mass.sum() == pytest.approx(1.0, abs=1e-9)
    assert mass @ middle == pytest.approx(mean, abs=1e-4)
    assert mass @ (middle - mean) ** 2 == pytest.approx(variance, rel=1e-3)
    assert mass @ (middle - mean) ** 3 == pytest.approx(third_cumulant, abs=1e-2)


def test_far_out_the_tail_keeps_its_digits() -> None:
    # A Gamma law of shape 2 and scale 1, whose tail is (1 + x) exp(-x).
    assert pearson_p_value(60.0, 2.0, 2.0, 4.0) == pytest.approx(61.0 * math.exp(-60.0), rel=1e-9)
    assert pearson_p_value(-1.0, 2.0, 2.0, 4.0) == 1.0


def test_many_events_in_few_rows() -> None:
    """n^6 is beyond an int64, and the law that of a normal's square."""
    n = 10_000_000
    positives = n // 2 + 3000
    one = ScoreTable(
        *(np.array([each]) for each in (0.5, positives, n - positives, positives / 2, (n - positives) / 2, 0.5, 0.5))
    )
    moments = kce_null_moments(one)
    assert moments.third_cumulant / moments.variance**1.5 == pytest.approx(math.sqrt(8.0), rel=1e-5)
    # Pearson's law of that skewness is the normal's square itself.
    assert kce_p_value(one) == pytest.approx(2.0 * norm.sf(3000 / math.sqrt(n / 4)), rel=1e-2)


def test_a_model_that_is_off_is_refused_and_rare_outcomes_more_by_logits() -> None:
    rng = np.random.default_rng(12)
    refused = {"probability": 0, "logit": 0}
    for _ in range(300):
        z = rng.normal(-4.0, 1.5, 4000)
        y = rng.random(z.size) < 1.0 / (1.0 + np.exp(-z))
        table = ScoreTable.from_events(1.0 / (1.0 + np.exp(-(1.25 * z + 0.8))), y)
        for scale in refused:
            refused[scale] += kce_p_value(table, scale=scale) <= 0.05  # type: ignore[arg-type]
    assert refused["logit"] > refused["probability"] + 30


def test_the_p_value_is_that_of_resampling() -> None:
    rng = np.random.default_rng(4)
    for slope in (1.0, 1.15):
        q = rng.beta(2.0, 3.0, 2000)
        p = 1.0 / (1.0 + ((1.0 - q) / q) ** slope)
        table = GridTable.from_events(p, (rng.random(q.size) < q).astype(np.int64)).to_scores()
        drawn = null_level(table, [MEASURES["kce"]], draws=1999)["kce"].p_value
        # 999 draws, of which a share near a half has a standard error of .016.
        assert kce_p_value(table) == pytest.approx(drawn, abs=0.05)


def test_outcomes_that_are_certain() -> None:
    assert kce_p_value(ScoreTable.from_events([0.0, 1.0, 1.0], [0, 1, 1])) == 1.0
    assert kce_p_value(ScoreTable.from_events([0.0, 1.0, 1.0], [0, 1, 0])) == 0.0
    # Of a single 1/2 the square of the residual is 1/4 whatever comes.
    assert kce_p_value(ScoreTable.from_events([0.5], [1])) == 1.0
    assert np.isnan(kce_null_moments(ScoreTable.from_events([0.5], [1])).unbiased_variance)


def test_what_cannot_be_tested_is_refused() -> None:
    table = ScoreTable.from_events([0.1, 0.2], [0, 1])
    with pytest.raises(NotEnoughData, match="the law of kCE needs at least 1 event, got 0"):
        kce_null_moments(ScoreTable.from_events([], []))
    with pytest.raises(InputError, match="needs whole counts, got a weighted table"):
        kce_p_value(ScoreTable.from_events([0.1, 0.2], [0, 1], [1.0, 2.0]))
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0, got 0"):
        kce_p_value(table, bandwidth=0)
    with pytest.raises(InputError, match="scale must be one of 'probability', 'logit', got 'log'"):
        kce_null_moments(table, scale="log")  # type: ignore[arg-type]
