"""The panes of a partition: every series at every width, filled by the join, read by the evaluation."""

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.classes.sketch import SkceSketch
from monitor.events.model import SeriesKey
from monitor.events.strata import Strata
from monitor.scores import GridTable, grid
from monitor.scores.grid_table import COLUMNS
from monitor.store.base import JOURNAL_ROW, VECTOR, ClosedPane, ClosedSketch, PaneKey
from monitor.stream import pane_loops
from monitor.stream.pane_loops import Cells, FanOut, Grid, Panes
from monitor.stream.sketches import SketchTable
from monitor.stream.table import GrowingTable
from monitor.stream.table_loops import USED
from monitor.stream.vector_loops import ClassFanOut, class_rows, read_blocks

_CHUNK: Final = 4096
"""Rows accumulated at once; space is reserved for the worst case, a new pane for each row."""

_identities: Final = itertools.count()
"""Numbers the tables: the table of a partition that comes back counts its changes from 0 again."""


class PanesRevision(NamedTuple):
    """Version of some panes of one table: two are equal only if the panes are."""

    table: int
    last_change: int
    panes: int


class PaneTable:
    """Sparse panes of one partition. Safe for one writer and any number of readers.

    Parameters
    ----------
    strata
        Series of each stratum.
    slides_ms
        Widths of the panes.
    """

    def __init__(self, strata: Strata, slides_ms: Sequence[int]) -> None:
        self._strata = strata
        self._slides_ms = np.array(sorted(slides_ms), np.int64)
        self._panes: GrowingTable[Panes] = GrowingTable(
            Panes,
            {
                "key": (np.uint64, ()),
                "zeros": (np.uint64, ()),
                "first": (np.int32, ()),
                "predictions": (np.int64, ()),
                "labelled": (np.int64, ()),
                "changed": (np.int64, ()),
                "alive": (np.bool_, ()),
            },
        )
        self._cells: GrowingTable[Cells] = GrowingTable(
            Cells,
            {
                "pane": (np.uint64, ()),
                "cell": (np.uint64, ()),
                "next": (np.int32, ()),
                "values": (np.int64, (COLUMNS,)),
            },
        )
        self._grid = Grid(grid.edges(), grid.anchors(), grid.UNITS)
        self._sketches = SketchTable(strata, self._slides_ms.tolist())
        self._lock = threading.Lock()
        self._identity = next(_identities)
        self._changes = 0
        self._update_names()

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._panes.nbytes + self._cells.nbytes + self._sketches.nbytes

    @property
    def series(self) -> Mapping[SeriesKey, int]:
        """The series that have panes, with their ids. Not to be changed; replaced when a new one appears."""
        return self._series

    def accumulate(self, rows: NDArray[np.void]) -> None:
        """Add rows of the journal. Rows of one prediction must be in order."""
        self._refresh()
        for start in range(0, rows.size, _CHUNK):
            self._accumulate(rows[start : start + _CHUNK], self._fan_out)
        if (rows["entry"] == VECTOR).any():
            for class_part in self._class_rows(rows):
                self._accumulate(class_part, self._class_series)
            for part in self._sketches.contributions(rows):
                with self._lock:
                    self._changes += 1
                    self._sketches.add(part, self._changes)

    def add(self, panes: Iterable[ClosedPane]) -> None:
        """Add stored closed panes. Skips those of a width that is no longer kept."""
        self._refresh()
        levels = {int(slide): level for level, slide in enumerate(self._slides_ms)}
        for key, table in panes:
            level, series = levels.get(key.slide_ms), self._series.get(key.series)
            if level is None or series is None:
                continue
            packed = np.uint64(pane_loops.pane_key(level, series, key.start_ms // key.slide_ms))
            with self._lock:
                self._changes += 1
                pane_loops.add_cells(
                    packed,
                    table.cell,
                    table.values,
                    self._panes.reserve(1),
                    self._cells.reserve(table.cell.size),
                    self._changes,
                )

    def add_sketches(self, sketches: Iterable[ClosedSketch]) -> None:
        """Add stored closed sketches. Skips those that no longer fit the settings."""
        self._refresh()
        for closed in sketches:
            with self._lock:
                self._changes += 1
                self._sketches.add_closed(closed, self._series, self._changes)

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        """The sketch of the panes that start in [from, to); None if the series has none."""
        series_id = self._series.get(series)
        if series_id is None:
            return None
        with self._lock:
            return self._sketches.sum(series, series_id, slide_ms, _numbers(slide_ms, from_ms, to_ms))

    def sum_into(self, dense: NDArray[np.int64], series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> None:
        """Add the panes that start in [from, to) to ``dense``, int64, shape (cells, 6)."""
        with self._lock:
            rows, panes = self._rows(series, slide_ms, from_ms, to_ms)
            if rows.size:
                pane_loops.sum_panes(rows, panes, self._cells.reserve(0), dense)

    def revision(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> PanesRevision:
        """Value that changes whenever a pane that starts in [from, to) changes, appears or expires."""
        series_id = self._series.get(series)
        if series_id is None or to_ms <= from_ms:
            return PanesRevision(self._identity, 0, 0)
        numbers = _numbers(slide_ms, from_ms, to_ms)
        with self._lock:
            # A pane that expires is one less, and one that comes back has changed.
            newest, panes = pane_loops.last_change(
                self._panes.reserve(0), self._level(slide_ms), series_id, numbers.start, numbers.stop
            )
            # A correction from one class to another may change the sketch alone.
            newest = max(newest, self._sketches.last_change(series_id, slide_ms, numbers))
        return PanesRevision(self._identity, newest, panes)

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> list[tuple[int, int, int]]:
        """(start, predictions, labelled) of each pane that starts in [from, to), ascending, without empty panes."""
        with self._lock:
            rows, panes = self._rows(series, slide_ms, from_ms, to_ms)
            numbers = panes.key[rows] & np.uint64(0xFFFFFFFF)
            columns = (numbers.astype(np.int64) * slide_ms, panes.predictions[rows], panes.labelled[rows])
            return list(zip(*(column.tolist() for column in columns), strict=True))

    def expire(self, before_ms: NDArray[np.int64]) -> int:
        """Remove the panes that start before ``before_ms[level, series]``; levels ascend by width."""
        with self._lock:
            slides = self._slides_ms.tolist()
            self._sketches.expire(
                {
                    (series_id, slide): at_ms
                    for slide, level_before in zip(slides, before_ms.tolist(), strict=True)
                    for series_id, at_ms in enumerate(level_before)
                }
            )
            return int(pane_loops.expire(self._panes.reserve(0), self._cells.reserve(0), self._slides_ms, before_ms))

    def dump(self) -> list[ClosedPane]:
        """All panes, to be stored."""
        names = list(self._series)
        result = []
        cell = np.empty(grid.cell_count(), np.int64)
        values = np.empty((grid.cell_count(), COLUMNS), np.int64)
        with self._lock:
            panes, cells = self._panes.reserve(0), self._cells.reserve(0)
            for row in range(int(self._panes.meta[USED])):
                if not panes.alive[row]:
                    continue
                level, series, number = pane_loops.unpack_key(int(panes.key[row]))
                count = pane_loops.pane_cells(row, panes, cells, cell, values)
                order = np.argsort(cell[:count])
                slide = int(self._slides_ms[level])
                key = PaneKey(slide, number * slide, names[series])
                result.append(ClosedPane(key, GridTable(cell[order], values[order])))
        return result

    def dump_sketches(self) -> list[ClosedSketch]:
        """All sketches, to be stored."""
        with self._lock:
            return self._sketches.dump(self._series)

    def _class_rows(self, rows: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
        """Rows of predictions over several classes as binary ones, a chunk at a time: each class against the rest."""
        blocks = read_blocks(rows)
        out = np.empty(max(_CHUNK, int(self._classes.classes.max(initial=0))), JOURNAL_ROW)
        index = block = 0
        while index < rows.size:
            written, index, block = class_rows(rows, blocks, self._classes, index, block, out)
            yield out[:written]

    def _accumulate(self, rows: NDArray[np.void], fan_out: FanOut) -> None:
        rows_needed = rows.size * int(np.diff(fan_out.start).max(initial=1)) * self._slides_ms.size
        with self._lock:
            self._changes += 1
            pane_loops.accumulate(
                rows,
                fan_out,
                self._slides_ms,
                self._grid,
                self._panes.reserve(rows_needed),
                self._cells.reserve(rows_needed),
                self._changes,
            )

    def _rows(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> tuple[NDArray[np.int64], Panes]:
        panes = self._panes.reserve(0)
        series_id = self._series.get(series)
        if series_id is None or to_ms <= from_ms:
            return np.zeros(0, np.int64), panes
        numbers = _numbers(slide_ms, from_ms, to_ms)
        numbered = np.empty(len(numbers), np.int64)
        count = pane_loops.pane_rows(panes, self._level(slide_ms), series_id, numbers.start, numbers.stop, numbered)
        return numbered[:count], panes

    def _level(self, slide_ms: int) -> int:
        return int(np.searchsorted(self._slides_ms, slide_ms))

    def _refresh(self) -> None:
        """Update the names if strata have appeared."""
        if self._fan_out.start.size - 1 != self._strata.stratum_count:
            self._update_names()

    def _update_names(self) -> None:
        self._fan_out = FanOut(*self._strata.fan_out())
        self._classes = ClassFanOut(*self._strata.class_fan_out())
        self._class_series = FanOut(np.arange(self._classes.series.size + 1, dtype=np.int32), self._classes.series)
        self._sketches.update_names()
        self._series = {name: at for at, name in enumerate(self._strata.series)}


def _numbers(slide_ms: int, from_ms: int, to_ms: int) -> range:
    """Numbers of the panes of this width that start in [from, to)."""
    return range(-(-max(from_ms, 0) // slide_ms), -(-max(to_ms, 0) // slide_ms))
