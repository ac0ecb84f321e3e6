"""Which shares of predictions have labels, and when they are in doubt."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alarms.missing_labels import Labelled, Labels
from monitor.scores import GridTable

NONE = Labelled(0, 0)

# Few different values, so that many are tied.
events = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), st.sampled_from([-1, 0, 1])), min_size=1, max_size=60
)


@given(events)
def test_lowest_and_highest_are_whole_cells_that_hold_a_quarter(drawn: list[tuple[float, int]]) -> None:
    prediction, outcome = np.array([p for p, _ in drawn]), np.array([y for _, y in drawn])
    found = Labels.of(GridTable.from_events(prediction, outcome), NONE)
    order = np.sort(prediction)
    first = prediction <= order[-(-order.size // 4) - 1]
    assert found.lowest == Labelled(int(first.sum()), int((outcome[first] >= 0).sum()))
    last = prediction >= order[3 * order.size // 4]
    rest = last & ~first
    assert found.highest == Labelled(int(rest.sum()), int((outcome[rest] >= 0).sum()))
    assert found.now == Labelled(order.size, int((outcome >= 0).sum()))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Labelled(1000, 800), Labelled(1000, 690), True),
        (Labelled(1000, 800), Labelled(1000, 710), False),
        (Labelled(100, 80), Labelled(100, 65), False),
        (Labelled(1000, 1000), Labelled(1000, 1000), False),
        (Labelled(1000, 1000), Labelled(0, 0), False),
    ],
)
def test_shares_differ_by_much_and_for_certain(one: Labelled, other: Labelled, expected: bool) -> None:
    assert one.is_far_from(other) == other.is_far_from(one) == expected


def test_one_prediction_for_all_has_no_highest_quarter() -> None:
    found = Labels.of(GridTable.from_events(np.full(500, 0.3), np.resize([0, 1, -1], 500)), NONE)
    assert found.highest == Labelled(0, 0)
    assert found.doubt is None
    assert found.to_json()["highest"] is None
