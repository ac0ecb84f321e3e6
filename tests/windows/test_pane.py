"""A compressed pane gives back what was added to it, to the last unit."""

import numpy as np
import pytest

from monitor.arrays import Ints
from monitor.store.closing import Cells
from monitor.windows.pane import Pane

START_MS = 1_700_000_000_000


def rows(rng: np.random.Generator, size: int) -> Cells:
    """Rows of few series and cells, ascending, with sums of up to 61 bits."""
    values = np.zeros((size, 6), np.int64)
    values[:, :3] = rng.poisson(0.7, (size, 3))
    values[:, 3:] = values[:, :3] * rng.integers(0, 2 ** rng.integers(1, 58), (size, 3))
    return Cells(rng.integers(0, 4, size), np.full(size, START_MS), rng.integers(0, 40, size), values).summed()


def by_hand(parts: list[Cells]) -> dict[tuple[int, int], list[int]]:
    sums: dict[tuple[int, int], list[int]] = {}
    for part in parts:
        for series, cell, values in zip(part.series.tolist(), part.cell.tolist(), part.values.tolist(), strict=True):
            earlier = sums.get((series, cell), [0] * 6)
            sums[series, cell] = [a + b for a, b in zip(earlier, values, strict=True)]
    return sums


@pytest.mark.parametrize("parts", [1, 2, 63, 200])
def test_cells_and_counts_are_those_of_all_parts(parts: int) -> None:
    rng = np.random.default_rng(parts)
    pane = Pane(START_MS)
    added = [rows(rng, int(rng.integers(1, 30))) for _ in range(parts)]
    for number, part in enumerate(added):
        pane.add(part)
        if number % 50 == 7:
            assert pane.counts(0).sum() == by_series(added[: number + 1], 0).sum()  # and what comes later counts, too
    expected = by_hand(added)
    for _ in range(2):
        cells = pane.cells()
        keys = list(zip(cells.series.tolist(), cells.cell.tolist(), strict=True))
        assert keys == sorted(expected)
        assert cells.values.tolist() == [expected[key] for key in keys]
        assert set(cells.start_ms.tolist()) == {START_MS}
    for series in range(5):
        assert pane.counts(series).tolist() == by_series(added, series).tolist()


def by_series(parts: list[Cells], series: int) -> Ints:
    cells = Cells.joined(parts)
    return np.asarray(cells.values[cells.series == series, :3].sum(axis=0))


def test_a_pane_of_many_cells_takes_a_fraction_of_its_rows() -> None:
    rng = np.random.default_rng(1)
    size = 20_000
    values = np.zeros((size, 6), np.int64)
    values[:, :2] = rng.poisson(0.8, (size, 2))
    values[:, 3:5] = values[:, :2] * rng.integers(0, 2**29, (size, 2))  # cells are some 2**-11 wide
    cells = Cells(np.repeat(np.arange(10), size // 10), np.full(size, START_MS), np.tile(np.arange(2_000), 10), values)
    pane = Pane(START_MS)
    pane.add(cells)
    assert sum(len(data) for _, data in pane._parts) < 14 * size
    assert all((one == other).all() for one, other in zip(pane.cells(), cells, strict=True))
