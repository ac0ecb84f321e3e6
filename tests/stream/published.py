"""What a store has published of a partition: it is read again and again, for it must not change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.closing import Closing
from monitor.store.sql import SqlStore
from tests.stream.support import tables_of


@dataclass(frozen=True)
class Pane:
    """The content of a pane of one series."""

    table: GridTable
    sketch: tuple[int, ...] = ()
    """Sums of the sketch of whole vectors; empty where there is none."""

    def __add__(self, other: "Pane") -> "Pane":
        sketch = tuple(a + b for a, b in zip(self.sketch, other.sketch, strict=True)) if other.sketch else self.sketch
        return Pane(self.table + other.table, sketch if self.sketch else other.sketch)


PublishedPanes = dict[tuple[int, SeriesKey], Pane]
"""(start, series) -> content."""


def widened(panes: Mapping[tuple[int, SeriesKey], Pane], width_ms: int) -> PublishedPanes:
    """Panes summed to wider ones."""
    wide: PublishedPanes = {}
    for (start_ms, series), pane in panes.items():
        key = start_ms - start_ms % width_ms, series
        wide[key] = wide[key] + pane if key in wide else pane
    return wide


def within(panes: Mapping[tuple[int, SeriesKey], Pane], from_ms: int, to_ms: int) -> PublishedPanes:
    """The panes that start in [from, to)."""
    return {key: pane for key, pane in panes.items() if from_ms <= key[0] < to_ms}


def panes_of(closing: Closing) -> PublishedPanes:
    """The panes of a closing."""
    sketches = {(part.start_ms, part.series): tuple(part.sketch.sums.tolist()) for part in closing.panes.sketches}
    tables = tables_of(closing.panes)
    assert sketches.keys() <= tables.keys()
    return {key: Pane(table, sketches.get(key, ())) for key, table in tables.items()}


def first_ms(closing: Closing) -> int:
    """Start of the first pane of a closing: before its time where that pane was widened and nothing is before it."""
    return closing.from_ms - closing.from_ms % closing.pane_ms


def assert_in_order(closings: Sequence[Closing]) -> None:
    """No time is closed twice, and each closing holds panes of its own times alone."""
    end_ms = -1
    for part in closings:
        assert end_ms <= part.from_ms < part.to_ms
        starts = part.panes.cells.start_ms
        assert first_ms(part) <= int(starts.min()) <= int(starts.max()) <= part.to_ms - part.pane_ms
        end_ms = part.to_ms


class Unrevised:
    """Reads all closings of a store, and refuses any that differs from what it read before.

    A pane may move to a closing that is longer, as closings are merged, and into a pane that is wider, as old ones are
    summed. Its counts stay, it is in one closing alone, and nothing is added before the time up to which it was closed.
    """

    def __init__(self, store: SqlStore, models: Iterable[str], partitions: Iterable[int]) -> None:
        self._store = store
        self._models = list(models)
        self._partitions = list(partitions)
        self._read: dict[tuple[int, str], tuple[int, PublishedPanes]] = {}
        """(partition, model) -> end of the last closing, and all panes, as narrow as they are."""

    def look(self) -> int:
        """Read everything, and compare; returns the number of panes."""
        for model in self._models:
            found = self._store.read_closings(model, dict.fromkeys(self._partitions, -1))
            for partition in self._partitions:
                self._compare((partition, model), found.get(partition, ()))
        return sum(len(panes) for _, panes in self._read.values())

    def _compare(self, key: tuple[int, str], closings: Sequence[Closing]) -> None:
        read_to_ms, earlier = self._read.get(key, (-1, {}))
        assert_in_order(closings)
        closed_to_ms = closings[-1].to_ms if closings else -1
        assert closed_to_ms >= read_to_ms, f"{key}: what was published is gone"
        panes: PublishedPanes = {}
        for part in closings:
            now = panes_of(part)
            before = widened(within(earlier, first_ms(part), part.to_ms), part.pane_ms)
            # A wide one may hold panes that were not published then.
            end_ms = read_to_ms - part.pane_ms + 1
            assert within(now, 0, end_ms) == within(before, 0, end_ms), f"{key}: {part.from_ms} to {part.to_ms} changed"
            panes |= now
        covered = [(first_ms(part), part.to_ms) for part in closings]
        lost = [start for start, _ in earlier if not any(first <= start < end for first, end in covered)]
        assert not lost, f"{key}: panes that were published are gone: {lost}"
        self._read[key] = closed_to_ms, panes


def assert_closed(closings: Sequence[Closing], expected: Mapping[tuple[int, SeriesKey], Pane]) -> None:
    """The closings of one partition and model hold what obvious loops make of its part of the log, up to their end."""
    assert_in_order(closings)
    end_ms = closings[-1].to_ms if closings else 0
    held: PublishedPanes = {}
    for part in closings:
        panes = panes_of(part)
        assert panes == widened(within(expected, first_ms(part), part.to_ms), part.pane_ms)
        held |= panes
    # Nothing is left out between them.
    assert sum(pane.table.predictions for pane in held.values()) == sum(
        pane.table.predictions for pane in within(expected, 0, end_ms).values()
    )
