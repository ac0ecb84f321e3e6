"""The panes of all partitions: closings from the store, summed at every width that windows have."""

import itertools
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from monitor.arrays import Ints
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.scores.grid_table import POSITIVE_SUM, UNLABELLED, imply_negatives
from monitor.scores.sketch import SkceSketch
from monitor.scores.steps import Steps
from monitor.store.base import BACKFILL, Checkpoint, ModelClock, PartitionClock
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.settled import Hold, SettledEdge, running, settled_edge
from monitor.store.sql import SqlStore
from monitor.windows.pane import Pane
from monitor.windows.windows import Count

_NEVER: Final = -1

_ROWS_AT_ONCE: Final = 1 << 16
"""Rows of closings that are added together."""


@dataclass(slots=True)
class _Level:
    """The panes of one width, those of all series together."""

    panes: dict[int, Pane] = field(default_factory=dict)
    """Panes by start."""
    sketches: dict[tuple[SeriesKey, int], SkceSketch] = field(default_factory=dict)
    windows: dict[int, tuple[int, int, Cells]] = field(default_factory=dict)
    """Length -> [from, to) of the last window of that length, and its sum."""

    def add(self, cells: Cells, slide_ms: int) -> None:
        start_ms = cells.start_ms - cells.start_ms % slide_ms
        order = np.argsort(start_ms, kind="stable")
        first = np.flatnonzero(np.diff(start_ms[order], prepend=-1))
        for part in np.split(order, first[1:]):
            if part.size:
                at_ms = int(start_ms[part[0]])
                if at_ms not in self.panes:
                    self.panes[at_ms] = Pane(at_ms)
                self.panes[at_ms].add(cells.take(part))
                # A pane of a window that was summed: only where a partition closes what another one's edge has passed.
                for length, (from_ms, to_ms, _) in list(self.windows.items()):
                    if from_ms <= at_ms < to_ms:
                        del self.windows[length]

    def starts(self, slide_ms: int, from_ms: int, to_ms: int) -> list[int]:
        """The starts of the panes in [from, to), ascending."""
        numbers = range(-(-from_ms // slide_ms), -(-to_ms // slide_ms))
        if len(numbers) > len(self.panes):
            return sorted(start for start in self.panes if from_ms <= start < to_ms)
        return [number * slide_ms for number in numbers if number * slide_ms in self.panes]

    def cells(self, slide_ms: int, from_ms: int, to_ms: int) -> Iterator[Cells]:
        """Yield the rows of each pane that starts in [from, to)."""
        return (self.panes[start].cells() for start in self.starts(slide_ms, from_ms, to_ms))

    def total(self, slide_ms: int, from_ms: int, to_ms: int) -> Cells:
        """Sum of the panes that start in [from, to), by series and cell."""
        last = self.windows.get(to_ms - from_ms)
        if last is not None and (from_ms, to_ms) == last[:2]:
            return last[2]
        if last is not None and last[0] <= from_ms < last[1] <= to_ms:
            left = (cells._replace(values=-cells.values) for cells in self.cells(slide_ms, last[0], from_ms))
            total = _total([last[2], *self.cells(slide_ms, last[1], to_ms), *left])
        else:
            total = _total(self.cells(slide_ms, from_ms, to_ms))
        self.windows[to_ms - from_ms] = from_ms, to_ms, total
        return total

    def expire(self, before_ms: int) -> None:
        for start in [start for start in self.panes if start < before_ms]:
            del self.panes[start]
        # A window cannot move on from panes that are gone: they would stay in its sum.
        for length in [length for length, (from_ms, _, _) in self.windows.items() if from_ms < before_ms]:
            del self.windows[length]
        for key in [key for key in self.sketches if key[1] < before_ms]:
            del self.sketches[key]


class _Model:
    """What is known of one model."""

    def __init__(self, slides_ms: Iterable[int]) -> None:
        self.levels = {slide_ms: _Level() for slide_ms in slides_ms}
        self.series: Mapping[SeriesKey, int] = {}
        """The ids of the series that have panes. Replaced as a whole, as other threads read it."""
        self._next_series = 0
        self.clocks: dict[int, ModelClock] = {}
        """Clocks by partition."""
        self.kept_from_ms = dict.fromkeys(self.levels, 0)
        self.settled = SettledEdge(_NEVER)
        self.edge_ms = _NEVER
        self.late = 0
        """Closings that came for times which the edge had passed."""

    def place(self, names: Sequence[SeriesKey]) -> Ints:
        """The ids of series; new ones get one."""
        new = {name: at for at, name in enumerate(sorted(set(names) - self.series.keys()), self._next_series)}
        if new:
            self.series = {**self.series, **new}
            self._next_series += len(new)
        return np.array([self.series[name] for name in names], np.int64)

    def forget_series(self, others: Collection[SeriesKey]) -> None:
        """Forget the series that have no panes any more, apart from others."""
        widest = self.levels[max(self.levels)].panes.values()
        held = set(np.concatenate([np.empty(0, np.int64), *(pane.series() for pane in widest)]).tolist())
        self.series = {key: number for key, number in self.series.items() if number in held or key in others}


class ClosedPanes:
    """Sums panes over all partitions. One thread adds; any may read.

    Parameters
    ----------
    kept_ms
        Width of panes -> how long they are kept behind the settled edge.
    policy
        The policy of a model by name, or None for a model that must be declared and is not.
    """

    def __init__(self, kept_ms: Mapping[int, int], policy: Callable[[str], ModelPolicy | None]) -> None:
        self._kept_ms = dict(sorted(kept_ms.items()))
        self._policy = policy
        self._models: dict[str, _Model] = {}
        self._partitions: Mapping[int, PartitionClock] = {}
        self._unsettled: dict[int, Panes] = {}
        self._unsettled_number = 0
        self._lock = threading.Lock()

    @property
    def narrowest_ms(self) -> int:
        """Width of the narrowest panes."""
        return min(self._kept_ms)

    @property
    def longest_kept_ms(self) -> int:
        """How long any panes are kept behind the settled edge."""
        return max(self._kept_ms.values())

    # What is added.

    def clock(self, partition: int, model: str) -> ModelClock:
        """How far a partition was with a model when it was last advanced."""
        known = self._models.get(model)
        return _UNKNOWN if known is None else known.clocks.get(partition, _UNKNOWN)

    def advance(self, partition: int, model: str, clock: ModelClock, closings: Iterable[Closing]) -> None:
        """Add the closings of a partition and model that end after the last ones.

        Of a closing that begins before those ended, because closings were merged, only the rest is added. The closings
        may reach further than the clock, if it was read before them.
        """
        self.advance_all(model, {partition: clock}, {partition: closings})

    def advance_all(
        self, model: str, clocks: Mapping[int, ModelClock], closings: Mapping[int, Iterable[Closing]]
    ) -> None:
        """Advance the partitions of a model whose clocks have changed, as :meth:`advance`."""
        with self._lock:
            known = self._models.setdefault(model, _Model(self._kept_ms))
            moved = {at: clock for at, clock in clocks.items() if at in closings or clock != known.clocks.get(at)}
            self._advance(known, moved, closings)

    def keep(self, models: Mapping[str, Mapping[int, ModelClock]]) -> dict[str, Mapping[int, ModelClock]]:
        """Forget the models that have stopped; returns the others, given how far each is by partition.

        The clocks of one that stopped a day ago are removed, which this process may not have noticed before.
        """
        kept = running(models, self._policy, max(self._kept_ms.values()))
        with self._lock:
            for model in self._models.keys() - kept.keys():
                del self._models[model]
        return kept

    def closed_since(self, model: str, clocks: Mapping[int, ModelClock]) -> dict[int, int]:
        """Partition -> the time up to which it was advanced, of those that have closed more of the model since."""
        known = self._models.get(model)
        done = {} if known is None else known.clocks
        done_ms = {partition: done.get(partition, _UNKNOWN).closed_to_ms for partition in clocks}
        return {partition: at_ms for partition, at_ms in done_ms.items() if clocks[partition].closed_to_ms > at_ms}

    def _advance(
        self, model: _Model, clocks: Mapping[int, ModelClock], closings: Mapping[int, Iterable[Closing]]
    ) -> None:
        # Added in few large parts: to add one takes longer than to read it.
        parts: defaultdict[int, list[Cells]] = defaultdict(list)
        rows = 0
        for partition, clock in clocks.items():
            done_ms = model.clocks.get(partition, _UNKNOWN).closed_to_ms
            closed_to_ms = clock.closed_to_ms
            for closing in closings.get(partition, ()):
                parts[closing.pane_ms].append(self._take(model, closing, done_ms if done_ms > closing.from_ms else 0))
                closed_to_ms = max(closed_to_ms, closing.to_ms)
                rows += parts[closing.pane_ms][-1].series.size
                if rows > _ROWS_AT_ONCE:
                    self._add(model, parts)
                    rows = 0
            model.clocks[partition] = clock._replace(closed_to_ms=closed_to_ms)
        self._add(model, parts)

    def is_backfilled(self, model: str, clocks: Mapping[int, ModelClock]) -> bool:
        """Whether there was a backfill since this model was added: it may be of earlier times, or replace closings."""
        backfill = clocks.get(BACKFILL, _UNKNOWN)
        return model in self._models and backfill.saved_ms != self.clock(BACKFILL, model).saved_ms

    def is_widened(self, partition: int, model: str, closings: Iterable[Closing]) -> bool:
        """Whether one of these closings has a pane of which a part alone was added, while panes were narrower."""
        done_ms = self.clock(partition, model).closed_to_ms
        return any(part.from_ms < done_ms < part.to_ms and done_ms % part.pane_ms for part in closings)

    def restart(
        self,
        model: str,
        clocks: Mapping[int, ModelClock],
        closings: Mapping[int, Iterable[Closing]],
        now_ms: int,
    ) -> None:
        """Replace what was added of a model by all closings of all its partitions."""
        with self._lock:
            earlier, known = self._models[model], _Model(self._kept_ms)
            known.edge_ms, known.late = earlier.edge_ms, earlier.late + 1
            known.kept_from_ms = earlier.kept_from_ms
            self._advance(known, clocks, closings)
            self._settle(model, known, now_ms)
            self._models[model] = known

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add what a checkpoint publishes, without a store in between."""
        read = PartitionClock(checkpoint.read_to_ms, saved_ms=0)
        self.show_partitions({**self._partitions, checkpoint.partition: read})
        closings: defaultdict[str, list[Closing]] = defaultdict(list)
        for closing in checkpoint.closings:
            closings[closing.model].append(closing)
        for name, *clock in checkpoint.models:
            self.advance(checkpoint.partition, name, ModelClock(*clock), closings[name])
        for model in self._models:
            self.settle(model)
        if checkpoint.unsettled is not None:
            self.show_unsettled(checkpoint.partition, checkpoint.unsettled)

    def _take(self, model: _Model, closing: Closing, from_ms: int) -> Cells:
        """The rows of a closing from a time on, by the model's series; sketches from then on are added here."""
        panes = closing.panes
        for slide_ms, level in model.levels.items():
            for part in panes.sketches if closing.pane_ms <= slide_ms else ():
                if part.start_ms >= from_ms:
                    key = part.series, part.start_ms - part.start_ms % slide_ms
                    earlier = level.sketches.get(key)
                    same_plan = earlier is not None and earlier.plan == part.sketch.plan
                    level.sketches[key] = earlier + part.sketch if same_plan else part.sketch  # type: ignore[operator]
        cells = panes.cells._replace(series=model.place(panes.names)[panes.cells.series])
        return cells.take(np.flatnonzero(cells.start_ms >= from_ms)) if from_ms else cells

    def _add(self, model: _Model, parts: defaultdict[int, list[Cells]]) -> None:
        """Add rows, by the width of their panes, and empty the lists."""
        while parts:
            pane_ms, of_width = parts.popitem()
            cells = Cells.joined(of_width).summed()
            model.late += int(cells.start_ms.min(initial=model.edge_ms) < model.edge_ms)
            for slide_ms, level in model.levels.items():
                if pane_ms <= slide_ms:
                    level.add(cells.take(np.flatnonzero(cells.start_ms >= model.kept_from_ms[slide_ms])), slide_ms)

    def show_partitions(self, partitions: Mapping[int, PartitionClock]) -> None:
        """Replace how far the partitions are read; before the models that they have met are advanced."""
        self._partitions = partitions

    def settle(self, model: str, now_ms: int = 0) -> None:
        """Move the settled edge of a model to where all partitions are, and remove what is too old.

        ``now_ms`` is the wall-clock time, which says for how long a partition has not been read.
        """
        with self._lock:
            self._settle(model, self._models[model], now_ms)

    def _settle(self, model: str, known: _Model, now_ms: int) -> None:
        policy = self._policy(model) or _UNDECLARED
        known.settled = settled_edge(known.clocks, self._partitions, policy, self.narrowest_ms, now_ms)
        known.edge_ms = max(known.edge_ms, known.settled.to_ms)
        for slide_ms, level in known.levels.items():
            before_ms = known.edge_ms - self._kept_ms[slide_ms]
            before_ms -= before_ms % slide_ms
            if before_ms > known.kept_from_ms[slide_ms]:
                level.expire(before_ms)
                known.kept_from_ms[slide_ms] = before_ms
                if slide_ms == max(known.levels):
                    known.forget_series({name for panes in self._unsettled.values() for name in panes.names})

    def show_unsettled(self, partition: int, panes: Panes) -> None:
        """Replace the summary of what a partition has not settled."""
        with self._lock:
            self._unsettled = {**self._unsettled, partition: panes}
            self._unsettled_number += 1
            for name, names in itertools.groupby(panes.names, lambda key: key.model):
                if (known := self._models.get(name)) is not None:
                    known.place(list(names))

    # What is read.

    def series(self) -> list[SeriesKey]:
        """The series that have panes, ascending."""
        return sorted(key for model in list(self._models.values()) for key in list(model.series))

    def policy(self, model: str) -> ModelPolicy:
        """The policy of a model. Raises KeyError for one that is not declared and has to be."""
        policy = self._policy(model)
        if policy is None:
            raise KeyError(model)
        return policy

    def watermark_ms(self, model: str) -> int:
        """The newest event time of the model, over predictions, outcomes and partitions; -1 if none was read."""
        known = self._models.get(model)
        clocks = [] if known is None else list(known.clocks.values())
        return max((max(clock.prediction_watermark_ms, clock.outcome_watermark_ms) for clock in clocks), default=_NEVER)

    def edge_ms(self, model: str) -> int:
        """The time before which the model's predictions are settled, in all partitions; -1 if none are."""
        known = self._models.get(model)
        return _NEVER if known is None else known.edge_ms

    def held_back_by(self, model: str) -> Hold | None:
        """The partition that holds the settled edge of the model back; None if none does."""
        known = self._models.get(model)
        return None if known is None else known.settled.held_back_by

    def sum(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        """Sum of the panes of width ``slide_ms`` that start in [from, to)."""
        known = self._models.get(series.model)
        if known is None:
            return GridTable.zero()
        with self._lock:
            if series not in known.series:
                return GridTable.zero()
            edge_ms = min(to_ms, known.edge_ms - known.edge_ms % slide_ms)
            series_id, level = known.series[series], known.levels[slide_ms]
            parts = [level.total(slide_ms, from_ms, edge_ms).of_series(series_id)] if edge_ms > from_ms else []
            if to_ms > edge_ms:
                parts += self._beyond_edge(known, series, slide_ms, max(from_ms, edge_ms), to_ms)
        total = _total(parts)
        return GridTable(total.cell, total.values)

    def sum_settled(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        """The same for any span before the settled edge. It is not kept, as the sums of windows are, which move on."""
        known = self._models.get(series.model)
        if known is None:
            return GridTable.zero()
        with self._lock:
            if series not in known.series:
                return GridTable.zero()
            cells = known.levels[slide_ms].cells(slide_ms, from_ms, to_ms)
            total = _total(part.of_series(known.series[series]) for part in cells)
        return GridTable(total.cell, total.values)

    def settled_span(self, series: SeriesKey, from_ms: int, to_ms: int) -> tuple[int, GridTable]:
        """The settled predictions of [from, to), as far back as panes are kept: where they begin, and their sum.

        Predictions without an outcome count as negatives where the model's policy says so.
        """
        width_ms = self.width_kept_since(series, from_ms)
        begin_ms = -(-max(from_ms, self.kept_from_ms(series, width_ms)) // width_ms) * width_ms
        edge_ms = self.edge_ms(series.model)
        end_ms = min(to_ms, edge_ms - edge_ms % self.narrowest_ms)
        # The end from the narrowest panes: the last wide one holds predictions that are not settled.
        whole_ms = max(begin_ms, end_ms - end_ms % width_ms)
        spans = [(width_ms, begin_ms, whole_ms), (self.narrowest_ms, whole_ms, end_ms)]
        table = GridTable.sum([self.sum_settled(series, *span) for span in spans if span[1] < span[2]])
        return begin_ms, table.with_implied_negatives() if self.policy(series.model).implied_negative else table

    def width_kept_since(self, series: SeriesKey, from_ms: int) -> int:
        """Width of the narrowest panes that are kept since a time; if none are, of those that are kept longest."""
        kept = {width_ms: self.kept_from_ms(series, width_ms) for width_ms in sorted(self._kept_ms)}
        width_ms = next((width_ms for width_ms, since_ms in kept.items() if since_ms <= from_ms), None)
        return min(kept, key=kept.__getitem__) if width_ms is None else width_ms

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        """Sketch of whole probability vectors in the panes that start in [from, to); None if the series has none."""
        known = self._models.get(series.model)
        if known is None:
            return None
        with self._lock:
            level = known.levels[slide_ms]
            parts = [
                sketch
                for (key, start_ms), sketch in level.sketches.items()
                if key == series and from_ms <= start_ms < to_ms
            ]
            for partition, panes in self._unsettled.items():
                first_ms = known.clocks.get(partition, _UNKNOWN).closed_to_ms
                parts += [
                    part.sketch
                    for part in panes.sketches
                    if part.series == series and first_ms <= part.start_ms and from_ms <= part.start_ms < to_ms
                ]
        return _sum_of_newest(parts)

    def revision(self, series: SeriesKey, to_ms: int) -> Hashable:
        """Value that changes whenever a pane that starts before a time may have."""
        known = self._models.get(series.model)
        if known is None:
            return None
        return known.late, self._unsettled_number if to_ms > known.edge_ms else None

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> list[Count]:
        """Number of events in each pane that starts in [from, to), ascending by start, without empty panes."""
        known = self._models.get(series.model)
        if known is None:
            return []
        with self._lock:
            if series not in known.series:
                return []
            series_id, level = known.series[series], known.levels[slide_ms]
            at_ms = [np.array(level.starts(slide_ms, from_ms, to_ms), np.int64)]
            settled = [level.panes[at].counts(series_id) for at in at_ms[0].tolist()]
            counted = [np.array(settled, np.int64).reshape(-1, POSITIVE_SUM)]
            for cells in self._unsettled_cells(known, series):
                start_ms = cells.start_ms - cells.start_ms % slide_ms
                inside = (start_ms >= from_ms) & (start_ms < to_ms)
                at_ms.append(start_ms[inside])
                counted.append(cells.values[inside, :POSITIVE_SUM])
        panes, place = np.unique(np.concatenate(at_ms), return_inverse=True)
        totals = np.zeros((panes.size, POSITIVE_SUM), np.int64)
        np.add.at(totals, place, np.concatenate(counted))
        answered = totals[:, :UNLABELLED].sum(axis=1)
        rows = zip(panes.tolist(), totals.sum(axis=1).tolist(), answered.tolist(), strict=True)
        return [Count(*row) for row in rows if row[1]]

    def steps(self, model: str, from_ms: int) -> dict[SeriesKey, Steps] | None:
        """The narrowest settled panes from a time on, of each series that has one; None if some are gone.

        Predictions without an outcome count as negatives where the model's policy says so.
        """
        known = self._models.get(model)
        if known is None:
            return {}
        slide_ms = self.narrowest_ms
        with self._lock:
            if from_ms < known.kept_from_ms[slide_ms]:
                return None
            parts = list(known.levels[slide_ms].cells(slide_ms, from_ms, known.edge_ms - known.edge_ms % slide_ms))
            names = {number: key for key, number in known.series.items()}
        return steps_of(Cells.joined(parts), names, slide_ms, implied_negatives=self.policy(model).implied_negative)

    def settled_steps(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> Steps:
        """The settled panes of one series and width that start in [from, to), as far as they are kept.

        Predictions without an outcome count as negatives where the model's policy says so.
        """
        known = self._models.get(series.model)
        if known is None:
            return Steps.of([])
        with self._lock:
            if series not in known.series:
                return Steps.of([])
            edge_ms = min(to_ms, known.edge_ms - known.edge_ms % slide_ms)
            number = known.series[series]
            parts = [cells.of_series(number) for cells in known.levels[slide_ms].cells(slide_ms, from_ms, edge_ms)]
        implied = self.policy(series.model).implied_negative
        found = steps_of(Cells.joined(parts), {number: series}, slide_ms, implied_negatives=implied)
        return found.get(series) or Steps.of([])

    def kept_from_ms(self, series: SeriesKey, slide_ms: int) -> int:
        """Start of the oldest panes of this width that are kept."""
        known = self._models.get(series.model)
        return 0 if known is None else known.kept_from_ms[slide_ms]

    def _beyond_edge(
        self, model: _Model, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int
    ) -> Iterator[Cells]:
        """The panes beyond the edge: those that some partitions have closed, and what is not settled."""
        for cells in model.levels[slide_ms].cells(slide_ms, from_ms, to_ms):
            yield cells.of_series(model.series[series])
        for cells in self._unsettled_cells(model, series):
            start_ms = cells.start_ms - cells.start_ms % slide_ms
            yield cells.take(np.flatnonzero((start_ms >= from_ms) & (start_ms < to_ms)))

    def _unsettled_cells(self, model: _Model, series: SeriesKey) -> Iterator[Cells]:
        """The rows of a series in each partition's summary, without what the partition has closed since."""
        for partition, panes in self._unsettled.items():
            place = bisect_left(panes.names, series)
            if place < len(panes.names) and panes.names[place] == series:
                cells = panes.cells.of_series(place)
                cells = cells._replace(series=np.full_like(cells.series, model.series[series]))
                yield cells.take(np.flatnonzero(cells.start_ms >= model.clocks.get(partition, _UNKNOWN).closed_to_ms))


_UNKNOWN: Final = ModelClock(_NEVER, _NEVER, _NEVER)
_UNDECLARED: Final = ModelPolicy(horizon_ms=0, lateness_ms=0)


def _total(parts: Iterable[Cells]) -> Cells:
    """The sum by series and cell, whatever the pane, without cells that are empty."""
    joined = Cells.joined(parts)
    total = joined._replace(start_ms=np.zeros_like(joined.start_ms)).summed()
    return total.take(np.flatnonzero(total.values[:, :POSITIVE_SUM].any(axis=1)))


def _sum_of_newest(sketches: Sequence[SkceSketch]) -> SkceSketch | None:
    """The sum of those with the newest plan; sketches of an earlier declaration cannot be added."""
    if not sketches:
        return None
    plan = sketches[-1].plan
    return SkceSketch(plan, np.sum([sketch.sums for sketch in sketches if sketch.plan == plan], axis=0))


def steps_of(
    cells: Cells, names: Mapping[int, SeriesKey], pane_ms: int, *, implied_negatives: bool
) -> dict[SeriesKey, Steps]:
    """The steps of each series; ``names`` are those of the numbers in ``cells``, which may be in any order."""
    cells = cells.summed()
    if implied_negatives:
        cells = cells._replace(values=imply_negatives(cells.values))
    result = {}
    bounds = np.flatnonzero(np.diff(cells.series, prepend=-1, append=-1))
    for start, stop in itertools.pairwise(bounds.tolist()):
        rows = cells.take(slice(start, stop))
        first = np.flatnonzero(np.diff(rows.start_ms, prepend=-1))
        ends = rows.start_ms[first] + pane_ms
        result[names[int(rows.series[0])]] = Steps(ends, np.append(first, stop - start), rows.cell, rows.values)
    return result


def read_closings(store: SqlStore, panes: ClosedPanes) -> AbstractSet[str]:
    """Bring the panes up to what the store holds; returns the models that have not stopped: others have no panes.

    Raises
    ------
    StoreUnavailable
        The database does not answer; call again.
    """
    now_ms = store.database.clock.now_ms()
    panes.show_partitions(store.partition_clocks())
    kept = panes.keep(store.clocks())
    models = dict(kept)
    for model in [model for model, clocks in models.items() if panes.is_backfilled(model, clocks)]:
        clocks = models.pop(model)
        panes.restart(model, clocks, store.read_closings(model, dict.fromkeys(clocks, -1)), now_ms)
    # Of most models nothing is new: a statement for each would take most of the time.
    after_ms = {model: panes.closed_since(model, clocks) for model, clocks in models.items()}
    unread = dict(models)
    for model, found in store.new_closings({model: after for model, after in after_ms.items() if after}):
        clocks = unread.pop(model)
        if any(panes.is_widened(partition, model, closings) for partition, closings in found.items()):
            # This process has been away, or a log of days is being read.
            panes.restart(model, clocks, store.read_closings(model, dict.fromkeys(clocks, -1)), now_ms)
        else:
            panes.advance_all(model, clocks, found)
            panes.settle(model, now_ms)
    for model, clocks in unread.items():
        panes.advance_all(model, clocks, {})
        panes.settle(model, now_ms)
    for partition, unsettled in store.read_unsettled().items():
        panes.show_unsettled(partition, unsettled)
    return kept.keys()
