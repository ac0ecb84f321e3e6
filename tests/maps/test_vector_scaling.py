from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from monitor.errors import CorruptMap
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.vector_scaling import VectorScaling
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import class_events, softmax_of
from tests.reference.naive_maps import mean_log_loss_of_classes, softmax_rows


def fitted(events: LabelledEvents, **options: Any) -> VectorScaling:
    found = fit_map(METHODS["vector_scaling"], events, options)
    assert isinstance(found, VectorScaling)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_least_log_loss_with_its_ridge(seed: int) -> None:
    events = class_events(150, classes=3, slope=0.6, offsets=[0.5, 0.0, -0.5], seed=seed, weighted=True)
    z, y, w = np.log(events.prediction), events.outcome.tolist(), events.weight.tolist()

    def loss(theta: Any) -> float:
        q = softmax_rows(theta[:3] * z + theta[3:])
        return mean_log_loss_of_classes(q, y, w) + 0.02 * float(np.mean(theta[3:] ** 2))

    naive = minimize(loss, np.r_[np.ones(3), np.zeros(3)], method="BFGS", options={"gtol": 1e-8})
    found = fitted(events, ridge=0.02)
    here = np.r_[found.scale, found.bias]
    assert loss(here) <= naive.fun + 1e-12
    np.testing.assert_allclose(here, naive.x, atol=1e-4)


def test_it_finds_what_the_outcomes_follow() -> None:
    rng = np.random.default_rng(2)
    p = softmax_of(rng.normal(0.0, 1.5, (100_000, 3)))
    scale, bias = np.array([0.5, 1.0, 1.5]), np.array([0.4, 0.0, -0.4])
    truth = softmax_of(scale * np.log(p) + bias)
    found = fitted(LabelledEvents.of(p, (rng.random(100_000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)))
    np.testing.assert_allclose(found.scale, scale, atol=0.04)
    np.testing.assert_allclose(found.bias, bias, atol=0.04)


def test_with_equal_factors_and_no_offset_it_is_the_temperature() -> None:
    events = class_events(200, slope=0.7)
    p = events.prediction
    np.testing.assert_allclose(
        apply_map(VectorScaling(np.full(4, 0.7), np.zeros(4)), p), softmax_of(0.7 * np.log(p)), rtol=1e-12
    )


def test_without_a_ridge_a_class_that_never_came_true_stays_bounded() -> None:
    events = class_events(500, classes=3, offsets=[0.0, 0.0, -60.0])
    for ridge in (0.0, None):
        found = fitted(events, ridge=ridge)
        assert (np.abs(found.bias) <= 50.0).all()
        q = apply_map(found, events.prediction)
        assert (q > 0.0).all()
        assert q[:, 2].mean() < 0.02 < events.prediction[:, 2].mean()


def test_predictions_that_part_the_outcomes_stay_bounded() -> None:
    p = class_events(300, classes=3).prediction
    found = fitted(LabelledEvents.of(p, p.argmax(axis=1)))
    assert (found.scale <= 100.0).all()
    q = apply_map(found, p)
    assert (q.argmax(axis=1) == p.argmax(axis=1)).all()
    assert ((q > 0.0) & (q < 1.0)).all()
    assert "at its limit" in VectorScaling(np.array([100.0, 1.0]), np.zeros(2)).describe()


def test_a_larger_ridge_makes_smaller_offsets() -> None:
    events = class_events(500, offsets=[1.0, 0.0, 0.0, -1.0])
    sizes = [float(np.abs(fitted(events, ridge=ridge).bias).max()) for ridge in (0.0, 0.01, 0.1, 1.0, 1e6)]
    assert all(np.diff(sizes) < 0.0)
    assert sizes[-1] < 1e-4


def test_parts_of_unequal_length_are_refused() -> None:
    with pytest.raises(CorruptMap, match="equally long, got 2 and 3"):
        VectorScaling.from_parts(MapParts({}, {"scale": np.ones(2), "bias": np.zeros(3)}))
