"""Draws have the laws they say they have."""

import numpy as np
import pytest
from scipy import stats

from monitor.inference.draw_loops import add_poisson_deviations, binomial_draws

DRAWS = 100_000


def fits(drawn: np.ndarray, law: stats.rv_discrete) -> bool:
    """Chi-square test of draws against a law, over the outcomes that it expects often."""
    first = int(drawn.min())
    seen = np.bincount((drawn - first).astype(np.int64))
    expected = drawn.size * law.pmf(first + np.arange(seen.size))
    often = expected > 5.0
    assert expected[often].sum() > 0.99 * drawn.size
    statistic = ((seen[often] - expected[often]) ** 2 / expected[often]).sum()
    return bool(stats.chi2.sf(statistic, often.sum() - 1) > 1e-4)


@pytest.mark.parametrize(
    ("trials", "p"),
    [(1, 0.3), (5, 0.9), (100, 0.02), (100, 0.5), (100, 0.99), (3000, 0.5), (7999, 0.5), (8001, 0.5), (10**6, 0.001)],
)
def test_binomial_draws_are_binomial(trials: int, p: float) -> None:
    rng = np.random.default_rng(trials)
    drawn = binomial_draws(rng, np.array([trials]), np.array([p]), DRAWS)[:, 0]
    assert fits(drawn, stats.binom(trials, p))


@pytest.mark.parametrize("mean", [1.0, 2.5, 40.0, 3999.0, 4001.0])
def test_poisson_deviations_are_those_of_poisson(mean: float) -> None:
    result = np.zeros((DRAWS, 1))
    add_poisson_deviations(np.random.default_rng(7), np.array([mean]), np.array([2.0]), result)
    assert fits(np.rint(result[:, 0] / 2.0 + mean), stats.poisson(mean))


def test_what_is_certain_is_drawn_as_it_is() -> None:
    trials = np.array([0, 10, 10, 50_000, 10**6])
    drawn = binomial_draws(np.random.default_rng(1), trials, np.array([0.5, 0.0, 1.0, 5e-324, 1.0]), 50)
    np.testing.assert_array_equal(drawn, np.broadcast_to([0.0, 0.0, 10.0, 0.0, 10.0**6], (50, 5)))
    result = np.ones((20, 2))
    add_poisson_deviations(np.random.default_rng(1), np.zeros(2), np.ones(2), result)
    assert (result == 1.0).all()


def test_draws_stay_within_the_trials() -> None:
    rng = np.random.default_rng(2)
    trials, p = rng.integers(1, 40, 400), rng.random(400)
    drawn = binomial_draws(rng, trials, p, 199)
    assert (drawn >= 0).all()
    assert (drawn <= trials).all()
    assert (drawn == np.rint(drawn)).all()


def test_equal_seeds_give_equal_draws_and_rows_are_independent() -> None:
    trials, p = np.full(300, 20), np.full(300, 0.4)
    first, second = (binomial_draws(np.random.default_rng(3), trials, p, 300) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    correlation = np.asarray(np.corrcoef(first.T))[np.triu_indices(300, 1)]
    assert abs(correlation.mean()) < 0.002
    assert correlation.std() == pytest.approx(1 / np.sqrt(300), rel=0.05)
