"""The grid: where its edges are, and that none of them ever moves unnoticed."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.scores import grid

EDGES = grid.edges()

CHECKSUMS = {1: "c36f61883e804b750bac81cca742050aa455f3e950c7898e1db6d2f14e8855c2"}
"""SHA-256 of the edges as little-endian float64, by version of the grid."""


def test_an_edge_that_moves_needs_a_new_version() -> None:
    """Tables of equal versions add cell by cell, also where one was stored a year ago on another machine."""
    assert hashlib.sha256(EDGES.astype("<f8").tobytes()).hexdigest() == CHECKSUMS[grid.GRID_VERSION]


def test_the_edges_ascend_strictly_from_0_to_1() -> None:
    assert (np.diff(EDGES) > 0.0).all()
    assert EDGES[0] == 0.0
    assert EDGES[1] == np.nextafter(0.0, 1.0)
    assert EDGES[-1] == 1.0
    assert grid.cell_count() == EDGES.size == 5158


@pytest.mark.parametrize("parts", [1024, *grid.EQUAL_WIDTH_BINS])
def test_the_edges_of_usual_bins_are_edges_of_cells(parts: int) -> None:
    assert np.isin(np.arange(parts + 1) / parts, EDGES).all()


def test_cells_are_narrow_everywhere_and_narrower_in_the_tails() -> None:
    width = grid.upper_edges() - EDGES
    assert width.max() <= 1 / 1024
    in_logit = np.diff(np.log(EDGES[2:-1]) - np.log1p(-EDGES[2:-1]))
    assert in_logit.max() <= 2 * grid.LOGIT_BOUND / grid.LOGIT_CELLS * 1.01
    assert EDGES[2] < 1e-7


def test_upper_edges_are_the_next_lower_ones_and_certain_cells_have_no_width() -> None:
    upper = grid.upper_edges()
    np.testing.assert_array_equal(upper[1:-1], EDGES[2:])
    assert (upper[0], upper[-1]) == (0.0, 1.0)


def test_the_grid_cannot_be_written_to() -> None:
    for array in (grid.edges(), grid.anchors()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_a_prediction_on_an_edge_is_in_the_cell_that_begins_there() -> None:
    cells = np.arange(EDGES.size)
    np.testing.assert_array_equal(grid.locate(EDGES), cells)
    np.testing.assert_array_equal(grid.locate(np.nextafter(EDGES[1:], 0.0)), cells[:-1])


@pytest.mark.parametrize(
    ("prediction", "cell"),
    [(0.0, 0), (-0.0, 0), (5e-324, 1), (2.2e-308, 1), (1e-12, 1), (np.nextafter(1.0, 0.0), 5156), (1.0, 5157)],
)
def test_the_ends_have_cells_of_their_own(prediction: float, cell: int) -> None:
    assert grid.locate(np.array([prediction])).tolist() == [cell]


@given(st.floats(0.0, 1.0))
def test_every_prediction_lies_in_its_cell(prediction: float) -> None:
    cell = int(grid.locate(np.array([prediction]))[0])
    assert EDGES[cell] <= prediction
    assert cell == EDGES.size - 1 or prediction < EDGES[cell + 1]


def test_anchors_are_the_lower_edges_in_whole_units_rounded_down() -> None:
    assert grid.anchors().dtype == np.int64
    assert grid.anchors().tolist() == [int(edge * 2**40) for edge in EDGES.tolist()]


@given(st.floats(0.0, 1.0))
def test_units_lose_half_a_unit_at_most_and_lie_above_the_anchor(prediction: float) -> None:
    p = np.array([prediction])
    units = grid.to_units(p)
    assert abs(units[0] / grid.UNITS - prediction) <= 2.0**-41
    above = int((units - grid.anchors()[grid.locate(p)])[0])
    # Below 2**30 and a half, so that 2**33 of them fit in an int64.
    assert 0 <= above <= 2**30


def test_wide_cells_consist_of_cells_and_of_bins_of_equal_width() -> None:
    wide, edges = grid.wide_edges(), grid.edges()
    assert np.isin(wide, edges).all()
    assert wide.size < edges.size / 10
    assert np.diff(wide).max() <= 1 / 64
    for bins in grid.EQUAL_WIDTH_BINS:
        assert np.isin(np.arange(1, bins) / bins, wide).all()
