"""Contradictions of the surest predictions, and few outcomes of one kind."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from monitor.inference.rare_outcomes import ENOUGH, caution_of_few, contradictions, tail_of_few, with_contradictions
from monitor.scores import ScoreTable


@given(st.lists(st.tuples(st.sampled_from([1e-6, 0.001, 0.01, 0.3, 0.9, 0.999]), st.integers(0, 1)), min_size=1))
def test_the_p_value_is_that_of_loops(events: list[tuple[float, int]]) -> None:
    least = 1.0
    for sign in (1, -1):
        kind = 1 if sign == 1 else 0
        rates = [(p if sign == 1 else 1.0 - p, y) for p, y in events]
        hits = sorted(rate for rate, y in rates if y == kind)
        for k, at in enumerate(hits[:5], 1):
            expected = sum(rate for rate, _ in rates if rate <= at)
            least = min(least, 10.0 * expected**k / math.factorial(k))
    p, y = zip(*events, strict=True)
    found = contradictions(ScoreTable.from_events(p, y))
    assert found.p_value == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize(("n", "mean", "spread"), [(200, 0.0, 4.0), (2000, -4.0, 1.2), (1000, 0.0, 1.2)])
def test_its_level_is_not_exceeded(n: int, mean: float, spread: float) -> None:
    runs, refused = 1000, np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng(run)
        p = expit(rng.normal(mean, spread, n))
        refused += contradictions(ScoreTable.from_events(p, rng.random(n) < p)).p_value <= np.array([0.05, 0.01])
    assert refused[0] / runs <= 0.05
    assert refused[1] / runs <= 0.01 + 3.0 * math.sqrt(0.01 * 0.99 / runs)


def test_the_stretch_that_surprises_most_is_told() -> None:
    p = np.r_[np.full(5000, 1e-6), np.full(1000, 0.5)]
    y = np.r_[np.ones(3), np.zeros(4997), np.arange(1000) % 2]
    low = contradictions(ScoreTable.from_events(p, y))
    assert (low.observed, low.limit, low.positive) == (3.0, 1e-6, True)
    assert low.expected == pytest.approx(0.005)
    assert low.p_value == pytest.approx(10.0 * 0.005**3 / 6.0)
    high = contradictions(ScoreTable.from_events(1.0 - p, 1.0 - y))
    assert (high.observed, high.positive) == (3.0, False)
    assert high.p_value == pytest.approx(low.p_value, rel=1e-6)
    # Twice the log-likelihood ratio, over the information of all.
    gained = 2.0 * (3.0 * math.log(3.0 / 0.005) - 2.995)
    assert low.logit_error(250.0) == pytest.approx(math.sqrt(gained / 253.0))


def test_nothing_is_said_of_weights_and_where_nothing_surprises() -> None:
    assert contradictions(ScoreTable.from_events([0.0, 0.5], [1, 0], [1.0, 2.0])).p_value == 1.0
    assert contradictions(ScoreTable.from_events([0.5] * 20, [0, 1] * 10)).p_value == 1.0
    assert contradictions(ScoreTable.from_events([], [])).p_value == 1.0


def test_a_tenth_of_the_level_is_theirs() -> None:
    found = contradictions(ScoreTable.from_events([1e-6] * 10, [1] + [0] * 9))
    assert with_contradictions(0.5, found) == found.p_value / 0.1 == pytest.approx(1e-3)
    assert with_contradictions(9e-6, found) == pytest.approx(1e-5)
    assert with_contradictions(1.0, contradictions(ScoreTable.from_events([], []))) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_tail_is_the_sum_over_all_outcomes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.35, 0.8], 9)
    y = (rng.random(9) < 0.3).astype(int)
    for positive, few in ((True, y.sum()), (False, 9 - y.sum())):
        tail = 0.0
        for drawn in product([0, 1], repeat=9):
            if (sum(drawn) if positive else 9 - sum(drawn)) <= few:
                tail += float(np.prod([q if hit else 1.0 - q for q, hit in zip(p, drawn, strict=True)]))
        assert tail_of_few(ScoreTable.from_events(p, y), positive=positive) == pytest.approx(tail)


def test_equal_predictions_have_the_binomial_tail_and_the_sure_are_sure() -> None:
    table = ScoreTable.from_events([0.2] * 100, [1] * 4 + [0] * 96)
    assert tail_of_few(table, positive=True) == pytest.approx(binom.cdf(4, 100, 0.2))
    assert tail_of_few(ScoreTable.from_events([0.5] * 400, [1] * 400), positive=False) == pytest.approx(0.5**400)
    assert tail_of_few(ScoreTable.from_events([0.5, 1.0], [0, 0]), positive=True) == 0.0
    assert tail_of_few(ScoreTable.from_events([], []), positive=True) == 1.0


def test_few_outcomes_of_either_kind_are_cautioned_about_and_enough_are_not() -> None:
    assert caution_of_few(ENOUGH, 4_000) == caution_of_few(4_000, ENOUGH) == ""
    assert caution_of_few(7, 493).startswith("With only 7 positives, read intervals of TCE")
    assert caution_of_few(493, ENOUGH - 0.5).startswith("With only 19.5 negatives")
