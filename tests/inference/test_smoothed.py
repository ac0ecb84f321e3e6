"""The smoothed calibration curve that outcomes are drawn at."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from monitor.inference import smoothed_rates
from monitor.inference.smoothed import _spline
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
