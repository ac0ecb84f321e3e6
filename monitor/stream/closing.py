"""Close settled predictions: sum what leaves the join by series, pane and cell."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.events.strata import Strata
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.store.base import JOURNAL_ROW, VECTOR
from monitor.store.closing import Cells, Panes
from monitor.stream.sketches import Sketches
from monitor.stream.vector_loops import ClassFanOut, class_rows, read_blocks

_CHUNK: Final = 1 << 16


def close(parts: Iterable[NDArray[np.void]], strata: Strata, pane_ms: int) -> Panes:
    """Sum predictions by series, pane and cell.

    Parameters
    ----------
    parts
        Rows of the journal with the entries PREDICTED and VECTOR: predictions with the outcomes that they have.
    strata
        Names of the partition.
    pane_ms
        Width of the panes.
    """
    start, series = strata.fan_out()
    classes = ClassFanOut(*strata.class_fan_out())
    each_class = np.arange(classes.series.size + 1, dtype=np.int32)
    sums: list[Cells] = []
    sketches = Sketches(strata, pane_ms)
    for rows in parts:
        is_block = rows["entry"] == VECTOR
        sums += _spread(_add_up(rows[~is_block], pane_ms), start, series)
        if is_block.any():
            for class_part in _class_rows(rows, classes):
                sums += _spread(_add_up(class_part, pane_ms), each_class, classes.series)
            sketches.add(rows)
    return Panes.of(strata.series, Cells.joined(sums).summed(), sketches.panes())


def _add_up(rows: NDArray[np.void], pane_ms: int) -> Cells:
    """Sum predictions by stratum, pane and cell."""
    prediction, outcome, time_ms = np.ascontiguousarray(rows["prediction"]), rows["outcome"], rows["time_ms"]
    cell = grid.locate(prediction)
    values = np.zeros((rows.size, COLUMNS), np.int64)
    at, column = np.arange(rows.size), np.where(outcome < 0, 2, 1 - outcome)
    values[at, column] = 1
    values[at, column + 3] = grid.to_units(prediction) - grid.anchors()[cell]
    return Cells(rows["stratum"].astype(np.int64), time_ms - time_ms % pane_ms, cell, values).summed()


def _spread(sums: Cells, start: NDArray[np.int32], series: NDArray[np.int32]) -> Iterator[Cells]:
    """Repeat the sums of each stratum for each of its series, ``series[start[s]:start[s + 1]]`` of stratum s."""
    for place in range(int(np.diff(start).max(initial=0))):
        at = start[sums.series] + place
        has = np.flatnonzero(at < start[sums.series + 1])
        yield sums.take(has)._replace(series=series[at[has]].astype(np.int64))


def _class_rows(rows: NDArray[np.void], classes: ClassFanOut) -> Iterator[NDArray[np.void]]:
    """Rows of predictions over several classes as binary ones, a chunk at a time: each class against the rest."""
    blocks = read_blocks(rows)
    out = np.empty(max(_CHUNK, int(classes.classes.max(initial=0))), JOURNAL_ROW)
    index = block = 0
    while index < rows.size:
        written, index, block = class_rows(rows, blocks, classes, index, block, out)
        yield out[:written]
