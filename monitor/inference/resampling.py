"""What resampling works on: which rows, which random numbers, which quantile."""

from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.scores import GridTable, ScoreTable, grid
from monitor.scores.grid_table import COLUMNS, NEGATIVE_SUM, NEGATIVES, POSITIVE_SUM, POSITIVES

LEAST_DRAWS: Final = 19
"""With fewer, no p-value can be .05 or below."""


def coarsen(table: ScoreTable) -> ScoreTable:
    """The same events on the cells of the shared grid: what a window that had received them would hold.

    Parameters
    ----------
    table
        m rows. One that is of cells already is returned as it is.

    Returns
    -------
    ScoreTable
        At most as many rows as the grid has cells, whatever the number of events.

    Raises
    ------
    InputError
        The table is weighted: the grid counts whole events.
    """
    if table.weighted:
        raise InputError("a weighted table does not fit the grid, which counts whole events; leave the weights out")
    if not table.exact or table.rows == 0:
        return table
    cell = grid.locate(table.score)
    above = grid.to_units(table.score) - grid.anchors()[cell]
    rows = np.zeros((table.rows, COLUMNS), np.int64)
    for count, column, column_of_sum in (
        (table.positives, POSITIVES, POSITIVE_SUM),
        (table.negatives, NEGATIVES, NEGATIVE_SUM),
    ):
        rows[:, column] = count.astype(np.int64)
        rows[:, column_of_sum] = rows[:, column] * above
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    return GridTable(cell[first], np.add.reduceat(rows, first, axis=0)).to_scores()


def resampled(table: ScoreTable, what: str) -> ScoreTable:
    """The table that ``what`` draws from: the table itself, or its cells where it has more rows than the grid.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        The table is weighted: how its events vary is not known from their weights' sums.
    """
    if table.weighted:
        raise InputError(f"{what} needs whole counts, got a weighted table; leave the weights out")
    if table.rows == 0:
        raise NotEnoughData(f"{what} needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def generator(table: ScoreTable, draws: int, seed: int | None) -> np.random.Generator:
    """The random numbers for a table: its content is the default seed, so that a report can be recomputed.

    Raises
    ------
    InputError
        ``draws`` is too small for a 95% point.
    """
    if draws < LEAST_DRAWS:
        raise InputError(f"draws must be at least {LEAST_DRAWS}, got {draws}")
    if seed is None:
        digest = xxhash.xxh3_64()
        for column in (table.score, table.positives, table.negatives, table.positive_sum, table.negative_sum):
            digest.update(column.astype("<f8").tobytes())
        seed = digest.intdigest()
    return np.random.default_rng(seed)


def percent_point_95(draws: NDArray[np.float64]) -> float:
    """The 95% point of the draws, such that a value lies beyond it just where its p-value is at most .05.

    With B draws that is the one of rank ceil(.95 (B + 1)), and the largest where there is no such rank.
    """
    rank = -(-19 * (draws.size + 1) // 20)
    return float(np.sort(draws)[min(rank, draws.size) - 1])
