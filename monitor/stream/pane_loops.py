"""Panes: sparse score tables by series and time, filled event by event.

A pane is one row of ``panes`` and a chain of rows of ``cells``; both are found through a hash index. All counts are
integers, so a corrected outcome is taken back exactly.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.store.base import ANSWERED, CORRECTED, PREDICTED
from monitor.stream.table_loops import USED, Row, allocate_row, find, insert, release_row, remove
from monitor.stream.vector_loops import NO_OUTCOME

_SERIES_SHIFT: Final = np.uint64(32)
_LEVEL_SHIFT: Final = np.uint64(58)


class Panes(NamedTuple):
    """The panes, a row each. ``key`` packs level (6 bits), series (26 bits) and pane number (32 bits)."""

    slots: NDArray[np.uint64]
    key: NDArray[np.uint64]
    zeros: NDArray[np.uint64]
    """Zeros: the second half of the index's key, which panes do not need."""
    first: NDArray[np.int32]
    """First row of its chain in ``cells``; in a free row, the next free one."""
    predictions: NDArray[np.int64]
    labelled: NDArray[np.int64]
    changed: NDArray[np.int64]
    """Number of its last change."""
    alive: NDArray[np.bool_]
    meta: NDArray[np.int64]


class Cells(NamedTuple):
    """The occupied cells, a row each."""

    slots: NDArray[np.uint64]
    pane: NDArray[np.uint64]
    """Key of its pane."""
    cell: NDArray[np.uint64]
    next: NDArray[np.int32]
    """Next row of the same pane, or -1; in a free row, the next free one."""
    values: NDArray[np.int64]
    """Shape (rows, 6): see :class:`monitor.scores.GridTable`."""
    meta: NDArray[np.int64]


class Grid(NamedTuple):
    """The grid's edges, and its anchors and scale in whole units."""

    edges: NDArray[np.float64]
    anchors: NDArray[np.int64]
    units: float


class FanOut(NamedTuple):
    """The series of each stratum: see :meth:`monitor.events.strata.Strata.fan_out`."""

    start: NDArray[np.int32]
    series: NDArray[np.int32]


@njit()
def pane_key(level: int, series: int, number: int) -> np.uint64:
    """Pack a pane's identity."""
    return (np.uint64(level) << _LEVEL_SHIFT) | (np.uint64(series) << _SERIES_SHIFT) | np.uint64(number)


def unpack_key(key: int) -> tuple[int, int, int]:
    """Level, series and number of a pane."""
    return key >> 58, (key >> 32) & 0x3FFFFFF, key & 0xFFFFFFFF


@njit()
def _pane_row(panes: Panes, key: np.uint64) -> Row:
    row: Row = find(panes.slots, panes.key, panes.zeros, key, np.uint64(0))
    if row >= 0:
        return row
    row = allocate_row(panes.first, panes.meta)
    panes.zeros[row] = 0
    panes.key[row] = key
    panes.first[row] = -1
    panes.predictions[row] = 0
    panes.labelled[row] = 0
    panes.alive[row] = True
    insert(panes.slots, key, np.uint64(0), row)
    return row


@njit()
def _cell_row(panes: Panes, pane: Row, cells: Cells, cell: Row) -> Row:
    key, second = panes.key[pane], np.uint64(cell)
    row: Row = find(cells.slots, cells.pane, cells.cell, key, second)
    if row >= 0:
        return row
    row = allocate_row(cells.next, cells.meta)
    cells.pane[row] = key
    cells.cell[row] = second
    cells.values[row] = 0
    cells.next[row] = panes.first[pane]
    panes.first[pane] = row
    insert(cells.slots, key, second, row)
    return row


