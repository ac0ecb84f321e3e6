"""Reports of more rows than fit into memory: counted on the grid, table by table, then measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from monitor.arrays import Ints
from monitor.errors import InputError
from monitor.options import Option
from monitor.reports.evaluation.segments import segment_columns, segments_of
from monitor.scores import GridTable, grid
from monitor.scores.grid_counts import GridCounts
from monitor.scores.grid_table import NEGATIVES, POSITIVES
from monitor.sources.columns import encoded
from monitor.sources.tables import EventTable, SegmentColumn, TableSummary, cautions_of, crossed_columns

_MAX_VALUES: Final = 100_000
"""Combinations of values that are counted apart; a column of more is no division into groups."""


class GroupCounts:
    """Grid tables of the combinations of values that some columns have.

    Parameters
    ----------
    name
        What messages call the columns.
    memory
        Bytes that they may take.
    """

    def __init__(self, name: str, memory: float) -> None:
        self._name = name
        self._memory = memory
        self._numbers: dict[tuple[int, ...], int] = {}
        self._counts = GridCounts()

    def add(self, table: EventTable, codes: Sequence[Ints]) -> None:
        """Count the rows of a table; ``codes`` are the values of each column, shape (n,) each.

        Raises
        ------
        InputError
            The combinations are too many.
        """
        lowest = [int(code.min(initial=0)) for code in codes]
        sizes = [int(code.max(initial=0)) - low + 1 for code, low in zip(codes, lowest, strict=True)]
        joint = np.zeros(len(table), np.int64)
        for code, low, size in zip(codes, lowest, sizes, strict=True):
            joint = joint * size + (code - low)
        places, distinct = encoded(pa.array(joint))
        parts = np.unravel_index(np.array(distinct, np.int64), sizes)
        keys = zip(*((part + low).tolist() for part, low in zip(parts, lowest, strict=True)), strict=True)
        known = self._numbers
        number = np.array([known.setdefault(key, len(known)) for key in keys], np.int32)
        if len(known) <= _MAX_VALUES:
            outcome = table.outcome.astype(np.int8, copy=False)
            self._counts.add(table.prediction, outcome, number[places], len(known))
        if len(known) > _MAX_VALUES or self._counts.nbytes > self._memory:
            raise InputError(
                f"{self._name} has {len(known):,} groups or more, for whose counts {Option.MEMORY} has no room: name "
                f"columns of fewer values, choose fewer rows with {Option.WHERE}, or give more {Option.MEMORY}"
            )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(table.predictions for table in self.tables())

    def codes(self) -> Ints:
        """The values of each combination, int64, shape (combinations, columns)."""
        return np.array(list(self._numbers), np.int64)

    def tables(self) -> Iterator[GridTable]:
        """Yield the table of each combination."""
        return (self._counts.table(number) for number in range(len(self._numbers)))


class CountedRows(NamedTuple):
    """Rows that were counted on the grid.

    Attributes
    ----------
    whole
        All rows.
    segments
        Named segments with their rows.
    span_ms
        From the first row's time to after the last one's; None where the rows have no times.
    notes, cautions
        What was assumed, and what to mind.
    """

    whole: GridTable
    segments: Sequence[tuple[str, GridTable]]
    span_ms: tuple[int, int] | None
    notes: tuple[str, ...]
    cautions: tuple[str, ...]


class Counting:
    """Counts the rows of one table after another.

    Parameters
    ----------
    segments
        Columns to report on, or several that are crossed as ``a*b``.
    memory
        Bytes that the counts may take.
    """

    def __init__(self, segments: Sequence[str], memory: float) -> None:
        self._whole = GridCounts()
        self._segments = {name: GroupCounts(f"{Option.SEGMENT} {name!r}", memory / len(segments)) for name in segments}
        self._columns: Mapping[str, SegmentColumn] = {}
        self._predictions = (1.0, 0.0)
        self._times_ms: tuple[int, int] | None = None
        self._has_times = True

    def add(self, table: EventTable) -> None:
        """Count the rows of a table.

        Raises
        ------
        InputError
            A segment column has too many values.
        """
        if not len(table):
            return
        prediction, times = table.prediction, table.time_ms
        self._whole.add(prediction, table.outcome.astype(np.int8, copy=False), np.zeros(len(table), np.int32), 1)
        least, largest = self._predictions
        self._predictions = min(least, float(prediction.min())), max(largest, float(prediction.max()))
        if times is None:
            self._has_times = False
        else:
            first, last = self._times_ms or (int(times[0]), int(times[0]))
            self._times_ms = min(first, int(times.min())), max(last, int(times.max()))
        self._columns = table.segments
        for name, counts in self._segments.items():
            parts = crossed_columns(name, table.segments)
            counts.add(table, [table.segments[part].codes.astype(np.int64) for part in parts])

    def finish(self, notes: Sequence[str], cautions: Sequence[str]) -> CountedRows:
        """All rows; ``notes`` and ``cautions`` are of reading them."""
        whole = self._whole.table(*range(self._whole.groups))
        segments = [pair for name, counts in self._segments.items() for pair in self._segments_of(name, counts)]
        times = self._times_ms if self._has_times else None
        return CountedRows(
            whole,
            segments,
            None if times is None else (times[0], times[1] + 1),
            tuple(notes),
            (*cautions, *cautions_of(self._summary(whole))),
        )

    def _segments_of(self, name: str, counts: GroupCounts) -> Iterator[tuple[str, GridTable]]:
        """Put numbers into ranges and sum rare values, as of raw rows: each combination is a row of so many rows."""
        tables, codes = list(counts.tables()), counts.codes()
        sizes = np.array([table.predictions for table in tables], np.int64)
        parts = crossed_columns(name, self._columns)
        columns = {
            part: replace(self._columns[part], codes=codes[:, at].astype(np.int32)) for at, part in enumerate(parts)
        }
        for segment, rows in segments_of(segment_columns(columns, [name], counts=sizes), counts=sizes):
            yield segment, GridTable.sum(tables[row] for row in rows)

    def _summary(self, whole: GridTable) -> TableSummary:
        least, largest = self._predictions
        positives, negatives = (bool(whole.values[:, column].any()) for column in (POSITIVES, NEGATIVES))
        return TableSummary(
            rows=whole.predictions,
            one_prediction=f"{least:g}" if least == largest and whole.predictions > 1 else None,
            ends_only=bool(np.isin(whole.cell, (0, grid.cell_count() - 1)).all()),
            labelled=whole.labelled,
            one_outcome=int(positives) if positives != negatives else None,
        )


def count_rows(
    tables: Iterable[EventTable],
    lines: Callable[[], tuple[list[str], list[str]]],
    segments: Sequence[str],
    memory: float,
) -> CountedRows:
    """Count all rows of some tables.

    Parameters
    ----------
    tables
        Tables whose segment columns have the same values, in the same order, as far as each has them.
    lines
        Notes and cautions, once all tables were read.
    segments, memory
        See :class:`Counting`.
    """
    counting = Counting(segments, memory)
    for table in tables:
        counting.add(table)
    notes, cautions = lines()
    return counting.finish(notes, cautions)
