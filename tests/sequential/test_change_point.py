"""When a change began, by the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import NotEnoughData
from monitor.sequential.change_point import find_change
from monitor.sequential.detector import Bets
from tests.reference.naive_sequential import change_point

# Quarters add up exactly.
ROWS = st.lists(st.lists(st.integers(-8, 8), min_size=3, max_size=3), min_size=1, max_size=12)


@settings(deadline=None)
@given(ROWS, st.integers(0, 16))
def test_the_change_is_where_the_gain_is_largest(rows: list[list[int]], margin: int) -> None:
    log_bets = np.array(rows, np.float64) / 4
    ends = 100 + 10 * np.arange(1, len(rows) + 1)
    found = find_change(Bets(ends, log_bets), 100, margin / 4)
    start, alternative, score, within = change_point(log_bets.tolist(), margin / 4)
    assert (found.begin_ms, found.alternative, found.score) == (100 + 10 * start, alternative, score)
    assert found.begins_ms.tolist() == [100 + 10 * at for at in within]


def test_a_clear_change_is_found_at_its_step() -> None:
    log_bets = np.full((20, 2), -1.0)
    log_bets[12:, 1] = 3.0
    found = find_change(Bets(np.arange(1, 21), log_bets), 0)
    assert (found.begin_ms, found.alternative, found.score) == (12, 1, 24.0)
    assert found.begins_ms.tolist() == [6, 7, 8, 9, 10, 11, 12, 13]


def test_without_bets_there_is_no_change_point() -> None:
    with pytest.raises(NotEnoughData, match="a change point needs the bets of at least 1 step, got 0"):
        find_change(Bets(np.zeros(0, np.int64), np.zeros((0, 3))), 0)
