"""The panes of all partitions, added up for the evaluation."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from monitor.classes.sketch import SkceSketch
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.scores import GridTable, grid
from monitor.scores.grid_table import COLUMNS
from monitor.stream.partition import Partition


class Count(NamedTuple):
    """Number of events in one pane."""

    start_ms: int
    predictions: int
    labelled: int


class PaneView:
    """Sums panes over the assigned partitions. Any thread may read; the pipeline replaces the partitions."""

    def __init__(self) -> None:
        self._partitions: Mapping[int, Partition] = {}

    def show(self, partitions: Mapping[int, Partition]) -> None:
        """Show these partitions from now on."""
        self._partitions = dict(partitions)

    def series(self) -> list[SeriesKey]:
        """The series that have panes, ascending."""
        return sorted({key for partition in self._partitions.values() for key in partition.panes.series})

    def policy(self, model: str) -> ModelPolicy:
        """The policy of a model that has series. Raises KeyError for another."""
        for partition in self._partitions.values():
            clock = partition.clocks.get(model)
            if clock is not None:
                return clock[1]
        raise KeyError(model)

    def watermark_ms(self, model: str) -> int:
        """The newest event time of the model, over predictions, outcomes and partitions; -1 if none was read."""
        clocks = (partition.clocks.get(model) for partition in self._partitions.values())
        return max((clock[0] for clock in clocks if clock is not None), default=-1)

    def sum(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        """Sum of the panes of width ``slide_ms`` that start in [from, to)."""
        dense = np.zeros((grid.cell_count(), COLUMNS), np.int64)
        for partition in self._partitions.values():
            partition.panes.sum_into(dense, series, slide_ms, from_ms, to_ms)
        return GridTable.from_dense(dense)

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        """Sketch of whole probability vectors in the panes that start in [from, to); None if the series has none."""
        total: SkceSketch | None = None
        for partition in self._partitions.values():
            part = partition.panes.sketch(series, slide_ms, from_ms, to_ms)
            if part is not None:
                total = part if total is None else total + part
        return total

    def revision(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> Hashable:
        """Value that changes whenever a pane of width ``slide_ms`` that starts in [from, to) does."""
        return tuple(
            partition.panes.revision(series, slide_ms, from_ms, to_ms) for partition in self._partitions.values()
        )

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> list[Count]:
        """Number of events in each pane that starts in [from, to), ascending by start, without empty panes."""
        merged: dict[int, Count] = {}
        for partition in self._partitions.values():
            for start, predictions, labelled in partition.panes.counts(series, slide_ms, from_ms, to_ms):
                earlier = merged.get(start, Count(start, 0, 0))
                merged[start] = Count(start, earlier.predictions + predictions, earlier.labelled + labelled)
        return [merged[start] for start in sorted(merged)]

    def kept_from_ms(self, series: SeriesKey, slide_ms: int) -> int:
        """Start of the oldest panes of this width that all partitions keep."""
        return max((part.kept_from_ms(series.model, slide_ms) for part in self._partitions.values()), default=0)
