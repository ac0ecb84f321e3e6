"""A batch and what serves: a map, or none."""

import numpy as np
import pytest

from monitor.errors import InputError
from monitor.maps import METHODS, RecalibrationMap, apply_map, apply_serving_map, fit_map
from monitor.scores.labelled import LabelledEvents

P = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def local() -> RecalibrationMap:
    """One that needs two features."""
    draw = np.random.default_rng(3)
    p = draw.random(2000)
    events = LabelledEvents.of(
        p, (draw.random(2000) < p).astype(int), time_ms=np.arange(2000), features=draw.normal(size=(2000, 2))
    )
    return fit_map(METHODS["lore"], events)


def test_the_map_that_serves_is_applied_or_predictions_are_as_they_are(local: RecalibrationMap) -> None:
    features = np.zeros((3, 2))
    found = apply_serving_map(local, P, features=features, name="map rc_1")
    assert found.tolist() == apply_map(local, P, features=features).tolist() != P
    assert apply_serving_map(None, P, features=features, name="").tolist() == P
    assert apply_serving_map(None, [[0.2, 0.8]], name="").tolist() == [[0.2, 0.8]]


@pytest.mark.parametrize("features", [None, [], np.empty((0, 7))])
def test_no_event_is_no_fault_whatever_serves(local: RecalibrationMap, features: object) -> None:
    for serving in (None, local):
        assert apply_serving_map(serving, [], features=features, segments={"region": []}, name="").tolist() == []  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [["x"], [0.5, [0.2, 0.8]], [10**400], [None, object()]])
def test_what_is_no_number_is_told_in_plain_words(local: RecalibrationMap, wrong: list[object]) -> None:
    for serving in (None, local):
        with pytest.raises(InputError, match=r"^p must be numbers, or lists"):
            apply_serving_map(serving, wrong, name="map rc_1")  # type: ignore[arg-type]


def test_errors_of_a_map_name_it_and_others_do_not(local: RecalibrationMap) -> None:
    with pytest.raises(InputError, match=r"^map rc_1 of model churn: the map needs 2 features an event"):
        apply_serving_map(local, P, name="map rc_1 of model churn")
    with pytest.raises(InputError, match=r"^map rc_1 of model churn: features must be numbers"):
        apply_serving_map(local, [], features=[[1.0, 2.0], [1.0]], name="map rc_1 of model churn")
    with pytest.raises(InputError, match=r"^prediction"):
        apply_serving_map(None, [2.0], name="map None")
