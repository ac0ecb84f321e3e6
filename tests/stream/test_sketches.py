"""Sketches of whole vectors beside the panes: to the last bit those of the events that obvious loops hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from monitor.stream.pane_view import PaneView
from monitor.stream.panes import PaneTable

from monitor.classes.sketch import SkceSketch, SketchPlan
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy, RecordBatch, SeriesKey
from monitor.scores import ClassTable
from monitor.store.base import Checkpoint, ClosedSketch, PaneKey
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from tests.real.mixed_log import CLASSES, MODELS, OF_CLASSES, OUTCOMES, PLAN, PREDICTIONS, MixedLog, policy_of
from tests.stream.support import START_MS, LogRecord
from tests.stream.test_classes import VECTOR_OF_DOG, answered, new_partition, predicted, read

SLIDES = (60_000, 300_000)
KINDS = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
PETS = ModelPolicy(
    horizon_ms=60_000, lateness_ms=10_000, segments=("region",), classes=("cat", "dog", "bird"), sketch_features=8
)
WHOLE = SeriesKey("a", "1", "all")


SETTINGS = PartitionSettings(policy=policy_of, pane_retention_ms=dict.fromkeys(SLIDES, 10**9))


def expected_sketches(log: MixedLog) -> dict[PaneKey, SkceSketch]:
    """The sketch of each pane, from the events that obvious loops hold in the end."""
    return {
        PaneKey(slide, start, series): sketch
        for slide in SLIDES
        for (start, series), sketch in log.sketches(slide).items()
    }


def sums_of(sketches: Mapping[PaneKey, SkceSketch]) -> dict[PaneKey, list[int]]:
    """Those that hold events; one whose events were all taken back holds zeros."""
    return {key: sketch.sums.tolist() for key, sketch in sketches.items() if sketch.sums.any()}


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
    decoder = Decoder(classes={OF_CLASSES: len(CLASSES)})
    closed = 0
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db") as store:
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        while any(partition.offsets.get(topic, 0) < len(records) for topic, records in written.items()):
            for topic, records in written.items():
                start = partition.offsets.get(topic, 0)
                chunk = records[start : start + int(rng.integers(1, 200))]
                if chunk:
                    partition.apply(RecordBatch(topic, 0, chunk, start + len(chunk)), decoder, KINDS[topic])
            crashes = rng.random() < 0.3
            if not crashes:
                checkpoint = partition.checkpoint()
                closed += len(checkpoint.closed_sketches)
                store.save([checkpoint])
            if crashes or rng.random() < 0.3:
                partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
    expected = sums_of(expected_sketches(log))
    assert partition.join.counters()["outcome", "corrected"] > 10
    assert closed > 20
    assert sums_of(dict(partition.panes.dump_sketches())) == expected


def test_a_window_sums_them_over_panes_and_partitions() -> None:
    log = MixedLog(2_000, partitions=1, seed=9, models=(OF_CLASSES,))
    decoder = Decoder(classes={OF_CLASSES: len(CLASSES)})
    partitions = {number: Partition(number, 0, SETTINGS) for number in range(2)}
    for topic, records in records_of(log).items():
        for number, partition in partitions.items():
            # By the id, as keys do.
            mine = [each for each in records if each.value and _number_of(each.value) == number]
            if mine:
                partition.apply(RecordBatch(topic, number, mine, len(records)), decoder, KINDS[topic])
    view = PaneView()
    view.show(partitions)
    series = SeriesKey(OF_CLASSES, "1", "all")
    expected = expected_sketches(log)
    starts = sorted(key.start_ms for key in expected if key.slide_ms == SLIDES[0] and key.series == series)
    from_ms, to_ms = starts[3], starts[20]
    total = view.sketch(series, SLIDES[0], from_ms, to_ms)
    assert total is not None
    wanted = SkceSketch.zero(PLAN)
    for key, sketch in expected.items():
        if key.slide_ms == SLIDES[0] and key.series == series and from_ms <= key.start_ms < to_ms:
            wanted += sketch
    assert total.sums.tolist() == wanted.sums.tolist()
    assert total.events == view.sum(series, SLIDES[0], from_ms, to_ms).labelled > 100
    empty = view.sketch(series, SLIDES[0], 0, 1)
    assert empty is not None
    assert empty.events == 0
    assert view.sketch(SeriesKey(OF_CLASSES, "1", "class=red"), SLIDES[0], from_ms, to_ms) is None
    assert view.sketch(SeriesKey("unknown", "1", "all"), SLIDES[0], from_ms, to_ms) is None


def _number_of(value: bytes) -> int:
    """0 or 1, by the last digit of the event's id; garbage has none."""
    _, found, rest = value.partition(b'"id":"')
    return int(rest.partition(b'"')[0][-1:] in b"02468ace") if found else 2


def test_a_correction_that_leaves_the_top_label_alone_changes_the_sketch_and_the_revision() -> None:
    partition = new_partition(PETS)
    read(partition, [predicted(), answered(0, 10)])
    before = partition.panes.revision(WHOLE, 1_000, START_MS, START_MS + 1_000)
    table = partition.panes.dump()
    read(partition, [answered(2, 20)])
    assert partition.panes.revision(WHOLE, 1_000, START_MS, START_MS + 1_000) != before
    assert [each for each in partition.panes.dump() if each.key.series == WHOLE] == [
        each for each in table if each.key.series == WHOLE
    ]
    assert sums_of(dict(partition.panes.dump_sketches())) == sums_of(of_one(VECTOR_OF_DOG, 2))


