"""The order in which partitions close, and how closings are grouped, changes nothing: no window, no total, no count."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.clock import SystemClock
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.base import Checkpoint, ModelClock, ModelState
from monitor.store.closing import Cells, Closing, OldPanes, Panes
from monitor.store.sql import SqlStore
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import examples

PANE_MS: Final = 10
WIDE_MS: Final = 30
KEPT_MS: Final = {PANE_MS: 60, WIDE_MS: 10_000}
PARTITIONS: Final = 3
PANES: Final = 24
SERIES: Final = (("1", "all"), ("1", "region=eu"), ("2", "all"), ("2", "region=eu"))
"""Version and segment of each."""


class Event(NamedTuple):
    """A prediction with its outcome, or with none (-1)."""

    partition: int
    series: int
    pane: int
    p: float
    y: int


class Step(NamedTuple):
    """What happens next: a partition closes some panes, and a reader reads; or that comes in the middle of reading."""

    partition: int
    panes: int
    reader: int
    interrupts: bool = False


EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, PARTITIONS - 1),
        st.integers(0, len(SERIES) - 1),
        st.integers(0, PANES - 1),
        st.sampled_from([0.0, 0.1, 0.5, 1 / 3, 0.999, 1.0]),
        st.integers(-1, 1),
    ),
    min_size=1,
    max_size=120,
)
READERS: Final = 2
"""They read now and then, each at instants of its own; another one after everything."""
STEPS = st.lists(
    st.builds(Step, st.integers(0, PARTITIONS - 1), st.integers(1, 9), st.integers(0, READERS - 1), st.booleans()),
    max_size=30,
)
EVERYWHERE: Final = [Event(partition, 0, pane, 0.5, 1) for partition in range(PARTITIONS) for pane in range(PANES)]


def table(events: list[Event]) -> GridTable:
    return GridTable.from_events([event.p for event in events], [event.y for event in events])


def names_of(model: str) -> list[SeriesKey]:
    return [SeriesKey(model, *series) for series in SERIES]


def closing(model: str, events: list[Event], from_pane: int, to_pane: int) -> Closing | None:
    """The closing of a partition's panes [from, to); none if they are empty."""
    grouped: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if from_pane <= event.pane < to_pane:
            grouped[event.series, event.pane].append(event)
    parts = []
    for (series, pane), of_pane in sorted(grouped.items()):
        cells = table(of_pane)
        ones = np.ones(cells.cell.size, np.int64)
        parts.append(Cells(series * ones, pane * PANE_MS * ones, cells.cell, cells.values))
    panes = Panes.of(names_of(model), Cells.joined(parts))
    return Closing(model, from_pane * PANE_MS, to_pane * PANE_MS, PANE_MS, panes) if panes.names else None


class Written:
    """Partitions that close the panes of a model step by step, in one store."""

    def __init__(self, store: SqlStore, model: str, events: list[Event]) -> None:
        self._store = store
        self._model = model
        self._events = [[event for event in events if event.partition == number] for number in range(PARTITIONS)]
        self.closed = [0] * PARTITIONS
        self._epochs = [store.claim(number) for number in range(PARTITIONS)]
        for number in range(PARTITIONS):
            self._save(number, None)

    def close(self, number: int, panes: int) -> None:
        """Close the next panes of a partition, and widen what all partitions are past."""
        first, last = self.closed[number], min(self.closed[number] + panes, PANES)
        if last > first:
            self.closed[number] = last
            self._save(number, closing(self._model, self._events[number], first, last))

    def _save(self, number: int, closed: Closing | None) -> None:
        to_ms = self.closed[number] * PANE_MS
        before_ms = min(self.closed) * PANE_MS - KEPT_MS[PANE_MS]
        before_ms -= before_ms % WIDE_MS
        self._store.save(
            [
                Checkpoint(
                    partition=number,
                    epoch=self._epochs[number],
                    offsets={"events": to_ms},
                    models=[ModelState(self._model, to_ms, to_ms, to_ms)],
                    closings=[] if closed is None else [closed],
                    old=[OldPanes(self._model, PANE_MS, before_ms, WIDE_MS)] if before_ms > 0 else [],
                )
            ]
        )


