"""The revision of panes: equal only as long as they are, read while they are written."""

import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest
from monitor.stream.pane_view import PaneView
from monitor.stream.panes import PaneTable

from monitor.events.codec import Decoder
from monitor.events.encode import encode_labelled
from monitor.events.model import ModelPolicy, RecordBatch, SeriesKey
from monitor.events.strata import Strata
from monitor.stream.join import Join
from monitor.stream.partition import Partition, PartitionSettings
from tests.patience import joined
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, LogRecord, Traffic, columns_of, unruly_events

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
SLIDES = (1_000, 5_000)
FIRST_MS = START_MS - 10_000
SPANS = [(FIRST_MS + first, FIRST_MS + last) for first, last in itertools.combinations(range(0, 80_001, 20_000), 2)]


class Counted:
    """Panes of unruly events, and what a reader sees of all their spans."""

    def __init__(self, seed: int, events: int = 600) -> None:
        rng = np.random.default_rng(seed)
        self.strata = Strata(lambda _: POLICY)
        self.panes = PaneTable(self.strata, SLIDES)
        self._join = Join(self.strata)
        self._batches = np.array_split(np.array(unruly_events(rng, events, POLICY, Traffic()), object), 20)

    def steps(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> None:
        events: list[NaiveEvent] = self._batches[number].tolist()
        self.panes.accumulate(self._join.apply(columns_of(events, self.strata)).rows)

    def seen(self) -> dict[tuple[object, ...], tuple[object, bytes]]:
        """By series, width and span: the revision, and all that panes say."""
        result: dict[tuple[object, ...], tuple[object, bytes]] = {}
        for series, slide, span in itertools.product(self.panes.series, SLIDES, SPANS):
            dense = np.zeros((5158, 6), np.int64)
            revision = self.panes.revision(series, slide, *span)
            self.panes.sum_into(dense, series, slide, *span)
            result[series, slide, span] = (
                revision,
                dense.tobytes() + repr(self.panes.counts(series, slide, *span)).encode(),
            )
        return result


@pytest.mark.parametrize("seed", range(3))
def test_a_revision_changes_with_its_panes_and_only_with_them(seed: int) -> None:
    counted = Counted(seed)
    before = counted.seen()
    changed = kept = 0
    for number in range(counted.steps()):
        counted.step(number)
        after = counted.seen()
        for key, (revision, content) in after.items():
            old_revision, old_content = before.get(key, (None, b""))
            if content != old_content:
                assert revision != old_revision
                changed += 1
            elif revision == old_revision:
                kept += 1
        before = after
    assert changed > 100
    assert kept > 100
    assert before == counted.seen()


def test_panes_that_expire_change_the_revision_of_spans_that_held_them() -> None:
    counted = Counted(7)
    for number in range(counted.steps()):
        counted.step(number)
    before, dumped = counted.seen(), counted.panes.dump()
    cut = FIRST_MS + 25_000
    assert counted.panes.expire(np.full((len(SLIDES), len(counted.panes.series)), cut)) > 0
    after = counted.seen()
    for key, (revision, content) in after.items():
        assert (revision == before[key][0]) == (content == before[key][1])
    # What comes back is counted as a change, though it is what was there.
    counted.panes.add(pane for pane in dumped if pane.key.start_ms < cut)
    for key, (revision, content) in counted.seen().items():
        assert content == before[key][1]
        assert (revision == after[key][0]) == (content == after[key][1])


def test_a_series_without_panes_has_a_revision_too() -> None:
    counted = Counted(9)
    unknown = SeriesKey("nobody", "1", "all")
    assert counted.panes.revision(unknown, 1_000, 0, 5_000) == counted.panes.revision(unknown, 1_000, 0, 5_000)


def test_a_partition_that_comes_back_is_another_one() -> None:
    settings = PartitionSettings(policy=lambda _: replace(POLICY, segments=()), pane_retention_ms={1_000: 120_000})
    values = [encode_labelled("churn", str(at), START_MS + at, 0.25, at % 2) for at in range(100)]
    records = [LogRecord(at, START_MS, value) for at, value in enumerate(values)]
    view = PaneView()
    revisions = []
    for _ in range(2):
        partition = Partition(0, 0, settings)
        partition.apply(RecordBatch("events", 0, records, len(records)), Decoder(), None)
        view.show({0: partition})
        (series,) = view.series()
        revisions.append(view.revision(series, 1_000, START_MS, START_MS + 1_000))
        assert revisions[-1] == view.revision(series, 1_000, START_MS, START_MS + 1_000)
    view.show({})
    revisions.append(view.revision(series, 1_000, START_MS, START_MS + 1_000))
    assert len(set(revisions)) == 3


def test_one_writer_and_many_readers() -> None:
    """A reader that finds a revision, then a sum, then the same revision has a sum of that revision."""
    counted = Counted(11, events=4_000)
    counted.step(0)
    series = next(iter(counted.panes.series))
    span = (FIRST_MS, FIRST_MS + 80_000)
    seen: list[dict[object, set[bytes]]] = [{} for _ in range(3)]
    done = threading.Event()

    def read(own: dict[object, set[bytes]]) -> None:
        while True:
            last = done.is_set()
            dense = np.zeros((5158, 6), np.int64)
            before = counted.panes.revision(series, 1_000, *span)
            counted.panes.sum_into(dense, series, 1_000, *span)
            if counted.panes.revision(series, 1_000, *span) == before:
                own.setdefault(before, set()).add(dense.tobytes())
            if last:
                return

    readers = [threading.Thread(target=read, args=(own,)) for own in seen]
    for reader in readers:
        reader.start()
    for number in range(1, counted.steps()):
        counted.step(number)
    done.set()
    joined(*readers)
    merged: dict[object, set[bytes]] = {}
    for own in seen:
        for revision, contents in own.items():
            merged.setdefault(revision, set()).update(contents)
    assert merged
    assert all(len(contents) == 1 for contents in merged.values())
