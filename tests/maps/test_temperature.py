import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import _TemperatureScaling

from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.temperature import Temperature
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events, class_events
from tests.reference.naive_maps import least, mean_log_loss, mean_log_loss_of_classes, platt_map, softmax_rows


def fitted(events: LabelledEvents) -> Temperature:
    found = fit_map(METHODS["temperature"], events)
    assert isinstance(found, Temperature)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_the_temperature_of_the_least_log_loss(seed: int) -> None:
    events = binary_events(150, slope=0.6, seed=seed, weighted=True)
    p, y, w = events.prediction.tolist(), events.outcome.tolist(), events.weight.tolist()
    (slope,) = least(lambda theta: mean_log_loss(platt_map(0.0, theta[0], p), y, w), [1.0])
    assert fitted(events).temperature == pytest.approx(1.0 / slope, rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_classes_too(seed: int) -> None:
    events = class_events(150, slope=1.7, seed=seed, weighted=True)
    z, y, w = np.log(events.prediction), events.outcome.tolist(), events.weight.tolist()
    (slope,) = least(lambda theta: mean_log_loss_of_classes(softmax_rows(theta[0] * z), y, w), [1.0])
    assert fitted(events).temperature == pytest.approx(1.0 / slope, rel=1e-6)


@pytest.mark.parametrize("classes", [3, 10])
def test_it_equals_scikit_learn(classes: int) -> None:
    events = class_events(2_000, classes=classes, slope=0.5, weighted=True)
    peer = _TemperatureScaling().fit(events.prediction, events.outcome, sample_weight=events.weight)
    found = fitted(events)
    assert 1.0 / found.temperature == pytest.approx(peer.beta_, rel=1e-6)
    np.testing.assert_allclose(apply_map(found, events.prediction), peer.predict(events.prediction), atol=1e-6)


def test_predictions_alone_and_vectors_of_two_have_one_temperature() -> None:
    events = binary_events(500, slope=0.5)
    p = events.prediction
    vectors = LabelledEvents.of(np.column_stack([1.0 - p, p]), events.outcome)
    assert fitted(vectors).temperature == pytest.approx(fitted(events).temperature, rel=1e-9)


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_it_finds_the_temperature_that_the_logits_were_multiplied_by(slope: float) -> None:
    assert fitted(binary_events(100_000, slope=slope)).temperature == pytest.approx(1.0 / slope, rel=0.02)
    assert fitted(class_events(50_000, slope=slope)).temperature == pytest.approx(1.0 / slope, rel=0.02)


def test_the_most_probable_class_stays() -> None:
    events = class_events(1_000, slope=0.4)
    after = apply_map(fitted(events), events.prediction)
    np.testing.assert_array_equal(after.argmax(axis=1), events.prediction.argmax(axis=1))


def test_predictions_that_part_the_outcomes_stop_at_the_limit_and_say_so() -> None:
    p = np.r_[np.linspace(0.1, 0.4, 20), np.linspace(0.6, 0.9, 20)]
    found = fitted(LabelledEvents.of(p, p > 0.5))
    assert found.temperature == 0.01
    assert "limit" in found.describe()
    q = apply_map(found, p)
    assert ((q > 0.0) & (q < 1.0)).all()
    vectors = fitted(LabelledEvents.of(np.column_stack([1.0 - p, p]), p > 0.5))
    assert vectors.temperature == 0.01


def test_predictions_that_say_the_opposite_stop_at_the_limit_and_say_so() -> None:
    events = binary_events(500, slope=-1.0)
    found = fitted(events)
    assert found.temperature == 100.0
    assert "the opposite" in found.describe()


def test_0_and_1_count_as_the_ends_of_the_grid() -> None:
    found = Temperature(2.0)
    np.testing.assert_allclose(apply_map(found, [0.0, 1e-30, 0.5, 1.0]), expit([-8.5, -8.5, 0.0, 8.5]), rtol=1e-12)
    rows = apply_map(Temperature(2.0, 3), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(rows[0, 1], np.exp(-8.5) / (1.0 + 2.0 * np.exp(-8.5)), rtol=1e-12)


@pytest.mark.parametrize(
    ("temperature", "said"), [(1.5, "less sure"), (0.5, "surer"), (1.0, "hardly change"), (1.0001, "hardly change")]
)
def test_it_says_what_it_does(temperature: float, said: str) -> None:
    assert said in Temperature(temperature).describe()
    assert f"{temperature:.4g}" in Temperature(temperature).describe()