def of_one(vector: Sequence[float], y: int, features: int = 8) -> dict[PaneKey, SkceSketch]:
    sketch = SkceSketch.of(ClassTable.from_events([vector], [y]), SketchPlan(len(vector), features))
    return {PaneKey(1_000, START_MS, WHOLE): sketch}


def test_what_is_not_answered_is_in_none() -> None:
    partition = new_partition(PETS)
    read(partition, [predicted()])
    assert partition.panes.dump_sketches() == []


def test_a_model_that_asks_for_none_has_none() -> None:
    partition = new_partition(replace(PETS, sketch_features=0))
    read(partition, [predicted(), answered(0, 10)])
    assert partition.panes.dump_sketches() == []
    assert partition.panes.sketch(WHOLE, 1_000, START_MS, START_MS + 1_000) is None


def test_panes_that_no_window_needs_take_theirs_along() -> None:
    partition = new_partition(PETS)
    events = [predicted(str(at), after_ms=1_000 * at) for at in range(20)]
    read(partition, [*events, *(answered(0, 1_000 * at + 1, str(at)) for at in range(20))])
    series = partition.panes.series
    before_ms = np.full((1, len(series)), -1, np.int64)
    before_ms[0, series[WHOLE]] = START_MS + 15_000
    assert len(partition.panes.dump_sketches()) == 20
    size = partition.panes.nbytes
    partition.panes.expire(before_ms)
    left = partition.panes.dump_sketches()
    assert sorted(key.start_ms for key, _ in left) == [START_MS + 1_000 * at for at in range(15, 20)]
    # As documented: 8 (features + 64) bytes a class, and some more.
    assert size - partition.panes.nbytes >= 15 * 8 * (8 + 64) * 3


class TestChangedDeclarations:
    def test_another_number_of_features_begins_anew(self, tmp_path: Path) -> None:
        other = replace(PETS, sketch_features=10)
        hour_ms = 3_600_000
        with SqlStore.open(f"sqlite:///{tmp_path}/state.db") as store:
            for at, policy in enumerate((PETS, other)):
                partition = new_partition(policy, store)
                # The hour that passes closes the pane of the first.
                for after_ms in (2 * at * hour_ms, (2 * at + 1) * hour_ms):
                    name = f"{after_ms}"
                    read(partition, [predicted(name, after_ms=after_ms), answered(1, after_ms + 10, name)])
                checkpoint = partition.checkpoint()
                assert {sketch.plan.features for _, sketch in checkpoint.closed_sketches} == {policy.sketch_features}
                store.save([checkpoint])
            restored = new_partition(other, store)
        found = {key.start_ms - START_MS: sketch.plan.features for key, sketch in restored.panes.dump_sketches()}
        # What stood in the journal when the number was changed is of the new one; what was closed before is in none.
        assert found == {hour_ms: 10, 2 * hour_ms: 10, 3 * hour_ms: 10}

    def test_closed_ones_of_another_plan_are_passed_over(self) -> None:
        table = new_partition(PETS)
        read(table, [predicted(), answered(1, 10)])
        panes: PaneTable = table.panes
        before = sums_of(dict(panes.dump_sketches()))
        key = PaneKey(1_000, START_MS, WHOLE)
        alien = SkceSketch.of(ClassTable.from_events([VECTOR_OF_DOG], [1]), SketchPlan(3, 12))
        panes.add_sketches([ClosedSketch(key, alien), ClosedSketch(key._replace(slide_ms=7), alien)])
        assert sums_of(dict(panes.dump_sketches())) == before
        kin = SkceSketch.of(ClassTable.from_events([VECTOR_OF_DOG], [1]), SketchPlan(3, 8))
        panes.add_sketches([ClosedSketch(key, kin)])
        assert sums_of(dict(panes.dump_sketches())) == sums_of({key: kin + kin})


def test_a_store_adds_those_of_one_plan_and_keeps_the_newest(tmp_path: Path) -> None:
    key = PaneKey(1_000, START_MS, WHOLE)
    table = ClassTable.from_events([VECTOR_OF_DOG], [1])
    one, other = (SkceSketch.of(table, SketchPlan(3, features)) for features in (8, 10))

    def stored(store: SqlStore) -> dict[PaneKey, list[int]]:
        return {key: sketch.sums.tolist() for key, sketch in store.load(0).sketches}

    with SqlStore.open(f"sqlite:///{tmp_path}/state.db") as store:
        checkpoint = Checkpoint(partition=0, epoch=store.claim(0), offsets={}, models=[])
        store.save([replace(checkpoint, closed_sketches=[ClosedSketch(key, one)])])
        store.save([replace(checkpoint, closed_sketches=[ClosedSketch(key, one), ClosedSketch(key, one)])])
        assert stored(store) == {key: (one + one + one).sums.tolist()}
        store.save([replace(checkpoint, closed_sketches=[ClosedSketch(key, other)])])
        assert stored(store) == {key: other.sums.tolist()}
        store.save([replace(checkpoint, expired_before_ms={("a", 1_000): START_MS})])
        assert stored(store) == {key: other.sums.tolist()}
        store.save([replace(checkpoint, expired_before_ms={("a", 1_000): START_MS + 1})])
        assert stored(store) == {}
