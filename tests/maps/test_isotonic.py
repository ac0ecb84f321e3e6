from typing import Any

import numpy as np
import pytest
from hypothesis import given
from sklearn.isotonic import IsotonicRegression

from monitor.errors import CorruptMap
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.isotonic import Isotonic
from monitor.measures.proper_scores import corp_curve
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from tests.long import examples
from tests.maps.drawn import any_binary, binary_events
from tests.reference.naive_maps import isotonic_by_max_min


def fitted(events: LabelledEvents, **options: Any) -> Isotonic:
    found = fit_map(METHODS["isotonic"], events, options)
    assert isinstance(found, Isotonic)
    return found


@pytest.mark.parametrize("shape", ["linear", "steps"])
@given(any_binary())
@examples(20, 60)
def test_it_is_the_max_min_of_the_means(shape: str, events: LabelledEvents) -> None:
    naive = isotonic_by_max_min(events.prediction.tolist(), events.outcome.tolist(), events.weight.tolist())
    found = fitted(events, shape=shape, ends="fitted")
    np.testing.assert_allclose(apply_map(found, list(naive)), list(naive.values()), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_equals_scikit_learn_between_its_knots_too(weighted: bool) -> None:
    events = binary_events(2_000, slope=0.6, offset=0.4, weighted=weighted)
    peer = IsotonicRegression(out_of_bounds="clip").fit(events.prediction, events.outcome, events.weight)
    everywhere = np.linspace(0.0, 1.0, 5_001)
    found = fitted(events, ends="fitted")
    np.testing.assert_allclose(apply_map(found, everywhere), peer.predict(everywhere), atol=1e-12)


def test_it_is_the_corp_curve() -> None:
    events = binary_events(2_000, slope=0.6)
    table = ScoreTable.from_events(events.prediction, events.outcome)
    found = fitted(events, ends="fitted")
    np.testing.assert_allclose(apply_map(found, table.score), corp_curve(table), atol=1e-12)


def test_steps_change_half_the_way() -> None:
    p = np.repeat([0.2, 0.4, 0.8], 10)
    events = LabelledEvents.of(p, np.r_[np.arange(10) < 1, np.arange(10) < 5, np.arange(10) < 9])
    steps = fitted(events, shape="steps")
    np.testing.assert_allclose(
        apply_map(steps, [0.0, 0.29, 0.31, 0.59, 0.61, 1.0]), [0.1, 0.1, 0.5, 0.5, 0.9, 0.9], rtol=1e-12
    )
    line = fitted(events)
    np.testing.assert_allclose(
        apply_map(line, [0.0, 0.3, 0.4, 0.5, 0.6, 1.0]), [0.1, 0.3, 0.5, 0.6, 0.7, 0.9], rtol=1e-12
    )


def test_ends_are_smoothed_by_half_an_event() -> None:
    p = np.repeat([0.1, 0.5, 0.9], [9, 10, 19])
    events = LabelledEvents.of(p, np.r_[np.zeros(9), np.arange(10) < 5, np.ones(19)])
    np.testing.assert_allclose(apply_map(fitted(events), [0.1, 0.5, 0.9]), [0.05, 0.5, 0.975], rtol=1e-12)
    np.testing.assert_allclose(apply_map(fitted(events, ends="fitted"), [0.1, 0.5, 0.9]), [0.0, 0.5, 1.0], atol=1e-15)


def test_a_smoothed_end_stays_below_its_neighbour() -> None:
    # One event alone would be lifted to 1/4, and its neighbour is at 1/20.
    p = np.r_[0.1, np.full(20, 0.5), 0.9]
    events = LabelledEvents.of(p, np.r_[0, np.arange(20) < 1, 1])
    np.testing.assert_allclose(apply_map(fitted(events), [0.1, 0.5, 0.9]), [0.05, 0.05, 0.75], rtol=1e-12)


@given(any_binary())
@examples(20, 60)
def test_smoothed_ends_are_never_0_or_1(events: LabelledEvents) -> None:
    q = apply_map(fitted(events), np.linspace(0.0, 1.0, 101))
    assert q.min() > 0.0
    assert q.max() < 1.0


def test_blocks_of_one_value_are_one() -> None:
    found = fitted(binary_events(1_000))
    assert (np.diff(found.value) > 0.0).all()
    assert found.value.size < 100
    assert f"{found.value.size} blocks" in found.describe()


@pytest.mark.parametrize(
    ("first", "last", "value", "said"),
    [
        ([0.1, 0.3], [0.3, 0.4], [0.1, 0.2], "overlap"),
        ([0.1, 0.3], [0.05, 0.4], [0.1, 0.2], "overlap"),
        ([0.1, 0.3], [0.2, 0.4], [0.3, 0.2], "must not fall"),
        ([0.3, 0.1], [0.4, 0.2], [0.1, 0.2], "first must be strictly ascending"),
        ([0.1, 0.3], [0.2, 0.4], [0.1], "equally long, got 2, 2, 1"),
        ([0.1, 0.3], [0.2, 1.4], [0.1, 0.2], "from 0 to 1, got 1.4"),
    ],
)
def test_blocks_that_are_none_are_refused(first: list[float], last: list[float], value: list[float], said: str) -> None:
    arrays = {"first": np.array(first), "last": np.array(last), "value": np.array(value)}
    with pytest.raises(CorruptMap, match=said):
        Isotonic.from_parts(MapParts({"shape": "linear"}, arrays))
