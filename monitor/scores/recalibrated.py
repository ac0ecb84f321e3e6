"""Steps as a map serves them."""

from collections.abc import Callable
from functools import cache

import numpy as np

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.scores.grid_table import POSITIVE_SUM
from monitor.scores.steps import Steps


def recalibrate_steps(steps: Steps, recalibrate: Callable[[Floats], Floats]) -> Steps:
    """The same steps with what a map makes of their predictions.

    The predictions of a cell in a step go where the map takes their mean, with or without an outcome. So outcomes have
    no say in it, a map that is linear within the cell keeps the sum of its predictions, and counts stay exact.

    Parameters
    ----------
    recalibrate
        Turns predictions, float64, shape (n,), into those that the map serves, each by itself.
    """
    if steps.cell.size == 0:
        return steps
    lower, upper, anchor = _ends()
    count = steps.values[:, :POSITIVE_SUM]
    total, above = (columns[0] + columns[1] + columns[2] for columns in np.split(steps.values.T, 2))
    mean = anchor[steps.cell] + above / (total * grid.UNITS)
    # Sums of rounded predictions may pass an edge by half a unit.
    served = recalibrate(np.minimum(np.maximum(mean, lower[steps.cell]), upper[steps.cell]))
    cell = grid.locate(served)
    units = grid.to_units(served) - grid.anchors()[cell]
    values = np.column_stack([count, count * units[:, None]])
    # Maps that do not fall leave rows in their order, and a stable sort of those takes little time.
    key = np.repeat(np.arange(steps.end_ms.size), np.diff(steps.first)) * grid.cell_count() + cell
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    key = key[order[begins]]
    first = np.searchsorted(key, np.arange(steps.end_ms.size + 1) * grid.cell_count())
    return Steps(steps.end_ms, first, key % grid.cell_count(), np.add.reduceat(values[order], begins, axis=0))


@cache
def _ends() -> tuple[Floats, Floats, Floats]:
    """The least and the largest prediction of each cell, and its anchor."""
    lower = grid.edges()
    upper = np.maximum(lower, np.nextafter(grid.upper_edges(), 0.0))
    return lower, upper, grid.anchors() / grid.UNITS
