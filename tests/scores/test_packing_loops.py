"""One sort of packed events, against numpy's unique."""

import numpy as np
import pytest

from monitor.scores import ScoreTable

SMALLEST = np.nextafter(0.0, 1.0)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_rows_are_the_distinct_predictions_with_their_outcomes_counted(n: int) -> None:
    rng = np.random.default_rng(n)
    ends = [0.0, -0.0, 1.0, SMALLEST, np.nextafter(1.0, 0.0), 0.5]
    p = np.where(rng.random(n) < 0.5, rng.choice(ends, n), rng.random(n).round(2))
    y = rng.integers(0, 2, n)
    table = ScoreTable.from_events(p, y)
    score, row = np.unique(p, return_inverse=True)
    np.testing.assert_array_equal(table.score, score)
    np.testing.assert_array_equal(table.positives, np.bincount(row, weights=y, minlength=score.size))
    np.testing.assert_array_equal(table.negatives, np.bincount(row, weights=1 - y, minlength=score.size))
    assert not np.signbit(table.score).any()


def test_what_was_handed_in_is_left_alone() -> None:
    p, y = np.array([0.7, 0.2, 0.7]), np.array([1.0, 0.0, 0.0])
    p.flags.writeable = y.flags.writeable = False
    table = ScoreTable.from_events(p, y)
    assert p.tolist() == [0.7, 0.2, 0.7]
    assert (table.score.tolist(), table.positives.tolist(), table.negatives.tolist()) == ([0.2, 0.7], [0, 1], [1, 1])


def test_every_other_element_is_taken_where_it_stands() -> None:
    rng = np.random.default_rng(1)
    p, y = rng.random(20), rng.integers(0, 2, 20)
    np.testing.assert_array_equal(ScoreTable.from_events(p[::2], y[::2]).score, np.sort(p[::2]))


def test_weights_of_a_row_add_in_one_order() -> None:
    rng = np.random.default_rng(2)
    p, y, w = rng.integers(0, 3, 200) / 4, rng.integers(0, 2, 200), rng.random(200)
    table = ScoreTable.from_events(p, y, w)
    order = rng.permutation(200)
    again = ScoreTable.from_events(p[order], y[order], w[order])
    np.testing.assert_array_equal(table.positives, again.positives)
    np.testing.assert_array_equal(table.negatives, again.negatives)
    assert table.total == pytest.approx(w.sum())
    assert table.weighted
    assert ScoreTable.from_events([0.5], [1], [0.0]).rows == 0
    assert ScoreTable.from_events([], [], []).rows == 0
