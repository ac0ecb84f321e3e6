from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import CorruptMap, InputError
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.histogram import Histogram
from monitor.measures import ece
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.long import examples
from tests.maps.drawn import any_binary, binary_events
from tests.reference.naive_maps import histogram_by_loops


def fitted(events: LabelledEvents, **options: Any) -> Histogram:
    found = fit_map(METHODS["histogram"], events, options)
    assert isinstance(found, Histogram)
    return found


@given(
    any_binary(),
    st.sampled_from([1, 2, 7, 15]),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.sampled_from(["equal_width", "quantile"]),
)
@examples(20, 60)
def test_it_is_the_frequency_of_each_bin(events: LabelledEvents, bins: int, shrinkage: float, kind: str) -> None:
    found = fitted(events, bins=bins, shrinkage=shrinkage, kind=kind)
    naive = histogram_by_loops(
        events.prediction.tolist(), events.outcome.tolist(), events.weight.tolist(), found.edges.tolist(), shrinkage
    )
    p = [*events.prediction.tolist(), 0.0, 1.0, 0.3, *found.edges.tolist()]
    np.testing.assert_allclose(apply_map(found, p), [naive(each) for each in p], atol=1e-12)


def test_bins_are_closed_on_the_left_and_the_last_on_the_right_too() -> None:
    p = np.repeat([0.0, 0.5, 1.0], 10)
    found = fitted(LabelledEvents.of(p, np.r_[np.arange(20) % 10 < 2, np.ones(10)]), bins=2, shrinkage=0.0)
    np.testing.assert_allclose(apply_map(found, [0.0, 0.499, 0.5, 1.0]), [0.2, 0.2, 0.6, 0.6], rtol=1e-12)


def test_a_bin_without_events_leaves_predictions_as_they_are() -> None:
    p = np.repeat([0.05, 0.95], 10)
    found = fitted(LabelledEvents.of(p, np.arange(20) % 2), bins=10)
    np.testing.assert_array_equal(apply_map(found, [0.33, 0.5, 0.77]), [0.33, 0.5, 0.77])
    assert "in 8 without events" in found.describe()


def test_bins_of_equal_mass_hold_equally_many() -> None:
    events = binary_events(3_000)
    found = fitted(events, kind="quantile", bins=15)
    np.testing.assert_array_equal(found.weight, 200.0)
    assert found.edges.size == 14


def test_equal_predictions_stay_together() -> None:
    p = np.r_[np.full(90, 0.3), np.linspace(0.6, 0.9, 10)]
    found = fitted(LabelledEvents.of(p, np.arange(100) % 2), kind="quantile", bins=10)
    assert found.weight.max() >= 90.0
    assert (found.weight > 0.0).all()


def test_without_shrinkage_nothing_is_left_of_the_error_over_its_bins() -> None:
    events = binary_events(2_000, slope=0.5, offset=0.5)
    q = apply_map(fitted(events, bins=10, shrinkage=0.0), events.prediction)
    assert ece(ScoreTable.from_events(events.prediction, events.outcome)) > 0.05
    # Bins may have equal values or fall into one another: each value is its own bin's frequency still.
    for value in np.unique(q):
        assert events.outcome[q == value].mean() == pytest.approx(value, abs=1e-12)


def test_a_little_shrinkage_keeps_bins_from_0_and_1() -> None:
    p = np.r_[np.full(10, 0.05), np.full(10, 0.95)]
    events = LabelledEvents.of(p, p > 0.5)
    np.testing.assert_allclose(apply_map(fitted(events), [0.05, 0.95]), [0.05 / 11.0, 1.0 - 0.05 / 11.0], rtol=1e-12)
    np.testing.assert_array_equal(apply_map(fitted(events, shrinkage=0.0), [0.05, 0.95]), [0.0, 1.0])


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="option bins of histogram must be at least 1, got 0"):
        fitted(binary_events(100), bins=0)
    with pytest.raises(InputError, match="option kind of histogram must be one of equal_width, quantile"):
        fitted(binary_events(100), kind="other")


def test_bins_that_do_not_fit_are_refused() -> None:
    arrays = {"edges": np.array([0.5]), "value": np.array([0.1, 0.2, 0.3]), "weight": np.ones(3)}
    with pytest.raises(CorruptMap, match="one longer than edges, got 3, 3 and 1"):
        Histogram.from_parts(MapParts({}, arrays))
    nothing = {"edges": np.array([0.5]), "value": np.array([0.1, 0.2]), "weight": np.zeros(2)}
    with pytest.raises(CorruptMap, match="no bin has events"):
        Histogram.from_parts(MapParts({}, nothing))
