"""Score tables of raw events."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.scores import ScoreTable
from monitor.scores.table import merge_rows

COLUMNS = ("score", "positives", "negatives", "positive_sum", "negative_sum", "lower", "upper")

rows = st.lists(
    st.tuples(st.floats(0.0, 1.0) | st.integers(0, 5).map(lambda i: i / 5), st.integers(0, 1), st.floats(0.0, 3.0)),
    max_size=40,
)


def same(one: ScoreTable, other: ScoreTable) -> bool:
    return one.weighted == other.weighted and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS
    )


@given(rows)
def test_a_row_is_a_distinct_prediction(data: list[tuple[float, int, float]]) -> None:
    p, y = [row[0] for row in data], [row[1] for row in data]
    table = ScoreTable.from_events(p, y)
    assert table.score.tolist() == sorted(set(p))
    for score, positives, negatives in zip(table.score, table.positives, table.negatives, strict=True):
        assert positives == sum(outcome for each, outcome in zip(p, y, strict=True) if each == score)
        assert positives + negatives == p.count(score)
    assert table.exact
    assert not table.weighted
    assert table.total == len(p)
    np.testing.assert_array_equal(table.positive_sum, table.positives * table.score)
    np.testing.assert_array_equal(table.negative_sum, table.negatives * table.score)


@given(data=rows, seed=st.integers(0, 9), weighted=st.booleans())
def test_the_order_of_events_does_not_matter(data: list[tuple[float, int, float]], seed: int, weighted: bool) -> None:
    columns = np.array(data, np.float64).reshape(-1, 3)
    shuffled = np.random.default_rng(seed).permutation(columns)
    tables = [
        ScoreTable.from_events(each[:, 0], each[:, 1], each[:, 2] if weighted else None) for each in (columns, shuffled)
    ]
    assert same(*tables)


def test_ties_share_a_row() -> None:
    table = ScoreTable.from_events([0.3, 0.7, 0.3, 0.3], [1, 0, 0, 1])
    assert table.score.tolist() == [0.3, 0.7]
    assert table.positives.tolist() == [2.0, 0.0]
    assert table.negatives.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 4.0]])
def test_minus_zero_is_zero(weight: list[float] | None) -> None:
    table = ScoreTable.from_events([-0.0, 0.0, -0.0], [0, 1, 0], weight)
    assert table.score.tolist() == [0.0]
    assert not np.signbit(table.score).any()
    assert table.positives.tolist() == [1.0 if weight is None else 2.0]


def test_the_smallest_and_the_largest_predictions_are_told_apart() -> None:
    p = [0.0, 5e-324, 1e-300, 1.0 - 2.0**-53, 1.0]
    assert ScoreTable.from_events(p, [0, 0, 1, 1, 1]).score.tolist() == p


def test_outcomes_may_be_of_any_type_that_is_0_or_1() -> None:
    tables = [
        ScoreTable.from_events([0.2, 0.4], y) for y in ([False, True], [0, 1], np.array([0, 1], np.int8), [0.0, 1.0])
    ]
    assert all(same(tables[0], other) for other in tables)


def test_weights_are_sums_and_what_weighs_nothing_is_no_row() -> None:
    table = ScoreTable.from_events([0.2, 0.2, 0.9, 0.5], [1, 0, 1, 0], [0.5, 1.5, 0.0, 2.0])
    assert table.weighted
    assert table.score.tolist() == [0.2, 0.5]
    assert table.positives.tolist() == [0.5, 0.0]
    assert table.negatives.tolist() == [1.5, 2.0]
    assert table.total == 4.0
    assert ScoreTable.from_events([0.2], [1], [0.0]).rows == 0


def test_whole_weights_equal_repeated_events() -> None:
    weighted = ScoreTable.from_events([0.2, 0.6, 0.6], [1, 0, 1], [3, 2, 1])
    repeated = ScoreTable.from_events([0.2] * 3 + [0.6] * 3, [1] * 3 + [0, 0, 1])
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))


@given(rows)
def test_residuals_are_sums_over_the_events(data: list[tuple[float, int, float]]) -> None:
    p, y = np.array([row[0] for row in data]), np.array([row[1] for row in data], np.float64)
    table = ScoreTable.from_events(p, y)
    assert table.residual.sum() == pytest.approx((y - p).sum(), abs=1e-12)
    assert table.absolute_residual.sum() == pytest.approx(np.abs(y - p).sum(), abs=1e-12)
    if p.size:
        assert table.prevalence == pytest.approx(y.mean())
        assert table.mean_prediction == pytest.approx(p.mean(), abs=1e-15)


def test_an_empty_table_has_no_means() -> None:
    table = ScoreTable.from_events([], [])
    assert (table.rows, table.total) == (0, 0.0)
    assert np.isnan([table.prevalence, table.mean_prediction]).all()
    assert table.exact


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.5], [0, 1]), "prediction must be in [0, 1], got 1.5 at index 1"),
        (([0.5, -1e-9], [0, 1]), "prediction must be in [0, 1], got -1e-09 at index 1"),
        (([float("nan")], [0]), "prediction must be in [0, 1], got nan at index 0"),
        (([0.5, 0.5, 0.5], [0, 1, 2]), "outcome must be 0 or 1, got 2 at index 2"),
        (([0.5], [float("nan")]), "outcome must be 0 or 1, got nan at index 0"),
        (([0.5, 0.5], [0]), "prediction and outcome must be equally long, got 2 and 1"),
        (([[0.5]], [0]), "prediction must have one dimension, got shape (1, 1)"),
        ((["high"], [0]), "prediction must be numbers: could not convert string to float: 'high'"),
        (([0.5], [0], [1.0, 2.0]), "weight must be as long as prediction, got 2 and 1"),
        (([0.5, 0.5], [0, 1], [1.0, -1.0]), "weight must be finite and at least 0, got -1 at index 1"),
        (([0.5], [0], [float("inf")]), "weight must be finite and at least 0, got inf at index 0"),
        (([0.5], [0], [float("nan")]), "weight must be finite and at least 0, got nan at index 0"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ScoreTable.from_events(*arguments)
    assert str(caught.value) == message


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
