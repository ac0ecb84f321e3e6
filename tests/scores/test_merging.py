"""Rows put together: nothing is lost, order stays, groups are about equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.scores import ScoreTable
from monitor.scores.merging import merge_rows


@given(
    scores=st.lists(st.integers(0, 60), min_size=1, max_size=80),
    rows=st.integers(1, 30),
    seed=st.integers(0, 9),
    weighted=st.booleans(),
)
def test_nothing_is_lost_and_order_stays(scores: list[int], rows: int, seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    p = np.array(scores) / 60
    table = ScoreTable.from_events(p, rng.integers(0, 2, p.size), rng.uniform(0.1, 3.0, p.size) if weighted else None)
    merged = merge_rows(table, rows)
    assert merged.rows <= max(rows, 1)
    assert merged.weighted == table.weighted
    for name in (
        "positives",
        "negatives",
        "positive_sum",
        "negative_sum",
        "residual",
        "positive_squares",
        "negative_squares",
    ):
        assert getattr(merged, name).sum() == pytest.approx(getattr(table, name).sum(), abs=1e-9), name
    assert (np.diff(merged.score) > 0.0).all()
    assert ((merged.lower <= merged.score) & (merged.score <= merged.upper)).all()
    assert (merged.upper[:-1] < merged.lower[1:]).all()


def test_groups_are_about_equal() -> None:
    p = np.random.default_rng(1).beta(0.3, 3.0, 20_000)
    merged = merge_rows(ScoreTable.from_events(p, p < 0.5), 100)
    assert merged.rows == 100
    assert merged.counts.min() >= 199
    assert merged.counts.max() <= 201


def test_a_heavy_row_is_a_group_of_its_own() -> None:
    merged = merge_rows(ScoreTable.from_events([0.1, 0.2] + [0.5] * 96 + [0.8, 0.9], [0] * 100), 4)
    assert 96 in merged.counts


def test_few_rows_are_left_alone() -> None:
    table = ScoreTable.from_events([0.1, 0.2, 0.9], [0, 1, 1])
    assert merge_rows(table, 3) is table
    assert merge_rows(table, 1).score.tolist() == [pytest.approx(0.4)]
    with pytest.raises(InputError, match="rows must be at least 1, got 0"):
        merge_rows(table, 0)
