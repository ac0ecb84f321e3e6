"""Sketches of whole vectors in closings: to the last bit those of the events that obvious loops hold."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy, RecordBatch, SeriesKey
from monitor.scores import ClassTable
from monitor.scores.sketch import SkceSketch, SketchPlan
from monitor.store.closing import PaneSketch
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes
from tests.real.mixed_log import CLASSES, MODELS, OF_CLASSES, OUTCOMES, PLAN, PREDICTIONS, MixedLog, policy_of
from tests.stream.support import START_MS, LogRecord, Published
from tests.stream.test_classes import VECTOR_OF_DOG, answered, new_partition, predicted, read

PANE_MS = 60_000
KINDS = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
PETS = ModelPolicy(
    horizon_ms=60_000, lateness_ms=10_000, segments=("region",), classes=("cat", "dog", "bird"), sketch_features=8
)
WHOLE = SeriesKey("a", "1", "all")
SETTINGS = PartitionSettings(policy=policy_of, kept_ms={PANE_MS: 10**9}, unsettled_cells=True)


def sums_of(sketches: Iterable[PaneSketch]) -> dict[tuple[int, SeriesKey], list[int]]:
    """The sums of each pane."""
    total: dict[tuple[int, SeriesKey], SkceSketch] = {}
    for series, start_ms, sketch in sketches:
        key = start_ms, series
        total[key] = total[key] + sketch if key in total else sketch
    return {key: sketch.sums.tolist() for key, sketch in total.items()}


def sketches_of(partition: Partition, published: Published | None = None) -> dict[tuple[int, SeriesKey], list[int]]:
    closed = [] if published is None else [part for closing in published.closings for part in closing.panes.sketches]
    return sums_of([*closed, *partition.unsettled(cells=True).sketches])


def records_of(log: MixedLog) -> dict[str, list[LogRecord]]:
    lines = {topic: [line for line in log.lines if line.topic == topic] for topic in KINDS}
    return {
        topic: [LogRecord(at, START_MS + 10**8, line.value) for at, line in enumerate(of_topic)]
        for topic, of_topic in lines.items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_read_with_crashes_they_are_those_of_the_events_to_the_last_bit(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = MixedLog(3_000, partitions=1, seed=seed, models=(MODELS[0], OF_CLASSES))
    written = records_of(log)
    decoder, published = Decoder(Rules(classes={OF_CLASSES: len(CLASSES)})), Published()
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        while any(partition.offsets.get(topic, 0) < len(records) for topic, records in written.items()):
            for topic, records in written.items():
                start = partition.offsets.get(topic, 0)
                chunk = records[start : start + int(rng.integers(1, 200))]
                if chunk:
                    partition.apply(RecordBatch(topic, 0, chunk, start + len(chunk)), decoder, KINDS[topic])
            crashes = rng.random() < 0.3
            if not crashes:
                store.save([published.add(partition.checkpoint())])
            if crashes or rng.random() < 0.3:
                partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    expected = {key: sketch.sums.tolist() for key, sketch in log.sketches(PANE_MS).items() if sketch.sums.any()}
    assert partition.join.counters()["outcome", "corrected"] > 10
    assert sum(len(closing.panes.sketches) for closing in published.closings) > 20
    assert sketches_of(partition, published) == expected


@pytest.mark.parametrize("slide_ms", [PANE_MS, 5 * PANE_MS])
def test_a_window_sums_them_over_panes_and_partitions(slide_ms: int) -> None:
    log = MixedLog(2_000, partitions=1, seed=9, models=(OF_CLASSES,))
    decoder = Decoder(Rules(classes={OF_CLASSES: len(CLASSES)}))
    panes = ClosedPanes({PANE_MS: 10**9, 5 * PANE_MS: 10**9}, policy_of)
    written = records_of(log)
    for number in range(2):
        partition = Partition(number, 0, SETTINGS)
        for topic, records in written.items():
            # By the id, as keys do.
            mine = [record for record in records if record.value and _number_of(record.value) == number]
            partition.apply(RecordBatch(topic, number, mine, len(records)), decoder, KINDS[topic])
        panes.add_checkpoint(partition.checkpoint())
    series = SeriesKey(OF_CLASSES, "1", "all")
    expected = {start: sketch for (start, key), sketch in log.sketches(slide_ms).items() if key == series}
    starts = sorted(expected)
    from_ms, to_ms = starts[1], starts[-1]
    total = panes.sketch(series, slide_ms, from_ms, to_ms)
    assert total is not None
    wanted = SkceSketch.zero(PLAN)
    for start, sketch in expected.items():
        if from_ms <= start < to_ms:
            wanted += sketch
    assert total.sums.tolist() == wanted.sums.tolist()
    assert total.events == panes.sum(series, slide_ms, from_ms, to_ms).labelled > 100
    assert panes.sketch(series, slide_ms, 0, 1) is None
    assert panes.sketch(SeriesKey(OF_CLASSES, "1", "class=red"), slide_ms, from_ms, to_ms) is None
    assert panes.sketch(SeriesKey("unknown", "1", "all"), slide_ms, from_ms, to_ms) is None


def _number_of(value: bytes) -> int:
    """0 or 1, by the last digit of the event's id; garbage has none."""
    _, found, rest = value.partition(b'"id":"')
    return int(rest.partition(b'"')[0][-1:] in b"02468ace") if found else 2


