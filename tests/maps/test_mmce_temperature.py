import math
from typing import Any

import numpy as np
import pytest

from monitor.classes import mmce
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.temperature import MmceTemperature, kernel_error
from monitor.measures import kce
from monitor.scores import ClassTable, ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events, class_events
from tests.reference.naive_maps import kernel_error_by_double_sum, platt_map


def fitted(events: LabelledEvents, **options: Any) -> MmceTemperature:
    found = fit_map(METHODS["mmce_temperature"], events, options)
    assert isinstance(found, MmceTemperature)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_temperature_of_a_fine_grid_has_a_smaller_error(seed: int) -> None:
    events = binary_events(120, slope=0.5, seed=seed, weighted=True)
    p, y = events.prediction.tolist(), events.outcome

    def error(slope: float) -> float:
        q = np.array(platt_map(0.0, slope, p))
        return kernel_error_by_double_sum(q, y - q, events.weight, 0.4)

    found = fitted(events, keep=0.5)
    # Where the constraint does not stop it.
    near = np.geomspace(0.7, 1.4, 41) / found.temperature
    assert error(1.0 / found.temperature) <= min(error(slope) for slope in near) + 1e-9


def test_its_errors_are_kce_and_mmce() -> None:
    events, vectors = binary_events(300), class_events(300)
    table = ScoreTable.from_events(events.prediction, events.outcome)
    assert kernel_error(events, 1.0, 0.4) == pytest.approx(kce(table, bandwidth=0.4), rel=1e-9)
    classes = ClassTable.from_events(vectors.prediction, vectors.outcome)
    assert kernel_error(vectors, 1.0, 0.4) == pytest.approx(mmce(classes), rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_mmce_is_no_larger_than_after_the_temperature_of_log_loss(seed: int) -> None:
    events = class_events(2_000, slope=0.5, offsets=[0.6, 0.0, 0.0, -0.6], seed=seed)

    def after(name: str) -> float:
        q = apply_map(fit_map(METHODS[name], events), events.prediction)
        return mmce(ClassTable.from_events(q, events.outcome))

    assert after("mmce_temperature") <= after("temperature") + 1e-12
    assert after("mmce_temperature") < after("identity")


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_it_finds_the_temperature_that_the_logits_were_multiplied_by(slope: float) -> None:
    # With prevalence 1/2 the calibration error alone has a second minimum, at temperature infinity.
    assert fitted(binary_events(50_000, slope=slope)).temperature == pytest.approx(1.0 / slope, rel=0.1)
    assert fitted(class_events(20_000, slope=slope)).temperature == pytest.approx(1.0 / slope, rel=0.1)


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.99, 1.0])
def test_log_loss_keeps_its_share(keep: float) -> None:
    events = binary_events(400, slope=0.3, offset=0.8, seed=3)

    def log_loss(name: str, **options: Any) -> float:
        q = apply_map(fit_map(METHODS[name], events, options), events.prediction)
        return float(-np.log(np.where(events.outcome == 1, q, 1.0 - q)).mean())

    flat, best = math.log(2.0), log_loss("temperature")
    assert flat - log_loss("mmce_temperature", keep=keep) >= keep * (flat - best) - 1e-9


def test_useless_predictions_get_the_temperature_of_log_loss() -> None:
    found = fitted(binary_events(500, slope=-1.0))
    assert found.temperature == 100.0
    assert "least kernel calibration error" in found.describe()


def test_the_width_counts() -> None:
    events = binary_events(500, slope=0.5, offset=0.5)
    assert fitted(events, width=0.05).temperature != fitted(events, width=5.0).temperature
