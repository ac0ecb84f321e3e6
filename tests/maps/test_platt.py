import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from monitor.inference.cox import fit_cox
from monitor.inference.newton import fit_logistic
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.platt import Platt
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events
from tests.reference.naive_maps import least, mean_log_loss, platt_map


def fitted(events: LabelledEvents, **options: Any) -> Platt:
    found = fit_map(METHODS["platt"], events, options)
    assert isinstance(found, Platt)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_the_line_of_the_least_log_loss(seed: int) -> None:
    events = binary_events(150, slope=0.6, offset=0.7, seed=seed, weighted=True)
    p, y, w = events.prediction.tolist(), events.outcome.tolist(), events.weight.tolist()
    a, b = least(lambda theta: mean_log_loss(platt_map(theta[0], theta[1], p), y, w), [0.0, 1.0])
    found = fitted(events)
    np.testing.assert_allclose([found.intercept, found.slope], [a, b], atol=1e-6)
    np.testing.assert_allclose(apply_map(found, p), platt_map(a, b, p), atol=1e-6)


def test_it_equals_scikit_learns_logistic_regression() -> None:
    events = binary_events(3_000, slope=0.6, offset=0.7, weighted=True)
    z = logit(events.prediction)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions differ in how no penalty is spelt, and one of them warns
        peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, events.outcome, events.weight)
    found = fitted(events)
    assert found.intercept == pytest.approx(peer.intercept_[0], abs=1e-5)
    assert found.slope == pytest.approx(peer.coef_[0, 0], abs=1e-5)


@pytest.mark.parametrize("n", [30, 3_000])
def test_with_smoothing_it_equals_scikit_learns_sigmoid(n: int) -> None:
    events = binary_events(n, slope=0.6, offset=0.7, weighted=True)
    z = logit(events.prediction)
    peer = _SigmoidCalibration().fit(z, events.outcome, events.weight)
    np.testing.assert_allclose(apply_map(fitted(events, smoothing=True), events.prediction), peer.predict(z), atol=2e-5)


def test_the_values_of_libsvm() -> None:
    # Published with scikit-learn: LibSVM's A and B of 1 / (1 + exp(A f + B)) for these decisions.
    margin = np.array([5.0, -4.0, 1.0])
    target = np.array([2.0 / 3.0, 0.25, 0.25])  # Platt's, of one positive and two negatives
    free = np.full(2, np.inf)
    b, a = fit_logistic(
        np.column_stack([margin, np.ones(3)]), target, np.ones(3), start=np.zeros(2), lower=-free, upper=free
    )
    # LibSVM stops at a gradient of 1e-5.
    assert -b == pytest.approx(-0.20261354391187855, abs=1e-5)
    assert -a == pytest.approx(0.65236314980010512, abs=1e-5)


def test_it_is_the_diagnosis_line() -> None:
    events = binary_events(2_000, slope=0.6, offset=0.7)
    cox = fit_cox(ScoreTable.from_events(events.prediction, events.outcome))
    found = fitted(events)
    assert found.intercept == pytest.approx(cox.intercept)
    assert found.slope == pytest.approx(cox.slope)


@pytest.mark.parametrize("shift", [-3.0, 0.4, 2.0])
def test_a_shift_of_the_logits_moves_the_intercept_alone(shift: float) -> None:
    events = binary_events(800, slope=0.6)
    before = fitted(events)
    after = fitted(LabelledEvents.of(expit(logit(events.prediction) + shift), events.outcome))
    assert after.slope == pytest.approx(before.slope, rel=1e-8)
    assert after.intercept == pytest.approx(before.intercept - before.slope * shift, abs=1e-8)


def test_predictions_that_say_the_opposite_become_the_prevalence() -> None:
    events = binary_events(500, slope=-1.0, weighted=True)
    found = fitted(events)
    assert found.slope == 0.0
    assert "the opposite" in found.describe()
    prevalence = np.average(events.outcome, weights=events.weight)
    np.testing.assert_allclose(apply_map(found, events.prediction), prevalence, rtol=1e-9)


def test_predictions_that_part_the_outcomes_stop_at_the_limit_and_say_so() -> None:
    p = np.r_[np.linspace(0.1, 0.3, 20), np.linspace(0.4, 0.9, 20)]
    found = fitted(LabelledEvents.of(p, p > 0.35))
    assert found.slope == 100.0
    assert "at its limit" in found.describe()
    q = apply_map(found, p)
    assert (np.abs(q - (p > 0.35)) < 1e-3).all()
    smoothed = fitted(LabelledEvents.of(p, p > 0.35), smoothing=True)
    assert 0.0 < smoothed.slope < 10.0


def test_equal_predictions_become_the_prevalence() -> None:
    found = fitted(LabelledEvents.of(np.full(40, 0.2), np.arange(40) < 30))
    np.testing.assert_allclose(apply_map(found, [0.2]), [0.75], rtol=1e-9)


def test_it_says_its_numbers() -> None:
    assert Platt(-0.5, 0.75).describe() == "takes logit p to 0.75 logit p - 0.5"
