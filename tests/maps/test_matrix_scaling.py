from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.vector_scaling import MatrixScaling
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import class_events, softmax_of
from tests.reference.naive_maps import mean_log_loss_of_classes, softmax_rows


def fitted(events: LabelledEvents, **options: Any) -> MatrixScaling:
    found = fit_map(METHODS["matrix_scaling"], events, options)
    assert isinstance(found, MatrixScaling)
    return found


def confused(n: int, seed: int = 1) -> LabelledEvents:
    """Of four classes, of which the first two are taken for one another."""
    rng = np.random.default_rng(seed)
    p = softmax_of(rng.normal(0.0, 1.5, (n, 4)))
    mixing = np.eye(4)
    mixing[0, 1] = mixing[1, 0] = 0.6
    truth = softmax_of(np.log(p) @ mixing.T)
    return LabelledEvents.of(p, np.minimum((rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1), 3))


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_least_log_loss_with_its_ridge(seed: int) -> None:
    events = class_events(150, classes=3, slope=0.6, offsets=[0.5, 0.0, -0.5], seed=seed, weighted=True)
    z, y, w = np.log(events.prediction), events.outcome.tolist(), events.weight.tolist()

    def loss(theta: Any) -> float:
        weight, bias = theta[:9].reshape(3, 3), theta[9:]
        off = weight[~np.eye(3, dtype=bool)]
        ridge = 0.02 * float(np.mean(off**2)) + 0.02 * float(np.mean(bias**2))
        return mean_log_loss_of_classes(softmax_rows(z @ weight.T + bias), y, w) + ridge

    naive = minimize(loss, np.r_[np.eye(3).ravel(), np.zeros(3)], method="BFGS", options={"gtol": 1e-7})
    found = fitted(events, ridge=0.02)
    here = np.r_[found.weight.ravel(), found.bias]
    assert loss(here) <= naive.fun + 1e-11
    np.testing.assert_allclose(here, naive.x, atol=1e-4)


def test_without_a_ridge_it_equals_scikit_learns_multinomial_regression() -> None:
    # Of whose coefficients only differences between classes matter: the probabilities are what compares.
    events = confused(3_000)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(np.log(events.prediction), events.outcome)
    found = apply_map(fitted(events, ridge=0.0), events.prediction)
    np.testing.assert_allclose(found, peer.predict_proba(np.log(events.prediction)), atol=1e-4)


def test_it_repairs_classes_that_are_taken_for_one_another_as_vector_scaling_cannot() -> None:
    events, later = confused(5_000), confused(5_000, seed=2)

    def later_loss(name: str) -> float:
        q = apply_map(fit_map(METHODS[name], events), later.prediction)
        return float(-np.log(q[np.arange(len(later)), later.outcome]).mean())

    assert later_loss("matrix_scaling") < later_loss("vector_scaling") - 0.02


def test_with_a_large_ridge_it_is_vector_scaling_without_offsets() -> None:
    events = class_events(1_000, slope=0.6)
    matrix = apply_map(fitted(events, ridge=1e6), events.prediction)
    vector = apply_map(fit_map(METHODS["vector_scaling"], events, {"ridge": 1e6}), events.prediction)
    np.testing.assert_allclose(matrix, vector, atol=1e-5)


def test_fewer_events_than_numbers_are_too_little() -> None:
    with pytest.raises(NotEnoughData, match="109 labelled events, at least 110 are needed"):
        fitted(class_events(109, classes=10))


def test_many_classes_are_fitted() -> None:
    events = class_events(2_000, classes=20, slope=0.6)
    q = apply_map(fitted(events), events.prediction)
    before, after = (np.log(p[np.arange(2_000), events.outcome]).mean() for p in (events.prediction, q))
    assert after > before


def test_predictions_that_part_the_outcomes_stay_bounded() -> None:
    p = class_events(300, classes=3).prediction
    for ridge in (0.0, None):
        found = fitted(LabelledEvents.of(p, p.argmax(axis=1)), ridge=ridge)
        assert (np.abs(found.weight) <= 100.0).all()
        q = apply_map(found, p)
        assert ((q > 0.0) & (q < 1.0)).all()
    assert "at its limit" in MatrixScaling(100.0 * np.eye(2), np.zeros(2)).describe()


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(CorruptMap, match=r"weight must have the shape \(3, 3\), got \(2, 2\)"):
        MatrixScaling.from_parts(MapParts({}, {"weight": np.eye(2), "bias": np.zeros(3)}))