def test_a_correction_that_leaves_the_top_label_alone_changes_the_sketch() -> None:
    partition = new_partition(PETS)
    read(partition, [predicted(), answered(0, 10)])
    before = partition.unsettled(cells=True)
    read(partition, [answered(2, 20)])
    after = partition.unsettled(cells=True)
    assert [part.cells.of_series(part.names.index(WHOLE)).values.tolist() for part in (before, after)] == [
        before.cells.of_series(before.names.index(WHOLE)).values.tolist()
    ] * 2
    sketch = SkceSketch.of(ClassTable.from_events([VECTOR_OF_DOG], [2]), SketchPlan(3, 8))
    assert sketches_of(partition) == {(START_MS, WHOLE): sketch.sums.tolist()}


def test_what_is_not_answered_is_in_none() -> None:
    partition = new_partition(PETS)
    read(partition, [predicted()])
    assert partition.unsettled(cells=True).sketches == []


def test_a_model_that_asks_for_none_has_none() -> None:
    partition = new_partition(replace(PETS, sketch_features=0))
    read(partition, [predicted(), answered(0, 10)])
    assert partition.unsettled(cells=True).sketches == []


def test_another_number_of_features_begins_anew(tmp_path: Path) -> None:
    """What was closed before is of the earlier number, and windows sum those of the newest alone."""
    hour_ms = 3_600_000
    panes = ClosedPanes({1_000: 10**9}, lambda _: PETS)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        for at, policy in enumerate((PETS, replace(PETS, sketch_features=10))):
            partition = new_partition(policy, store)
            # The hour that passes closes the pane of the first.
            for after_ms in (2 * at * hour_ms, (2 * at + 1) * hour_ms):
                name = f"{after_ms}"
                read(partition, [predicted(name, after_ms=after_ms), answered(1, after_ms + 10, name)])
            checkpoint = partition.checkpoint()
            store.save([checkpoint])
            panes.add_checkpoint(checkpoint)
    closed = [part for (closing, *_) in [checkpoint.closings] for part in closing.panes.sketches]
    # What stood in the journal when the number was changed is of the new one.
    found = {part.start_ms - START_MS: part.sketch.plan.features for part in closed}
    assert found == {hour_ms: 10, 2 * hour_ms: 10}
    total = panes.sketch(WHOLE, 1_000, START_MS, START_MS + 4 * hour_ms)
    assert total is not None
    assert (total.plan.features, total.events) == (10, 2)
