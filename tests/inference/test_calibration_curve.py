"""The calibration curve that outcomes are drawn at."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from monitor.inference import smoothed_rates
from monitor.inference.calibration_curve import _spline, shrunken_rates
from monitor.scores import GridTable, ScoreTable

Floats = NDArray[np.float64]


def drawn(rng: np.random.Generator, n: int, slope: float, offset: float) -> tuple[Floats, Floats, Floats]:
    z = rng.normal(0.0, 1.5, n)
    q = expit(slope * z + offset)
    return expit(z), q, (rng.random(n) < q).astype(np.float64)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.5, 0.0), (1.0, 1.0)])
def test_the_true_rates_are_found(slope: float, offset: float) -> None:
    p, q, y = drawn(np.random.default_rng(1), 20_000, slope, offset)
    order = np.argsort(p)
    rate = smoothed_rates(ScoreTable.from_events(p, y))
    assert np.abs(rate - q[order]).mean() < 0.01


def test_what_no_line_can_say_is_found() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(20_000)
    q = np.clip(p + 0.15 * np.sin(2 * np.pi * p), 0.0, 1.0)
    rate = smoothed_rates(GridTable.from_events(p, rng.random(p.size) < q).to_scores())
    assert rate.size < p.size
    nearest = np.interp(np.linspace(0.05, 0.95, 19), np.sort(p), q[np.argsort(p)])
    found = np.interp(np.linspace(0.05, 0.95, 19), GridTable.from_events(p, p < 2).to_scores().score, rate)
    assert np.abs(found - nearest).max() < 0.05


def test_it_is_the_penalised_regression_of_scikit_learn() -> None:
    p, _, y = drawn(np.random.default_rng(3), 300, 0.6, 0.4)
    table = ScoreTable.from_events(p, y)
    z = logit(table.score)
    basis, calibrated = _spline(z, table.counts)
    rate = smoothed_rates(table)
    # The same fit with almost no prior, as scikit-learn's has its centre elsewhere.
    model = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-10, max_iter=1000)
    model.fit(basis, y[np.argsort(p)])
    np.testing.assert_allclose(rate, model.predict_proba(basis)[:, 1], atol=0.01)
    np.testing.assert_allclose(basis @ calibrated, z, atol=1e-9)
    # Natural: linear beyond the outer knots.
    line = basis[:, 1]
    outside = line > np.quantile(line, 0.96)
    slopes = np.diff(basis[outside, 2]) / np.diff(line[outside])
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)


def test_the_shape_survives_rescaled_weights() -> None:
    p, _, y = drawn(np.random.default_rng(4), 200, 1.0, 0.0)
    plain = smoothed_rates(ScoreTable.from_events(p, y))
    np.testing.assert_allclose(smoothed_rates(ScoreTable.from_events(p, y, np.full(200, 40.0))), plain, rtol=1e-6)


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.3], [1]),
        ([0.3, 0.3, 0.3], [0, 0, 1]),
        ([0.2, 0.7], [0, 1]),
        ([0.01] * 50 + [0.02] * 50, [0] * 100),
        ([0.9] * 30 + [0.95] * 30, [1] * 60),
        ([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]),
        ([0.0, 0.5, 1.0], [1, 1, 0]),
        (np.linspace(0.0, 1.0, 41), np.linspace(0.0, 1.0, 41) > 0.5),
        ([1e-300, 5e-324, 1.0 - 2.0**-53], [0, 1, 0]),
    ],
)
def test_the_rates_are_rates_whatever_the_outcomes(p: list[float], y: list[int]) -> None:
    table = ScoreTable.from_events(p, y)
    rate = smoothed_rates(table)
    assert rate.shape == (table.rows,)
    assert ((rate >= 0.0) & (rate <= 1.0)).all()
    sure = ((table.score == 0.0) & (table.positives == 0.0)) | ((table.score == 1.0) & (table.negatives == 0.0))
    np.testing.assert_array_equal(rate[sure], table.score[sure])
    assert ((rate[~sure] > 0.0) & (rate[~sure] < 1.0)).all()


# --- Shrunken towards the predictions ---


def drawn_table(seed: int, n: int, offset: float, weights: bool = False) -> ScoreTable:
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, n)
    weight = rng.exponential(1.0, n) if weights else None
    return ScoreTable.from_events(expit(z + offset), rng.random(n) < expit(z), weight)


@pytest.mark.parametrize("weights", [False, True])
def test_of_a_calibrated_model_they_are_mostly_the_predictions(weights: bool) -> None:
    tables = [drawn_table(seed, 400, 0.0, weights) for seed in range(60)]
    same = [np.array_equal(shrunken_rates(table), table.score) for table in tables]
    # An error is believed in one case of twenty at most; three standard errors of 60.
    assert np.mean(same) >= 0.95 - 3.0 * 0.028


def test_an_error_that_is_clear_is_believed_nearly_whole() -> None:
    parts = []
    for seed in range(20):
        table = drawn_table(seed, 5_000, 0.5)
        part = (logit(shrunken_rates(table)) - logit(table.score)) / (logit(smoothed_rates(table)) - logit(table.score))
        assert (part < 1.0).all()
        parts.append(np.median(part))
    # A curve that is right is refuted, too, in a tenth of the cases.
    assert np.mean(np.array(parts) > 0.9) >= 0.9 - 3.0 * 0.067


def test_between_the_predictions_and_the_curve_the_part_is_that_of_the_docstring() -> None:
    table = drawn_table(4, 500, 0.5)
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
    np.testing.assert_allclose(shrunken_rates(table), expit((1.0 - part) * logit(p) + part * logit(q)), rtol=1e-4)


def test_a_curve_that_the_outcomes_refute_is_not_believed() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(8_000)
    wave = np.clip(p + 0.15 * np.sin(12 * np.pi * p), 0.0, 1.0)  # no spline of four knots
    table = ScoreTable.from_events(p, rng.random(p.size) < wave)
    np.testing.assert_array_equal(shrunken_rates(table), table.score)
    assert not np.array_equal(smoothed_rates(table), table.score)


def test_an_error_in_a_narrow_range_is_not_spread_over_all() -> None:
    rng = np.random.default_rng(7)
    p = rng.random(4_000)
    high = p > 0.9
    table = ScoreTable.from_events(p, rng.random(p.size) < np.where(high, p - 0.25, p))
    away = [np.abs(rates - table.score) for rates in (shrunken_rates(table), smoothed_rates(table))]
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
    rates = shrunken_rates(ScoreTable.from_events(p, y))
    assert ((rates >= 0.0) & (rates <= 1.0)).all()
