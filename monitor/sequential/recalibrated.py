"""Steps as a map serves them."""

from collections.abc import Callable
from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.scores.grid_table import POSITIVE_SUM
from monitor.sequential.steps import Steps

_COUNTS: Final = POSITIVE_SUM


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
    lower, upper = grid.edges()[steps.cell], grid.upper_edges()[steps.cell]
    count = steps.values[:, :_COUNTS]
    above = steps.values[:, _COUNTS:].sum(axis=1) / (count.sum(axis=1) * grid.UNITS)
    mean = grid.anchors()[steps.cell] / grid.UNITS + above
    # Sums of rounded predictions may pass an edge by half a unit.
    served = recalibrate(np.clip(mean, lower, np.maximum(lower, np.nextafter(upper, 0.0))))
    cell = grid.locate(served)
    units = grid.to_units(served) - grid.anchors()[cell]
    values = np.column_stack([count, count * units[:, None]])
    step = np.repeat(np.arange(steps.end_ms.size), np.diff(steps.first))
    order = np.lexsort((cell, step))
    step, cell = step[order], cell[order]
    begins = np.flatnonzero((np.diff(step, prepend=-1) != 0) | (np.diff(cell, prepend=-1) != 0))
    first = np.searchsorted(step[begins], np.arange(steps.end_ms.size + 1))
    return Steps(steps.end_ms, first, cell[begins], np.add.reduceat(values[order], begins, axis=0))
