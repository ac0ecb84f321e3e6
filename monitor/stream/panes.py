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
from monitor.stream import pane_loops as kernel
from monitor.stream.columns import GrowingTable
from monitor.stream.join_table_loops import USED
from monitor.stream.pane_loops import Cells, FanOut, Grid, Panes
from monitor.stream.sketches import SketchTable
from monitor.stream.vector_loops import ClassFanOut, class_rows
from monitor.stream.vectors import blocks_in

_CHUNK: Final = 4096
"""Rows accumulated at once: room is made for the worst case, in which each row opens a pane of its own."""

_identities: Final = itertools.count()
"""Tells tables apart: that of a partition which comes back counts its changes from the start."""


class PanesRevision(NamedTuple):
    """What panes of one table are at a time: two are equal only where the panes are."""

    table: int
    last_change: int
    panes: int


class PaneTable:
    """Sparse panes of one partition. Safe for one writer and any number of readers.

    Parameters
    ----------
    strata
        Says which series a stratum's predictions belong to.
    slides_ms
        Widths of the panes that are kept.
    """

    def __init__(self, strata: Strata, slides_ms: Sequence[int]) -> None:
        self._strata = strata
        self._slides_ms = np.array(sorted(slides_ms), np.int64)
        self._panes: GrowingTable[Panes] = GrowingTable(
            Panes,
            {
                "key": (np.uint64, ()),
                "nothing": (np.uint64, ()),
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
        self._take_up_names()

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return self._panes.nbytes + self._cells.nbytes + self._sketches.nbytes

    @property
    def series(self) -> Mapping[SeriesKey, int]:
        """The series that have panes, with their ids. Not to be changed; replaced when a new one appears."""
        return self._series

    def accumulate(self, rows: NDArray[np.void]) -> None:
        """Add what rows of the journal say, in any order but that of the rows of one prediction."""
        self._refresh()
        for start in range(0, rows.size, _CHUNK):
            self._accumulate(rows[start : start + _CHUNK], self._fan_out)
        if (rows["entry"] == VECTOR).any():
            for of_classes in self._class_rows(rows):
                self._accumulate(of_classes, self._each_class)
            for part in self._sketches.contributions(rows):
                with self._lock:
                    self._changes += 1
                    self._sketches.add(part, self._changes)

    def add(self, panes: Iterable[ClosedPane]) -> None:
        """Add closed panes, as they were stored. Those of a width that is no longer kept are passed over."""
        self._refresh()
        levels = {int(slide): level for level, slide in enumerate(self._slides_ms)}
        for key, table in panes:
            level, series = levels.get(key.slide_ms), self._series.get(key.series)
            if level is None or series is None:
                continue
            packed = np.uint64(kernel.pane_key(level, series, key.start_ms // key.slide_ms))
            with self._lock:
                self._changes += 1
                kernel.add_cells(
                    packed,
                    table.cell,
                    table.values,
                    self._panes.reserve(1),
                    self._cells.reserve(table.cell.size),
                    self._changes,
                )

    def add_sketches(self, sketches: Iterable[ClosedSketch]) -> None:
        """Add closed sketches, as they were stored. Those that are no longer of use are passed over."""
        self._refresh()
        for closed in sketches:
            with self._lock:
                self._changes += 1
                self._sketches.add_closed(closed, self._series, self._changes)

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        """The sketch of the panes that start in [from, to); None where the series has none."""
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
                kernel.sum_panes(rows, panes, self._cells.reserve(0), dense)

    def revision(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> PanesRevision:
        """What changes whenever a pane that starts in [from, to) does, appears or expires; without summing any."""
        series_id = self._series.get(series)
        if series_id is None or to_ms <= from_ms:
            return PanesRevision(self._identity, 0, 0)
        numbers = _numbers(slide_ms, from_ms, to_ms)
        with self._lock:
            # A pane that expires is one less, and one that comes back has changed.
            newest, panes = kernel.last_change(
                self._panes.reserve(0), self._level(slide_ms), series_id, numbers.start, numbers.stop
            )
            # A correction from one class to another may change the sketch alone.
            newest = max(newest, self._sketches.last_change(series_id, slide_ms, numbers))
        return PanesRevision(self._identity, newest, panes)

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> list[tuple[int, int, int]]:
        """(start, predictions, labelled) of each pane that starts in [from, to), ascending; empty ones left out."""
        with self._lock:
            rows, panes = self._rows(series, slide_ms, from_ms, to_ms)
            numbers = panes.key[rows] & np.uint64(0xFFFFFFFF)
            columns = (numbers.astype(np.int64) * slide_ms, panes.predictions[rows], panes.labelled[rows])
            return list(zip(*(column.tolist() for column in columns), strict=True))

    def expire(self, before_ms: NDArray[np.int64]) -> int:
        """Forget the panes that start before ``before_ms[level, series]``; levels ascend by width."""
        with self._lock:
            slides = self._slides_ms.tolist()
            self._sketches.expire(
                {
                    (series_id, slide): at_ms
                    for slide, of_level in zip(slides, before_ms.tolist(), strict=True)
                    for series_id, at_ms in enumerate(of_level)
                }
            )
            return int(kernel.expire(self._panes.reserve(0), self._cells.reserve(0), self._slides_ms, before_ms))

    def dump(self) -> list[ClosedPane]:
        """All panes, as they are stored."""
        names = list(self._series)
        result = []
        cell = np.empty(grid.cell_count(), np.int64)
        values = np.empty((grid.cell_count(), COLUMNS), np.int64)
        with self._lock:
            panes, cells = self._panes.reserve(0), self._cells.reserve(0)
            for row in range(int(self._panes.meta[USED])):
                if not panes.alive[row]:
                    continue
                level, series, number = kernel.unpack_key(int(panes.key[row]))
                count = kernel.pane_cells(row, panes, cells, cell, values)
                order = np.argsort(cell[:count])
                slide = int(self._slides_ms[level])
                key = PaneKey(slide, number * slide, names[series])
                result.append(ClosedPane(key, GridTable(cell[order], values[order])))
        return result

    def dump_sketches(self) -> list[ClosedSketch]:
        """All sketches, as they are stored."""
        with self._lock:
            return self._sketches.dump(self._series)

    def _class_rows(self, rows: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
        """Rows of predictions over several classes as binary ones, a chunk at a time: each class against the rest."""
        blocks = blocks_in(rows)
        out = np.empty(max(_CHUNK, int(self._classes.classes.max(initial=0))), JOURNAL_ROW)
        index = block = 0
        while index < rows.size:
            written, index, block = class_rows(rows, blocks, self._classes, index, block, out)
            yield out[:written]

    def _accumulate(self, rows: NDArray[np.void], fan_out: FanOut) -> None:
        room = rows.size * int(np.diff(fan_out.start).max(initial=1)) * self._slides_ms.size
        with self._lock:
            self._changes += 1
            kernel.accumulate(
                rows,
                fan_out,
                self._slides_ms,
                self._grid,
                self._panes.reserve(room),
                self._cells.reserve(room),
                self._changes,
            )

    def _rows(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> tuple[NDArray[np.int64], Panes]:
        panes = self._panes.reserve(0)
        series_id = self._series.get(series)
        if series_id is None or to_ms <= from_ms:
            return np.zeros(0, np.int64), panes
        numbers = _numbers(slide_ms, from_ms, to_ms)
        found = np.empty(len(numbers), np.int64)
        count = kernel.pane_rows(panes, self._level(slide_ms), series_id, numbers.start, numbers.stop, found)
        return found[:count], panes

    def _level(self, slide_ms: int) -> int:
        return int(np.searchsorted(self._slides_ms, slide_ms))

    def _refresh(self) -> None:
        """Take up series that have appeared."""
        if self._fan_out.start.size - 1 != self._strata.stratum_count:
            self._take_up_names()

    def _take_up_names(self) -> None:
        self._fan_out = FanOut(*self._strata.fan_out())
        self._classes = ClassFanOut(*self._strata.class_fan_out())
        self._each_class = FanOut(np.arange(self._classes.series.size + 1, dtype=np.int32), self._classes.series)
        self._sketches.take_up_names()
        self._series = {name: at for at, name in enumerate(self._strata.series)}


def _numbers(slide_ms: int, from_ms: int, to_ms: int) -> range:
    """Numbers of the panes of this width that start in [from, to)."""
    return range(-(-max(from_ms, 0) // slide_ms), -(-max(to_ms, 0) // slide_ms))
