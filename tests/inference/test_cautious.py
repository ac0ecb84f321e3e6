"""Rates that a calibration curve says for certain."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.inference.cautious import cautious_rates
from monitor.inference.smoothed import smoothed_rates
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]


def drawn(seed: int, n: int, offset: float, weights: bool = False) -> ScoreTable:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, n)
    weight = rng.exponential(1.0, n) if weights else None
    return ScoreTable.from_events(expit(z + offset), rng.random(n) < expit(z), weight)


@pytest.mark.parametrize("weights", [False, True])
def test_of_a_calibrated_model_they_are_mostly_the_predictions(weights: bool) -> None:
    tables = [drawn(seed, 400, 0.0, weights) for seed in range(60)]
    same = [np.array_equal(cautious_rates(table), table.score) for table in tables]
    # An error is believed in one case of twenty at most; three standard errors of 60.
    assert np.mean(same) >= 0.95 - 3.0 * 0.028


def test_an_error_that_is_clear_is_believed_nearly_whole() -> None:
    parts = []
    for seed in range(20):
        table = drawn(seed, 5_000, 0.5)
        part = (logit(cautious_rates(table)) - logit(table.score)) / (logit(smoothed_rates(table)) - logit(table.score))
        assert (part < 1.0).all()
        parts.append(np.median(part))
    # A curve that is right is refuted, too, in a tenth of the cases.
    assert np.mean(np.array(parts) > 0.9) >= 0.9 - 3.0 * 0.067


def test_between_the_predictions_and_the_curve_the_part_is_that_of_the_docstring() -> None:
    table = drawn(4, 500, 0.5)
    p, q = table.score, smoothed_rates(table)

    def ratio(hits: Floats, rows: NDArray[np.bool_]) -> float:
        return float(2.0 * (hits * np.log(q / p) + (1.0 - hits) * np.log((1.0 - q) / (1.0 - p)))[rows].sum())

    share = np.cumsum(q * (1.0 - q)) - q * (1.0 - q) / 2.0
    stretch = np.floor(8.0 * share / (q * (1.0 - q)).sum())
    part = np.empty(p.size)
    for number in range(8):
        rows = stretch == number
        part[rows] = np.sqrt(max(0.0, 1.0 - 9.4877 / 8 / ratio(q, rows)))
    part *= np.sqrt(1.0 - 9.4877 / ratio(table.positives, np.ones(p.size, bool)))
    assert 0.0 < part.max() < 1.0
    np.testing.assert_allclose(cautious_rates(table), expit((1.0 - part) * logit(p) + part * logit(q)), rtol=1e-4)


def test_a_curve_that_the_outcomes_refute_is_not_believed() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(8_000)
    wave = np.clip(p + 0.15 * np.sin(12 * np.pi * p), 0.0, 1.0)  # no spline of four knots
    table = ScoreTable.from_events(p, rng.random(p.size) < wave)
    np.testing.assert_array_equal(cautious_rates(table), table.score)
    assert not np.array_equal(smoothed_rates(table), table.score)


def test_an_error_in_a_narrow_range_is_not_spread_over_all() -> None:
    rng = np.random.default_rng(7)
    p = rng.random(4_000)
    high = p > 0.9
    table = ScoreTable.from_events(p, rng.random(p.size) < np.where(high, p - 0.25, p))
    away = [np.abs(rates - table.score) for rates in (cautious_rates(table), smoothed_rates(table))]
    elsewhere = table.score < 0.8
    assert away[0][elsewhere].mean() < 0.5 * away[1][elsewhere].mean()


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.3], [1]),
        ([0.2, 0.7], [0, 1]),
        ([0.01] * 100, [0] * 100),
        ([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]),
        ([0.0] * 20, [1] * 20),
        ([0.0] * 50 + [0.5] * 50 + [1.0] * 50, [1] * 50 + [0, 1] * 25 + [0] * 50),
        ([1e-300, 5e-324, 1.0 - 2.0**-53], [0, 1, 0]),
    ],
)
def test_they_are_rates_whatever_the_outcomes(p: list[float], y: list[int]) -> None:
    rates = cautious_rates(ScoreTable.from_events(p, y))
    assert ((rates >= 0.0) & (rates <= 1.0)).all()
