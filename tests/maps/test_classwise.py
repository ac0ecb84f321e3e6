import numpy as np
import pytest

from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import METHODS, apply_map, fit_map, histogram
from monitor.maps.combined import Classwise, join_parts
from monitor.maps.histogram import Histogram
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import class_events

INNER = ["platt", "beta", "isotonic", "histogram"]


def fitted(name: str, events: LabelledEvents) -> Classwise:
    found = fit_map(METHODS[f"{name}_classwise"], events)
    assert isinstance(found, Classwise)
    return found


@pytest.mark.parametrize("name", INNER)
def test_it_is_each_class_against_the_rest_divided_by_the_sum(name: str) -> None:
    events = class_events(600, slope=0.6, weighted=True)
    rows = []
    each = [
        fit_map(METHODS[name], LabelledEvents.of(events.prediction[:, k], events.outcome == k, weight=events.weight))
        for k in range(4)
    ]
    for p in events.prediction[:50]:
        values = [float(apply_map(each[k], [p[k]])[0]) for k in range(4)]
        rows.append([value / sum(values) for value in values])
    np.testing.assert_allclose(apply_map(fitted(name, events), events.prediction[:50]), rows, atol=1e-12)


@pytest.mark.parametrize("name", INNER)
def test_a_class_without_events_keeps_its_probability_before_the_division(name: str) -> None:
    events = class_events(500, classes=3, offsets=[0.0, 0.0, -50.0])
    found = fitted(name, events)
    assert found.maps[2] is None
    assert "class 2" in found.describe()
    p = events.prediction[:20]
    first, second = (one.apply(p[:, k]) for k, one in enumerate(found.maps[:2]) if one is not None)
    q = apply_map(found, p)
    np.testing.assert_allclose(q[:, 2], p[:, 2] / (p[:, 2] + first + second), rtol=1e-12)


def test_a_row_all_of_whose_classes_become_0_stays_as_it_is() -> None:
    low = Histogram(np.array([0.5]), np.array([0.0, 1.0]), np.ones(2))
    found = Classwise(histogram.METHOD, (low, low, low))
    np.testing.assert_array_equal(apply_map(found, [[0.4, 0.4, 0.2]]), [[0.4, 0.4, 0.2]])
    np.testing.assert_array_equal(apply_map(found, [[0.7, 0.2, 0.1]]), [[1.0, 0.0, 0.0]])


def test_no_class_with_enough_events_is_too_little() -> None:
    with pytest.raises(NotEnoughData, match=r"no class has enough events; .* 12 labelled events, at least 20"):
        fitted("histogram", class_events(12))


def test_maps_that_do_not_fit_are_refused() -> None:
    one = Histogram(np.array([0.5]), np.array([0.0, 1.0]), np.ones(2))
    with pytest.raises(CorruptMap, match="two classes or more, got 1"):
        Classwise.load(histogram.METHOD, join_parts({}, [one]))
    broken = join_parts({}, [one, Histogram(np.array([0.5]), np.array([0.0, 7.0]), np.ones(2))])
    with pytest.raises(CorruptMap, match="map 1 of 2: value must be finite and from 0 to 1, got 7"):
        Classwise.load(histogram.METHOD, broken)
