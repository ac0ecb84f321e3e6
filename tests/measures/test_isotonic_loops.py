import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from monitor.measures.isotonic_loops import pool_adjacent_violators
from tests.reference.naive_tce import pava_bc

Rows = list[tuple[int, int]]

rows_of_counts = st.lists(
    st.integers(1, 12).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))), min_size=1, max_size=40
)


def arrays(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    positives, counts = zip(*rows, strict=True)
    return np.array(positives, np.int64), np.array(counts, np.int64)


def blocks(rows: Rows, min_size: int, max_size: int) -> list[tuple[int, int]]:
    positives, counts = arrays(rows)
    starts = pool_adjacent_violators(positives, counts, min_size, max_size)
    sums = np.add.reduceat(positives, starts), np.add.reduceat(counts, starts)
    return [(int(k), int(n)) for k, n in zip(*sums, strict=True)]


@settings(max_examples=300, deadline=None)
@given(outcomes=st.lists(st.integers(0, 1), min_size=1, max_size=120), data=st.data())
def test_distinct_predictions_give_the_blocks_of_algorithm_2(outcomes: list[int], data: st.DataObject) -> None:
    max_size = data.draw(st.integers(0, len(outcomes)))
    min_size = data.draw(st.integers(0, max_size))
    assert blocks([(y, 1) for y in outcomes], min_size, max_size) == pava_bc(outcomes, min_size, max_size)


@settings(max_examples=200, deadline=None)
@given(rows=rows_of_counts)
def test_without_limits_the_blocks_are_those_of_isotonic_regression(rows: Rows) -> None:
    positives, counts = arrays(rows)
    fitted = IsotonicRegression().fit_transform(np.arange(len(rows)), positives / counts, sample_weight=counts)
    starts = pool_adjacent_violators(positives, counts, 0, int(counts.sum()))
    rate = np.add.reduceat(positives, starts) / np.add.reduceat(counts, starts)
    assert (np.diff(rate) > 0).all()
    np.testing.assert_allclose(np.repeat(rate, np.diff(np.append(starts, len(rows)))), fitted, atol=1e-12)


@settings(max_examples=300, deadline=None)
@given(rows=rows_of_counts, data=st.data())
def test_a_block_exceeds_the_upper_limit_only_where_a_single_row_does(rows: Rows, data: st.DataObject) -> None:
    positives, counts = arrays(rows)
    max_size = data.draw(st.integers(1, int(counts.sum())))
    min_size = data.draw(st.integers(0, max_size))
    starts = pool_adjacent_violators(positives, counts, min_size, max_size)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    sizes = np.add.reduceat(counts, starts)
    rows_in_block = np.diff(np.append(starts, len(rows)))
    assert ((sizes <= max_size) | (rows_in_block == 1)).all()


def test_a_row_of_more_events_than_allowed_is_a_block_of_its_own() -> None:
    assert blocks([(1, 3), (40, 100), (1, 2), (0, 2)], 5, 20) == [(1, 3), (40, 100), (1, 4)]


def test_the_tail_joins_the_last_block_only_within_the_upper_limit() -> None:
    falling = [(1, 1)] * 10 + [(0, 1)] * 10
    assert blocks(falling, 4, 20) == [(10, 20)]
    assert blocks(falling, 4, 19) == [(10, 16), (0, 4)]


@pytest.mark.parametrize(("min_size", "expected"), [(1, [(0, 3)]), (3, [(0, 3)]), (50, [(0, 3)])])
def test_fewer_events_than_the_tail_holds_are_one_block(min_size: int, expected: list[tuple[int, int]]) -> None:
    assert blocks([(0, 1), (0, 1), (0, 1)], min_size, 50) == expected
