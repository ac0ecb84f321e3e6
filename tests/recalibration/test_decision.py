from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.recalibration import decision
from tests.reference.naive_decision import naive_rejection_ratio, naive_reward


def reward(p: Any, y: Any, ratio: float, *, weight: Any = None) -> float:
    return decision.reward(np.asarray(p), np.asarray(y), np.ones(len(y)) if weight is None else weight, ratio)


def prediction_rejection_ratio(p: Any, y: Any, *, weight: Any = None) -> float | None:
    return decision.prediction_rejection_ratio(
        np.asarray(p), np.asarray(y), np.ones(len(y)) if weight is None else weight
    )


def drawn(seed: int, n: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    if ties:
        p = np.round(p, 1)
    return p, (rng.random(n) < p).astype(np.int64), rng.exponential(1.0, n)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), ratio=st.floats(1.01, 100.0), ties=st.booleans())
def test_a_reward_is_the_sum_over_events(seed: int, n: int, ratio: float, ties: bool) -> None:
    p, y, w = drawn(seed, n, ties=ties)
    assert reward(p, y, ratio, weight=w) == pytest.approx(naive_reward(p, y, ratio, w))
    vectors = np.stack([1.0 - p, p], axis=1)
    if not (p == 0.5).any():
        assert reward(vectors, y, ratio) == pytest.approx(naive_reward(p, y, ratio, np.ones(n)))


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), weighted=st.booleans())
def test_a_rejection_ratio_is_that_of_the_curve_step_by_step(seed: int, n: int, weighted: bool) -> None:
    p, y, w = drawn(seed, n, ties=False)
    found = prediction_rejection_ratio(p, y, weight=w if weighted else None)
    expected = naive_rejection_ratio(p, y, w if weighted else np.ones(n))
    assert found == (None if expected is None else pytest.approx(expected))


def test_equal_confidences_are_rejected_in_a_random_order() -> None:
    p, y, _ = drawn(3, 60, ties=True)
    p[p == 0.5] = 0.6  # about 0.5, the answer itself would change
    rng = np.random.default_rng(4)
    shuffled = [
        naive_rejection_ratio(np.clip(p + 1e-9 * rng.normal(size=60), 0.0, 1.0), y, np.ones(60)) for _ in range(400)
    ]
    assert prediction_rejection_ratio(p, y) == pytest.approx(np.mean([each for each in shuffled if each]), abs=0.02)


def test_an_oracle_has_1_and_one_confidence_for_all_has_0() -> None:
    y = np.array([1, 0, 1, 1, 0, 0])
    assert prediction_rejection_ratio([0.9, 0.6, 0.95, 0.9, 0.1, 0.2], y) == pytest.approx(1.0)
    assert prediction_rejection_ratio([0.7] * 6, y) == pytest.approx(0.0)
    assert prediction_rejection_ratio(y.astype(float), y) is None
    assert prediction_rejection_ratio(1.0 - y, y) is None


def test_of_many_classes_the_largest_probability_is_the_answer() -> None:
    p = [[0.9, 0.05, 0.05], [0.4, 0.35, 0.25], [0.1, 0.2, 0.7]]
    # At 3 to 1 the second is not answered; of the others, one is wrong.
    assert reward(p, [0, 0, 1], 3.0) == pytest.approx(-(1.0 + 3.0) / 3.0)


def test_for_a_calibrated_model_the_threshold_is_the_best() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(200_000)
    y = rng.random(200_000) < p
    for ratio in (2.0, 5.0, 20.0):
        at_best = reward(p, y, ratio)
        for sharper in (0.7, 1.4):  # answers too seldom, or too often
            z = sharper * np.log(p / (1.0 - p))
            assert reward(1.0 / (1.0 + np.exp(-z)), y, ratio) <= at_best + 1e-12
