from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.beta import Beta
from monitor.maps.platt import Platt
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events
from tests.reference.naive_maps import beta_map, least, mean_log_loss


def fitted(events: LabelledEvents, **options: Any) -> Beta:
    found = fit_map(METHODS["beta"], events, options)
    assert isinstance(found, Beta)
    return found


def drawn(n: int, *, a: float = 0.8, b: float = 1.6, c: float = -0.3, seed: int = 1) -> LabelledEvents:
    """Outcomes that follow a beta map of the predictions."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.005, 0.995, n)
    truth = beta_map(a, b, c, p.tolist())
    return LabelledEvents.of(p, rng.random(n) < truth, weight=rng.choice([1.0, 3.0], n))


def betacal(events: LabelledEvents, form: str) -> tuple[float, float, float]:
    """As published: logistic regression without penalty on ln p and -ln(1 - p), with the weights."""
    p, y, w = events.prediction, events.outcome, events.weight

    def regression(x: Any, intercept: bool) -> LogisticRegression:
        return LogisticRegression(C=np.inf, tol=1e-11, max_iter=5000, fit_intercept=intercept).fit(x, y, w)

    if form == "am":
        peer = regression(np.log(p / (1.0 - p))[:, None], True)
        return peer.coef_[0, 0], peer.coef_[0, 0], peer.intercept_[0]
    if form == "ab":
        peer = regression(np.column_stack([np.log(2.0 * p), -np.log(2.0 * (1.0 - p))]), False)
        a, b = peer.coef_[0]
        return a, b, (a - b) * np.log(2.0)
    peer = regression(np.column_stack([np.log(p), -np.log(1.0 - p)]), True)
    return *peer.coef_[0], peer.intercept_[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_the_beta_map_of_the_least_log_loss(seed: int) -> None:
    events = drawn(200, seed=seed)
    p, y, w = events.prediction.tolist(), events.outcome.tolist(), events.weight.tolist()
    a, b, c = least(lambda theta: mean_log_loss(beta_map(theta[0], theta[1], theta[2], p), y, w), [1.0, 1.0, 0.0])
    found = fitted(events)
    np.testing.assert_allclose([found.a, found.b, found.c], [a, b, c], atol=1e-5)
    np.testing.assert_allclose(apply_map(found, p), beta_map(a, b, c, p), atol=1e-6)


@pytest.mark.parametrize("form", ["abm", "am", "ab"])
def test_it_equals_the_authors_recipe(form: str) -> None:
    events = drawn(3_000)
    found = fitted(events, parameters=form)
    np.testing.assert_allclose([found.a, found.b, found.c], betacal(events, form), atol=2e-5)
    p = events.prediction[:200].tolist()
    np.testing.assert_allclose(apply_map(found, p), beta_map(found.a, found.b, found.c, p), rtol=1e-9)


def test_it_finds_the_parameters_that_the_outcomes_follow() -> None:
    found = fitted(drawn(100_000))
    np.testing.assert_allclose([found.a, found.b, found.c], [0.8, 1.6, -0.3], atol=0.06)


def test_with_equal_slopes_it_is_platt_scaling() -> None:
    events = drawn(500)
    found, line = fitted(events, parameters="am"), fit_map(METHODS["platt"], events)
    assert isinstance(line, Platt)
    assert found.a == found.b
    np.testing.assert_allclose([found.a, found.c], [line.slope, line.intercept], atol=1e-10)


def test_with_two_slopes_a_half_stays() -> None:
    assert apply_map(fitted(drawn(500), parameters="ab"), [0.5])[0] == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slope_that_would_fall_is_0_and_the_other_the_best_beside_it(seed: int) -> None:
    # Low predictions say the opposite, high ones the truth.
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.001, 0.999, 3_000)
    events = LabelledEvents.of(p, rng.random(3_000) < 1.0 / (1.0 + np.exp(0.6 * np.log(p) + np.log1p(-p))))
    found = fitted(events)
    assert found.a == 0.0
    peer = LogisticRegression(C=np.inf, tol=1e-11, max_iter=5000).fit(
        -np.log1p(-events.prediction)[:, None], events.outcome
    )
    assert found.b == pytest.approx(peer.coef_[0, 0], abs=1e-5)
    assert found.c == pytest.approx(peer.intercept_[0], abs=1e-5)


def test_limits_are_told() -> None:
    p = np.r_[np.linspace(0.1, 0.3, 20), np.linspace(0.4, 0.9, 20)]
    parted = fitted(LabelledEvents.of(p, p > 0.35))
    assert 100.0 in {parted.a, parted.b}
    assert "at its limit" in parted.describe()
    opposite = fitted(binary_events(500, slope=-1.0))
    assert opposite.a == opposite.b == 0.0
    assert "the opposite" in opposite.describe()
    assert fitted(drawn(500)).describe().startswith("takes logit p to 0.")
