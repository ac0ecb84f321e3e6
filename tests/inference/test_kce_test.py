"""The law of kCE under calibration against loops and draws, and the size and power of its test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError, NotEnoughData
from monitor.inference import kce_gamma_p_value, kce_null_moments, null_level
from monitor.measures import MEASURES, kce
from monitor.scores import GridTable, ScoreTable

scores = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=12)


@given(scores, st.sampled_from([0.4, 1.0]))
def test_the_moments_are_the_double_loops(score: list[float], bandwidth: float) -> None:
    n = len(score)
    moments = kce_null_moments(ScoreTable.from_events(score, [0] * n), bandwidth=bandwidth)
    variance = [p * (1.0 - p) for p in score]
    pairs = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                pairs += variance[i] * variance[j] * np.exp(-2.0 * abs(score[i] - score[j]) / bandwidth)
    diagonal = 0.0
    for p, v in zip(score, variance, strict=True):
        # The variance of the squared residual: (1 - p)^2 with probability p, p^2 with probability 1 - p.
        diagonal += p * (1.0 - p) ** 4 + (1.0 - p) * p**4 - v**2
    assert moments.mean == pytest.approx(sum(variance) / n**2, rel=1e-12)
    assert moments.unbiased_variance == pytest.approx(2.0 * pairs / (n * (n - 1)) ** 2, rel=1e-9, abs=1e-15)
    assert moments.variance == pytest.approx((2.0 * pairs + diagonal) / n**4, rel=1e-9, abs=1e-15)


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
    assert np.average(unbiased, weights=share) == pytest.approx(0.0, abs=1e-15)
    assert moments.unbiased_variance == pytest.approx(np.average(np.square(unbiased), weights=share), rel=1e-10)


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize(("a", "b", "n"), [(2.0, 2.0, 200), (1.0, 20.0, 1000)])
def test_a_calibrated_model_is_refused_in_one_case_of_twenty(scale, a: float, b: float, n: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(1500):
        p = rng.beta(a, b, n)
        refused += kce_gamma_p_value(ScoreTable.from_events(p, rng.random(n) < p), scale=scale) <= 0.05
    assert 0.03 <= refused / 1500 <= 0.07


def test_a_model_that_is_off_is_refused_and_rare_outcomes_more_by_logits() -> None:
    rng = np.random.default_rng(12)
    refused = {"probability": 0, "logit": 0}
    for _ in range(300):
        z = rng.normal(-4.0, 1.5, 4000)
        y = rng.random(z.size) < 1.0 / (1.0 + np.exp(-z))
        table = ScoreTable.from_events(1.0 / (1.0 + np.exp(-(1.25 * z + 0.8))), y)
        for scale in refused:
            refused[scale] += kce_gamma_p_value(table, scale=scale) <= 0.05  # type: ignore[arg-type]
    assert refused["logit"] > refused["probability"] + 30


def test_the_p_value_is_that_of_resampling() -> None:
    rng = np.random.default_rng(4)
    for slope in (1.0, 1.15):
        q = rng.beta(2.0, 3.0, 2000)
        p = 1.0 / (1.0 + ((1.0 - q) / q) ** slope)
        table = GridTable.from_events(p, (rng.random(q.size) < q).astype(np.int64)).to_scores()
        drawn = null_level(table, [MEASURES["kce"]], draws=1999)["kce"].p_value
        assert kce_gamma_p_value(table) == pytest.approx(drawn, abs=0.03)


def test_outcomes_that_are_certain() -> None:
    assert kce_gamma_p_value(ScoreTable.from_events([0.0, 1.0, 1.0], [0, 1, 1])) == 1.0
    assert kce_gamma_p_value(ScoreTable.from_events([0.0, 1.0, 1.0], [0, 1, 0])) == 0.0
    # Of a single 1/2 the square of the residual is 1/4 whatever comes.
    assert kce_gamma_p_value(ScoreTable.from_events([0.5], [1])) == 1.0
    assert np.isnan(kce_null_moments(ScoreTable.from_events([0.5], [1])).unbiased_variance)


def test_what_cannot_be_tested_is_refused() -> None:
    table = ScoreTable.from_events([0.1, 0.2], [0, 1])
    with pytest.raises(NotEnoughData, match="the law of kCE needs at least 1 event, got 0"):
        kce_null_moments(ScoreTable.from_events([], []))
    with pytest.raises(InputError, match="needs whole counts, got a weighted table"):
        kce_gamma_p_value(ScoreTable.from_events([0.1, 0.2], [0, 1], [1.0, 2.0]))
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0, got 0"):
        kce_gamma_p_value(table, bandwidth=0)
    with pytest.raises(InputError, match="scale must be one of 'probability', 'logit', got 'log'"):
        kce_null_moments(table, scale="log")  # type: ignore[arg-type]