@njit()
def accumulate(
    rows: NDArray[np.void],
    fan_out: FanOut,
    slides_ms: NDArray[np.int64],
    grid: Grid,
    panes: Panes,
    cells: Cells,
    change: int,
) -> None:
    """Add rows of the journal to the panes of their prediction times.

    Parameters
    ----------
    rows
        Rows of the journal. Those of waiting outcomes and confirmations change no pane.
    slides_ms
        int64, shape (levels,): width of the panes of each level.
    change
        Number of this change, larger than the one before.

    Notes
    -----
    The caller guarantees free rows for one pane and one cell per row, level and series.
    """
    for index in range(rows.size):
        entry = rows[index].entry
        outcome = np.int64(rows[index].outcome)
        removed: Row = -1
        if entry == PREDICTED:
            added: Row = 2 if outcome == NO_OUTCOME else 1 - outcome
        elif entry == ANSWERED:
            added, removed = 1 - outcome, 2
        elif entry == CORRECTED:
            added, removed = 1 - outcome, outcome
        else:
            continue
        prediction, time_ms, stratum = rows[index].prediction, rows[index].time_ms, rows[index].stratum
        cell = np.searchsorted(grid.edges, prediction, side="right") - 1
        above = np.int64(np.rint(prediction * grid.units)) - grid.anchors[cell]
        for level in range(slides_ms.size):
            number = time_ms // slides_ms[level]
            for at in range(fan_out.start[stratum], fan_out.start[stratum + 1]):
                pane = _pane_row(panes, pane_key(level, fan_out.series[at], number))
                row = _cell_row(panes, pane, cells, cell)
                panes.changed[pane] = change
                cells.values[row, added] += 1
                cells.values[row, added + 3] += above
                if removed >= 0:
                    cells.values[row, removed] -= 1
                    cells.values[row, removed + 3] -= above
                if entry == PREDICTED:
                    panes.predictions[pane] += 1
                if (entry == PREDICTED and added != 2) or entry == ANSWERED:
                    panes.labelled[pane] += 1


@njit()
def add_cells(
    key: np.uint64, cell: NDArray[np.int64], values: NDArray[np.int64], panes: Panes, cells: Cells, change: int
) -> None:
    """Add a table, cell by cell, to one pane. The caller guarantees free rows."""
    pane = _pane_row(panes, key)
    panes.changed[pane] = change
    for index in range(cell.size):
        row = _cell_row(panes, pane, cells, cell[index])
        for column in range(6):
            cells.values[row, column] += values[index, column]
        labelled = values[index, 0] + values[index, 1]
        panes.labelled[pane] += labelled
        panes.predictions[pane] += labelled + values[index, 2]


@njit()
def pane_rows(panes: Panes, level: int, series: int, first: int, last: int, out: NDArray[np.int64]) -> int:
    """Rows of the panes numbered first to last - 1 that exist, into ``out``; returns their number."""
    count = 0
    for number in range(first, last):
        row = find(panes.slots, panes.key, panes.zeros, pane_key(level, series, number), np.uint64(0))
        if row >= 0:
            out[count] = row
            count += 1
    return count


@njit()
def last_change(panes: Panes, level: int, series: int, first: int, last: int) -> tuple[int, int]:
    """The last change to the panes numbered first to last - 1, 0 if there are none, and how many there are."""
    newest = 0
    count = 0
    for number in range(first, last):
        row = find(panes.slots, panes.key, panes.zeros, pane_key(level, series, number), np.uint64(0))
        if row >= 0:
            newest = max(newest, panes.changed[row])
            count += 1
    return newest, count


@njit()
def sum_panes(rows: NDArray[np.int64], panes: Panes, cells: Cells, dense: NDArray[np.int64]) -> None:
    """Add the cells of these panes to ``dense``, shape (cells, 6)."""
    for index in range(rows.size):
        row = panes.first[rows[index]]
        while row >= 0:
            cell = cells.cell[row]
            for column in range(6):
                dense[cell, column] += cells.values[row, column]
            row = cells.next[row]


@njit()
def pane_cells(pane: int, panes: Panes, cells: Cells, cell: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Write a pane's occupied cells, in no order, to ``cell`` and ``values``; returns their number."""
    count = 0
    row = panes.first[pane]
    while row >= 0:
        occupied = False
        for column in range(6):
            values[count, column] = cells.values[row, column]
            occupied = occupied or (column < 3 and cells.values[row, column] != 0)
        if occupied:
            cell[count] = np.int64(cells.cell[row])
            count += 1
        row = cells.next[row]
    return count


@njit()
def expire(panes: Panes, cells: Cells, slides_ms: NDArray[np.int64], before_ms: NDArray[np.int64]) -> int:
    """Remove the panes that start before ``before_ms[level, series]``; returns their number."""
    removed = 0
    zero = np.uint64(0)
    for pane in range(panes.meta[USED]):
        if not panes.alive[pane]:
            continue
        key = panes.key[pane]
        level = np.int64(key >> _LEVEL_SHIFT)
        series = np.int64((key >> _SERIES_SHIFT) & np.uint64(0x3FFFFFF))
        number = np.int64(key & np.uint64(0xFFFFFFFF))
        if number * slides_ms[level] >= before_ms[level, series]:
            continue
        row = panes.first[pane]
        while row >= 0:
            following = cells.next[row]
            remove(cells.slots, key, cells.cell[row], row)
            release_row(row, cells.next, cells.meta)
            row = following
        remove(panes.slots, key, zero, pane)
        panes.alive[pane] = False
        release_row(pane, panes.first, panes.meta)
        removed += 1
    return removed
