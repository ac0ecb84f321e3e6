"""The mergeable table: the laws of merging, exactness, and its bytes."""

from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import IncompatibleTables, InputError
from monitor.scores import GridTable, ScoreTable, grid
from monitor.scores.grid_table import COLUMNS, NEGATIVES, POSITIVES, UNLABELLED
from tests.long import examples

Events = tuple[NDArray[np.float64], NDArray[np.int64]]

prediction = st.floats(0.0, 1.0) | st.integers(0, 20).map(lambda i: i / 20) | st.sampled_from([5e-324, 1.0 - 2.0**-53])


@st.composite
def events(draw: st.DrawFn, most: int = 30) -> Events:
    """Predictions, some of them alike, with the outcomes 1, 0 and none."""
    pairs = draw(st.lists(st.tuples(prediction, st.integers(-1, 1)), max_size=most))
    return np.array([p for p, _ in pairs], np.float64), np.array([y for _, y in pairs], np.int64)


tables = events().map(lambda data: GridTable.from_events(*data))


def many(seed: int, n: int) -> Events:
    rng = np.random.default_rng(seed)
    return rng.beta(0.7, 2.0, n), rng.integers(-1, 2, n)


def joined(*parts: Events) -> Events:
    return np.concatenate([p for p, _ in parts]), np.concatenate([y for _, y in parts])


# --- Merging ----------------------------------------------------------------------------------------------------------


@given(tables)
def test_zero_is_the_identity(table: GridTable) -> None:
    zero = GridTable.zero()
    assert table + zero == zero + table == table
    assert zero + zero == zero == GridTable.sum([])
    assert (zero.predictions, zero.labelled) == (0, 0)


@given(tables, tables, tables)
def test_merging_is_commutative_and_associative(a: GridTable, b: GridTable, c: GridTable) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == GridTable.sum([c, a, b])