def assert_windows(panes: ClosedPanes, model: str, events: list[Event]) -> None:
    """Every window of settled panes, and every count, is that of obvious loops."""
    edge_ms = panes.edge_ms(model)
    for at, series in enumerate(names_of(model)):
        if series not in panes.series():
            continue
        for slide_ms in KEPT_MS:
            first_ms, last_ms = panes.kept_from_ms(series, slide_ms), edge_ms - edge_ms % slide_ms
            of_panes: defaultdict[int, list[Event]] = defaultdict(list)
            for event in events:
                start_ms = event.pane * PANE_MS
                if event.series == at and first_ms <= start_ms < last_ms:
                    of_panes[start_ms - start_ms % slide_ms].append(event)
            counted = [
                (start, len(of_pane), sum(event.y >= 0 for event in of_pane))
                for start, of_pane in sorted(of_panes.items())
            ]
            assert panes.counts(series, slide_ms, first_ms, last_ms) == counted
            tables = {start: table(of_pane) for start, of_pane in of_panes.items()}
            # Each window twice: as it is kept up from the one before it, and from its end backwards, anew.
            starts = range(first_ms, last_ms, slide_ms)
            for length in (1, 3):
                for from_ms in [*starts, *reversed(starts)]:
                    to_ms = min(from_ms + length * slide_ms, last_ms)
                    inside = [part for start, part in tables.items() if from_ms <= start < to_ms]
                    assert panes.sum(series, slide_ms, from_ms, to_ms) == GridTable.sum(inside)


_models = (f"model-{number}" for number in itertools.count())


class InterruptedStore(SqlStore):
    """A store in which others write between two questions of a reader."""

    between: Callable[[], None] = staticmethod(lambda: None)

    def clocks(self) -> Mapping[str, Mapping[int, ModelClock]]:
        """The clocks, after which others write."""
        clocks = super().clocks()
        self.between()
        return clocks


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterruptedStore]:
    """One for all examples, each of which has a model of its own."""
    with InterruptedStore.open(f"sqlite:///{tmp_path_factory.mktemp('order')}/state.db", clock=SystemClock()) as store:
        yield store


@examples(6, 25)
@given(events=EVENTS, steps=STEPS, order=st.permutations(range(PARTITIONS)))
# A reader has a part of a pane that is widened before it reads the rest.
@example(events=EVERYWHERE, steps=[Step(0, 4, 0), Step(1, 24, 1), Step(2, 24, 1)], order=[0, 1, 2])
# What a reader has not read yet is merged with what is closed while it reads.
@example(
    events=EVERYWHERE,
    steps=[Step(1, 24, 1), Step(2, 24, 1), Step(0, 1, 0), Step(0, 3, 1), Step(0, 20, 0, interrupts=True)],
    order=[0, 1, 2],
)
def test_windows_do_not_depend_on_the_order_of_closings_nor_on_who_reads_them_when(
    store: InterruptedStore, events: list[Event], steps: list[Step], order: list[int]
) -> None:
    model = next(_models)
    written = Written(store, model, events)
    readers = [ClosedPanes(KEPT_MS, lambda _: None) for _ in range(READERS)]
    for step in steps:
        close = partial(written.close, step.partition, step.panes)
        if step.interrupts:
            store.between = close
        else:
            close()
        read_closings(store, readers[step.reader])
        store.between = lambda: None
    for panes in readers:
        assert_windows(panes, model, events)
    for number in order:
        written.close(number, PANES)
    for panes in [*readers, ClosedPanes(KEPT_MS, lambda _: None)]:
        read_closings(store, panes)
        assert panes.edge_ms(model) == PANES * PANE_MS
        assert_windows(panes, model, events)


@examples(20, 40)
@given(events=EVENTS, cuts=st.sets(st.integers(1, PANES - 1)), groups=st.sets(st.integers(1, PANES - 1)))
def test_closings_merge_and_widen_to_the_same_in_any_grouping(
    events: list[Event], cuts: set[int], groups: set[int]
) -> None:
    whole = closing("m", events, 0, PANES)
    assert whole is not None
    parts = [
        closing("m", events, first, last)
        for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), PANES], strict=True)
    ]
    closings = [part for part in parts if part is not None]
    bounds = sorted({0, len(closings), *(group for group in groups if group < len(closings))})
    merged = [Closing.merged(closings[a:b]) for a, b in itertools.pairwise(bounds)]
    assert Closing.merged(merged).panes.to_bytes() == whole.panes.to_bytes()
    assert Closing.merged(closings).panes.to_bytes() == whole.panes.to_bytes()
    # Widened step by step, or at once.
    at_ms = [WIDE_MS * at for at in (2, 5, PANES * PANE_MS // WIDE_MS)]
    wide, rest = [], [Closing.merged(merged)]
    for before_ms in at_ms:
        halves = [half for part in rest for half in part.split(before_ms, WIDE_MS)]
        wide += [half for half in halves if half.pane_ms == WIDE_MS]
        rest = [half for half in halves if half.pane_ms == PANE_MS]
    assert rest == []
    (at_once,) = whole.split(at_ms[-1], WIDE_MS)
    assert Closing.merged(wide).panes.to_bytes() == at_once.panes.to_bytes()
