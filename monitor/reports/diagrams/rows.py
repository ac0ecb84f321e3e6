"""The rows that diagrams are computed from."""

from typing import Final

import numpy as np

from monitor.errors import NotEnoughData
from monitor.inference import coarsen
from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.scores import ScoreTable, grid
from monitor.scores.table import gather_rows

MAX_POINTS: Final = 128
"""Points of a curve: the eye sees no more, and their numbers are most of a document."""


def on_cells(table: ScoreTable) -> ScoreTable:
    """Put a large table onto the cells of the shared grid: no diagram shows the difference.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if not table.counts.any():
        raise NotEnoughData("a figure needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def on_points(cells: ScoreTable) -> ScoreTable:
    """Merge neighbouring rows to at most ``MAX_POINTS``, of about equal weight and distance in log odds.

    By weight alone, the few predictions at the ends would be one point, and they fill most of an axis in log odds.
    Residuals stay exact. The table itself is returned if it has no more rows.
    """
    if cells.rows <= MAX_POINTS:
        return cells
    held = cells.counts > 0.0
    counts = cells.counts[held]
    axis = ProbabilityAxis.in_log_odds(cells)
    first, last = axis.limits
    # Each part of the sum is at most 1, and the first is below.
    share = (np.cumsum(counts) - counts / 2.0) / cells.total
    place = (axis.place(cells.score[held]) - first) / (last - first)
    return gather_rows(cells, np.floor((share + place) * (MAX_POINTS / 2.0)), held=held)
