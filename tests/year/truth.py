"""The offline computation of a year: every prediction with its outcome as numbers, and what must come of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import ALL, SeriesKey
from monitor.scores import GridTable, grid
from monitor.scores.grid_table import COLUMNS
from monitor.scores.steps import Steps
from monitor.store.base import BACKFILL
from monitor.store.closing import Closing
from monitor.store.sql import SqlStore
from tests.year.fleet import MILLION, NO_ROWS, Fleet, Ints, Rows, region

Counts = Counter[tuple[str, str]]
"""(type, result) -> events."""


@dataclass
class Truth:
    """Predictions of the last weeks, with the outcomes that the service may know, and sums of all that it closed.

    Parameters
    ----------
    fleet
        Whose predictions they are.
    """

    fleet: Fleet
    counts: Counts = field(default_factory=Counter)
    """What the counters of the service must be once all is read."""

    def __post_init__(self) -> None:
        self._parts: list[tuple[Rows, Ints]] = [(NO_ROWS, np.zeros(0, np.int64))]
        self._numbers = {life.name: number for number, life in enumerate(self.fleet.lives)}
        self._closed_to_ms: dict[tuple[int, str], int] = {}
        self._by_model: tuple[Rows, list[Ints]] = NO_ROWS, []
        """All predictions, and where those of each life are."""

    # ------------------------------------------------------------------ what is known

    def add(self, rows: Rows, partition: Ints) -> None:
        """Add predictions that the log's partitions hold, in the order of their ids."""
        self._parts.append((rows, partition))

    @property
    def rows(self) -> Rows:
        """All predictions that are kept."""
        return self._joined()[0]

    @property
    def partition(self) -> Ints:
        """The partition of each."""
        return self._joined()[1]

    def _joined(self) -> tuple[Rows, Ints]:
        """What was added, in one part from now on: millions of rows are not copied for each hour."""
        if len(self._parts) != 1:
            rows, partitions = [one for one, _ in self._parts], [one for _, one in self._parts]
            self._parts = [(Rows.joined(rows), np.concatenate(partitions))]
        return self._parts[0]

    def _of_model(self, number: int) -> Ints:
        """Where the predictions of a life are: of millions of rows, no more is asked of all."""
        rows = self.rows
        if self._by_model[0] is not rows:
            order = np.argsort(rows.model, kind="stable")
            ends = np.searchsorted(rows.model[order], np.arange(1, len(self.fleet.lives)))
            self._by_model = rows, np.split(order, ends)
        return self._by_model[1][number]

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        rows, partition = self._joined()
        self._parts = [(rows.take(kept), partition[kept])]

    def holds(self, ids: Ints) -> NDArray[np.bool_]:
        """Whether each of these predictions was read, or will be."""
        held = np.zeros(ids.size, np.bool_)
        for rows, _ in self._parts:
            held |= np.isin(ids, rows.id)
        return held

    def regions(self, model: str, version: int) -> set[str]:
        """Segment values that a version has met."""
        number = self._numbers[model]
        rows = self.rows.take(self._of_model(number))
        regions = np.unique(rows.region[rows.version == version])
        return {region(self.fleet.lives[number], one) for one in regions.tolist()}

    def never_answered(self, ids: Ints) -> None:
        """Note predictions whose outcomes reach no partition that knows them."""
        for rows, _ in self._parts if ids.size else ():
            rows.y[np.isin(rows.id, ids)] = -1

    def lose(self, ids: Ints) -> None:
        """Forget predictions that were removed from the log before they were read."""
        self._keep(~np.isin(self.rows.id, ids))

    def forget(self, before_ms: int) -> None:
        """Forget predictions of earlier times."""
        self._keep(self.rows.time_ms >= before_ms)

    # ------------------------------------------------------------------ what must come of it

    def of(self, series: SeriesKey, from_ms: int = 0, to_ms: int | None = None) -> Rows:
        """The predictions of a series that were made in [from, to)."""
        number = self._numbers[series.model]
        rows = self.rows.take(self._of_model(number))
        chosen = (rows.version == int(series.version)) & (rows.time_ms >= from_ms)
        if to_ms is not None:
            chosen &= rows.time_ms < to_ms
        if series.segment != ALL:
            life = self.fleet.lives[number]
            chosen &= np.isin(
                rows.region, [one for one in np.unique(rows.region) if f"region={region(life, one)}" == series.segment]
            )
        return rows.take(chosen)

    def table(self, series: SeriesKey, from_ms: int, to_ms: int) -> GridTable:
        """The predictions of a series and span, counted on the grid."""
        return table_of(self.of(series, from_ms, to_ms))

    def steps(self, series: SeriesKey, pane_ms: int, to_ms: int) -> Steps:
        """The predictions of a series up to a time, pane by pane."""
        rows = self.of(series, 0, to_ms)
        pane = rows.time_ms // pane_ms
        return Steps.of(((int(one) + 1) * pane_ms, table_of(rows.take(pane == one))) for one in np.unique(pane))

    def differences(self, store: SqlStore) -> list[str]:
        """Compare the closings that the store has got since the last call; what differs, in words."""
        wrong = []
        for model, clocks in store.clocks().items():
            if model not in self._numbers:
                continue
            closed = {at: clock.closed_to_ms for at, clock in clocks.items() if at != BACKFILL}
            done = {at: self._closed_to_ms.get((at, model), -1) for at in closed}
            new = {at: done[at] for at, to_ms in closed.items() if to_ms > done[at]}
            for partition, closings in (store.read_closings(model, new) if new else {}).items():
                span_ms = done[partition], closed[partition]
                got, expected = _closed(closings, *span_ms), self._expected(model, partition, *span_ms)
                if got != expected:
                    wrong.append(f"closings of {model}, partition {partition}, times {span_ms}: {got}, not {expected}")
            self._closed_to_ms |= {(at, model): to_ms for at, to_ms in closed.items()}
        return wrong

    def _expected(self, model: str, partition: int, from_ms: int, to_ms: int) -> dict[str, list[int]]:
        of_model = self._of_model(self._numbers[model])
        rows = self.rows.take(of_model[self.partition[of_model] == partition])
        rows = rows.take((rows.time_ms >= from_ms) & (rows.time_ms < to_ms))
        sums = {}
        for version in np.unique(rows.version).tolist():
            of_version = rows.take(rows.version == version)
            column, units = np.where(of_version.y < 0, 2, 1 - of_version.y), grid.to_units(of_version.p / MILLION)
            values = np.zeros(COLUMNS, np.int64)
            np.add.at(values, column, 1)
            np.add.at(values, column + 3, units)
            sums[str(version)] = values.tolist()
        return sums


def table_of(rows: Rows) -> GridTable:
    """Count predictions on the grid."""
    return GridTable.from_events(rows.p / MILLION, rows.y)


def _closed(closings: Iterable[Closing], from_ms: int, to_ms: int) -> dict[str, list[int]]:
    """Version -> counts, and sums of the predictions, of what closings hold of a span."""
    sums: dict[str, Ints] = {}
    for closing in closings:
        cells = closing.panes.cells
        inside = (cells.start_ms >= from_ms) & (cells.start_ms < to_ms)
        values = cells.values.copy()
        values[:, 3:] += grid.anchors()[cells.cell][:, None] * values[:, :3]
        for number, key in enumerate(closing.panes.names):
            of_series = inside & (cells.series == number)
            if key.segment == ALL and of_series.any():
                sums[key.version] = sums.get(key.version, 0) + values[of_series].sum(axis=0)
    return {version: values.tolist() for version, values in sorted(sums.items())}