@given(data=events(), seed=st.integers(0, 9))
def test_the_order_of_events_does_not_matter(data: Events, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(data[0].size)
    assert GridTable.from_events(data[0][order], data[1][order]) == GridTable.from_events(*data)


@given(data=events(), cuts=st.lists(st.integers(0, 30), max_size=4))
def test_chunks_add_up_to_the_whole(data: Events, cuts: list[int]) -> None:
    places = sorted(cuts)
    chunks = zip(np.split(data[0], places), np.split(data[1], places), strict=True)
    assert reduce(add, (GridTable.from_events(*chunk) for chunk in chunks)) == GridTable.from_events(*data)


@pytest.mark.parametrize(("parts", "size"), [(3, 10), (60, 60), (60, 200), (40, 2000)])
def test_few_rows_and_many_add_up_alike(parts: int, size: int) -> None:
    """Either side of the number of rows beyond which the whole grid is summed."""
    data = [many(seed, size) for seed in range(parts)]
    found = GridTable.sum(GridTable.from_events(*each) for each in data)
    assert found == GridTable.from_events(*joined(*data))
    assert (np.diff(found.cell) > 0).all()
    assert found.values.flags.c_contiguous


@pytest.mark.parametrize("size", [5, 20_000])
def test_cells_that_hold_nothing_are_left_out(size: int) -> None:
    table = GridTable.from_events(*many(1, size))
    empty = GridTable(table.cell, np.zeros_like(table.values))
    assert GridTable.sum([empty, empty]) == GridTable.zero()
    assert GridTable.sum([table, empty]) == table


def test_another_grid_does_not_add() -> None:
    other = GridTable(np.zeros(0, np.int64), np.zeros((0, COLUMNS), np.int64), version=9)
    for merge in (lambda: GridTable.zero() + other, lambda: GridTable.sum([GridTable.zero(), other])):
        with pytest.raises(IncompatibleTables, match="only tables of one grid add, got grid versions 1 and 9"):
            merge()
    assert other != GridTable.zero()


@pytest.mark.parametrize("rows", [1, 5000])
def test_a_sum_that_does_not_fit_is_refused(rows: int) -> None:
    values = np.zeros((rows, COLUMNS), np.int64)
    values[:, POSITIVES] = 1
    values[:, POSITIVES + 3] = 2**62
    full = GridTable(np.arange(rows), values)
    with pytest.raises(OverflowError, match=r"more than 2\*\*33 predictions; use shorter windows"):
        GridTable.sum([full, full])


def test_a_table_is_not_hashable_and_equals_no_other_thing() -> None:
    with pytest.raises(TypeError):
        hash(GridTable.zero())
    assert GridTable.zero() != "zero"


# --- Exactness --------------------------------------------------------------------------------------------------------


@given(events())
def test_counts_and_sums_are_exact(data: Events) -> None:
    p, y = data
    table = GridTable.from_events(p, y)
    cells = grid.locate(p)
    assert table.cell.tolist() == sorted(set(cells.tolist()))
    for row, cell in enumerate(table.cell.tolist()):
        for column, outcome in ((POSITIVES, 1), (NEGATIVES, 0), (UNLABELLED, -1)):
            inside = (cells == cell) & (y == outcome)
            count, above = table.values[row, [column, column + 3]].tolist()
            assert count == inside.sum()
            units = sum(round(Fraction(each) * 2**40) for each in p[inside].tolist())
            assert above == units - count * int(grid.anchors()[cell])
    assert table.predictions == p.size
    assert table.labelled == (y >= 0).sum()


@given(events())
def test_residuals_are_those_of_the_events_up_to_their_units(data: Events) -> None:
    p, y = data
    known = y >= 0
    scores = GridTable.from_events(p, y).to_scores()
    assert scores.total == known.sum()
    residual = sum(
        (Fraction(int(outcome)) - Fraction(each) for each, outcome in zip(p[known], y[known], strict=True)), Fraction(0)
    )
    assert float(scores.residual.sum()) == pytest.approx(float(residual), abs=2.0**-40 * (known.sum() + 1))


@given(events())
def test_scores_lie_inside_their_cells_and_ascend(data: Events) -> None:
    scores = GridTable.from_events(*data).to_scores()
    assert (np.diff(scores.score) > 0.0).all()
    assert (scores.lower <= scores.score).all()
    certain = np.isin(scores.score, [0.0, 1.0])
    assert (scores.score < scores.upper)[~certain].all()
    np.testing.assert_array_equal(scores.lower[certain], scores.upper[certain])
    assert not scores.weighted


def test_what_rounds_to_no_unit_lies_in_the_middle_of_half_a_unit() -> None:
    unit = 2.0**-40
    almost = np.nextafter(1.0, 0.0)
    scores = GridTable.from_events(
        [0.0, 5e-324, 0.4 * unit, 1.0 - 0.4 * unit, almost, 1.0], [0, 1, 0, 1, 0, 1]
    ).to_scores()
    assert scores.score.tolist() == [0.0, unit / 4, 1.0 - unit / 4, 1.0]
    assert scores.counts.tolist() == [1.0, 2.0, 2.0, 1.0]
    # Sums, and so residuals, are of whole units, as they were.
    assert scores.residual.tolist() == [0.0, 1.0, -1.0, 0.0]
    # From half a unit on, a prediction lies where it rounds to.
    assert GridTable.from_events([0.6 * unit], [1]).to_scores().score.tolist() == [unit]


def test_a_corrected_outcome_is_taken_back_exactly() -> None:
    p, y = many(3, 500)
    before = GridTable.from_events(p, y)
    wrong, right = GridTable.from_events(p[:1], [0]), GridTable.from_events(p[:1], [1])
    values = (before + wrong).values - np.where(np.isin((before + wrong).cell, wrong.cell)[:, None], wrong.values, 0)
    assert GridTable((before + wrong).cell, values) + right == before + right


@given(events())
def test_implied_negatives_are_the_unanswered(data: Events) -> None:
    p, y = data
    implied = GridTable.from_events(p, y).with_implied_negatives()
    assert implied == GridTable.from_events(p, np.where(y == -1, 0, y))
    assert implied.labelled == implied.predictions == p.size


def test_unanswered_predictions_are_in_no_score_table() -> None:
    scores = GridTable.from_events([0.2, 0.7], [-1, -1]).to_scores()
    assert scores.rows == 0
    assert isinstance(scores, ScoreTable)


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([0.1, 0.2], [1], "equally long"),
        ([[0.1]], [[1]], "equally long"),
        ([0.1, 1.5], [0, 1], r"prediction must be in \[0, 1\], got 1.5 at index 1"),
        ([float("nan")], [0], r"prediction must be in \[0, 1\], got nan at index 0"),
        ([-1e-9], [0], r"prediction must be in \[0, 1\], got -1e-09 at index 0"),
        ([0.1, 0.2], [0, 2], "outcome must be 1, 0 or -1, got 2 at index 1"),
    ],
)
def test_what_is_wrong_is_named(p: list[float], y: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GridTable.from_events(p, y)


# --- Bytes ------------------------------------------------------------------------------------------------------------


@examples(20, 60)
@given(tables)
def test_bytes_and_back(table: GridTable) -> None:
    assert GridTable.from_bytes(table.to_bytes()) == table


@pytest.mark.parametrize("largest", [0, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62])
def test_every_width_of_integers_comes_back(largest: int) -> None:
    values = np.full((2, COLUMNS), largest, np.int64)
    values[0, POSITIVES] = 1
    table = GridTable(np.array([0, 5157]), values)
    assert GridTable.from_bytes(table.to_bytes()) == table


def test_bytes_are_compact() -> None:
    table = GridTable.from_events(*many(2, 1000))
    assert len(table.to_bytes()) <= 8 + 7 + table.cell.size * (2 + 3 * 1 + 3 * 4)


@pytest.mark.parametrize("data", [b"", b"CGT", b"XYZ\x01\0\0\0\0", b"CGT\x01\0\0\0"])
def test_other_bytes_are_no_table(data: bytes) -> None:
    with pytest.raises(IncompatibleTables, match=f"these {len(data)} bytes are no grid table"):
        GridTable.from_bytes(data)


def test_bytes_of_another_grid_are_refused() -> None:
    data = bytearray(GridTable.from_events([0.5], [1]).to_bytes())
    data[3] = 2
    with pytest.raises(IncompatibleTables, match="only tables of one grid add, got grid versions 1 and 2"):
        GridTable.from_bytes(bytes(data))


def test_bytes_that_are_cut_short_anywhere_are_refused() -> None:
    data = GridTable.from_events([0.1, 0.5, 0.5], [1, 0, -1]).to_bytes()
    for length in range(8, len(data)):
        with pytest.raises(IncompatibleTables, match=f"a grid table of 2 rows is cut short at {length} bytes"):
            GridTable.from_bytes(data[:length])


def test_an_item_size_that_no_integer_has_is_refused() -> None:
    data = bytearray(GridTable.from_events([0.1], [1]).to_bytes())
    data[8] = 3
    with pytest.raises(IncompatibleTables, match="a grid table of 1 rows"):
        GridTable.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([3, 3], "cells of a grid table must ascend"),
        ([7, 2], "must ascend"),
        ([0, 5158], "5158 is not one of the 5158"),
    ],
)
def test_cells_that_are_out_of_order_or_range_are_refused(cells: list[int], message: str) -> None:
    """A damaged pane must not be added up elsewhere, or fall out of the grid."""
    data = GridTable(np.array(cells), np.ones((2, COLUMNS), np.int64)).to_bytes()
    with pytest.raises(IncompatibleTables, match=message):
        GridTable.from_bytes(data)
