"""Predictions over several classes: one to the join, and to the panes a top label and one against the rest each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy, RecordBatch
from monitor.scores import GridTable
from monitor.store.base import MAX_BATCH_BYTES
from monitor.store.sql import SqlStore
from monitor.stream.journal import pieces
from monitor.stream.journal_loops import BLOCK, JOURNAL_ROW, VECTOR
from monitor.stream.partition import Partition, PartitionSettings
from tests.long import short_of
from tests.real.mixed_log import (
    CLASSES,
    MODELS,
    OF_CLASSES,
    OUTCOMES,
    PREDICTIONS,
    SLIDE_MS,
    MixedLog,
    policy_of,
    unjoined_as_one,
)
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, LogRecord, Published, encoded

POLICY = ModelPolicy(horizon_ms=60_000, lateness_ms=10_000, segments=("region",), classes=("cat", "dog", "bird"))
VECTOR_OF_DOG = (0.25, 0.5, 0.25)


def new_partition(
    policy: ModelPolicy = POLICY, store: SqlStore | None = None, max_predictions: int = 1_000_000
) -> Partition:
    settings = PartitionSettings(policy=lambda _: policy, kept_ms={1_000: 10**9}, max_predictions=max_predictions)
    if store is None:
        return Partition(0, 0, settings)
    return Partition(0, store.claim(0), settings, store.load(0))


def read(partition: Partition, events: Sequence[NaiveEvent], classes: int = len(POLICY.classes)) -> None:
    """Take up events, as those of a model that is declared to have so many classes."""
    at = partition.offsets.get("events", 0)
    records = [LogRecord(at + place, START_MS + 10**7, encoded(event)) for place, event in enumerate(events)]
    batch = RecordBatch("events", 0, records, at + len(records))
    assert partition.apply(batch, Decoder(Rules(classes={"a": classes} if classes else {})), None).dead == 0


def predicted(identifier: str = "1", vector: tuple[float, ...] = VECTOR_OF_DOG, after_ms: int = 0) -> NaiveEvent:
    return NaiveEvent(Kind.PREDICTION, "a", identifier, START_MS + after_ms, vector=vector)


def answered(y: int, after_ms: int = 0, identifier: str = "1") -> NaiveEvent:
    return NaiveEvent(Kind.OUTCOME, "a", identifier, START_MS + after_ms, y=y)


def tables(partition: Partition, published: Published | None = None) -> dict[str, GridTable]:
    """Segment -> its predictions, with those that are closed where they are given."""
    found: dict[str, GridTable] = {}
    for (_, series), table in (published or Published()).tables(partition).items():
        found[series.segment] = found.get(series.segment, GridTable.zero()) + table
    return found


def one(p: float, y: int) -> GridTable:
    return GridTable.from_events([p], [y])


def fates(partition: Partition) -> dict[tuple[str, str], int]:
    return {fate: count for fate, count in partition.event_counters().items() if count}


class TestTopLabelAndClasses:
    def test_each_prediction_is_counted_once_and_seen_from_every_side(self) -> None:
        partition = new_partition()
        read(partition, [predicted(), answered(0, 10)])
        assert fates(partition) == {("prediction", "accepted"): 1, ("outcome", "joined"): 1}
        assert (partition.join.predictions, partition.join.unanswered) == (1, 0)
        assert tables(partition) == {
            "all": one(0.5, 0),
            "class=cat": one(0.25, 1),
            "class=dog": one(0.5, 0),
            "class=bird": one(0.25, 0),
        }

    def test_until_it_is_answered_it_is_so_everywhere(self) -> None:
        partition = new_partition()
        read(partition, [predicted()])
        assert tables(partition) == {
            "all": one(0.5, -1),
            "class=cat": one(0.25, -1),
            "class=dog": one(0.5, -1),
            "class=bird": one(0.25, -1),
        }

    def test_of_equal_probabilities_the_first_is_the_top_label(self) -> None:
        partition = new_partition()
        read(partition, [predicted(vector=(0.25, 0.375, 0.375)), answered(1, 10)])
        assert tables(partition)["all"] == one(0.375, 1)

    def test_segments_are_of_the_top_label(self) -> None:
        partition = new_partition()
        read(partition, [replace(predicted(), segments=(("region", "eu"),)), answered(1)])
        assert tables(partition)["region=eu"] == one(0.5, 1)
        assert len(tables(partition)) == 2 + len(POLICY.classes)

    def test_a_correction_between_two_classes_leaves_a_top_label_that_missed_alone(self) -> None:
        partition = new_partition()
        read(partition, [predicted(), answered(0, 10), answered(2, 20)])
        assert fates(partition)["outcome", "corrected"] == 1
        assert tables(partition) == {
            "all": one(0.5, 0),
            "class=cat": one(0.25, 0),
            "class=dog": one(0.5, 0),
            "class=bird": one(0.25, 1),
        }

    def test_a_correction_to_the_top_label_and_back(self) -> None:
        partition = new_partition()
        read(partition, [predicted(), answered(0, 10), answered(1, 20), answered(1, 30), answered(0, 15)])
        assert fates(partition) == {
            ("prediction", "accepted"): 1,
            ("outcome", "joined"): 1,
            ("outcome", "corrected"): 1,
            ("outcome", "duplicate"): 1,
            ("outcome", "superseded"): 1,
        }
        assert tables(partition)["all"] == one(0.5, 1)
        read(partition, [answered(2, 40)])
        assert tables(partition)["all"] == one(0.5, 0)
        assert tables(partition)["class=bird"] == one(0.25, 1)


class TestAtRest:
    def test_many_classes_and_an_outcome_beyond_a_byte(self, tmp_path: Path) -> None:
        """An outcome of class 999 waits, is saved, and meets its prediction after a restart."""
        classes = 1000
        policy = replace(POLICY, classes=tuple(map(str, range(classes))))
        vector = (0.5, *[0.5 / (classes - 1)] * (classes - 1))
        with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
            partition = new_partition(policy, store)
            read(partition, [answered(999, 10), answered(998, 5)], classes)
            store.save([partition.checkpoint()])
            partition = new_partition(policy, store)
            assert partition.join.early_outcomes == 2
            read(partition, [predicted(vector=vector)], classes)
            store.save([partition.checkpoint()])
            restored = new_partition(policy, store)
            read(restored, [answered(3, 20)], classes)
        assert fates(restored)["outcome", "corrected"] == 1
        found = tables(restored)
        positives = [int(found[f"class={name}"].to_scores().positives.sum()) for name in range(classes)]
        assert positives == [int(name == 3) for name in range(classes)]
        assert sum(found[f"class={name}"].predictions for name in range(classes)) == classes

    def test_the_oldest_leave_when_memory_is_short_and_leave_nothing_behind(self) -> None:
        partition, published = new_partition(max_predictions=100), Published()
        read(partition, [predicted(str(at), after_ms=100 * at) for at in range(80)])
        assert partition.join.rows == 160  # one row each, and one for up to four classes
        published.add(partition.checkpoint())
        assert partition.join.rows <= 100
        assert partition.departed["evicted"] == 80 - partition.join.predictions
        assert partition.join.rows == 2 * partition.join.predictions
        assert tables(partition, published)["class=cat"].predictions == 80

    def test_closings_are_what_the_journal_was(self, tmp_path: Path) -> None:
        events = [predicted(str(at), after_ms=1000 * at) for at in range(300)]
        events += [answered(at % 3, 1000 * at + 500, str(at)) for at in range(300) if at % 4]
        events.sort(key=lambda event: event.time_ms)
        with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
            steady, partition, published = new_partition(), new_partition(store=store), Published()
            for at in range(0, len(events), 20):
                read(steady, events[at : at + 20])
                read(partition, events[at : at + 20])
                store.save([published.add(partition.checkpoint())])
            restored = new_partition(store=store)
        assert partition.departed["answered"] > 100
        assert partition.departed["expired_unlabelled"] > 30
        assert tables(partition, published) == tables(restored, published) == tables(steady)
        assert restored.join.rows == partition.join.rows < steady.join.rows

    def test_a_row_and_its_probabilities_are_stored_in_one_piece(self) -> None:
        held = 250
        entry = np.tile(np.r_[0, np.full(held, VECTOR)], 2 * MAX_BATCH_BYTES // (held * JOURNAL_ROW.itemsize))
        rows = np.zeros(entry.size, JOURNAL_ROW)
        rows["entry"] = entry
        rows["time_ms"] = np.arange(entry.size)
        cut = list(pieces(rows))
        assert b"".join(cut) == rows.tobytes()
        assert len(cut) > 2
        for piece in cut:
            assert len(piece) <= MAX_BATCH_BYTES
            assert np.frombuffer(piece, JOURNAL_ROW)["entry"][0] == 0

    def test_a_row_holds_four_probabilities(self) -> None:
        for classes, blocks in [(2, 1), (4, 1), (5, 2), (9, 3)]:
            partition = new_partition(replace(POLICY, classes=tuple(map(str, range(classes)))))
            read(partition, [predicted(vector=(1.0, *[0.0] * (classes - 1)))], classes)
            assert partition.unsaved_rows == 1 + blocks == 1 - (-classes // BLOCK)


class TestChangedDeclarations:
    """What was read under another declaration stays what it was, and nothing stops."""

    def restarted(
        self, folder: Path, before: ModelPolicy, after: ModelPolicy, events: Sequence[NaiveEvent]
    ) -> Partition:
        with SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock()) as store:
            partition = new_partition(before, store)
            read(partition, events, len(before.classes))
            store.save([partition.checkpoint()])
            return new_partition(after, store)

    def test_classes_behind_the_last(self, tmp_path: Path) -> None:
        more = replace(POLICY, classes=(*POLICY.classes, "fish"))
        partition = self.restarted(tmp_path, POLICY, more, [predicted("1"), predicted("2")])
        read(partition, [answered(3, 10), answered(1, 10, "2")], 4)
        found = tables(partition)
        assert found["all"] == one(0.5, 0) + one(0.5, 1)
        assert found["class=cat"] == one(0.25, 0) + one(0.25, 0)
        assert "class=fish" not in found

    def test_fewer_classes(self, tmp_path: Path) -> None:
        fewer = replace(POLICY, classes=("cat", "dog"))
        partition = self.restarted(tmp_path, POLICY, fewer, [predicted(), answered(2, 10)])
        assert tables(partition) == {"all": one(0.5, 0), "class=cat": one(0.25, 0), "class=dog": one(0.5, 0)}

    def test_no_classes_any_more(self, tmp_path: Path) -> None:
        partition = self.restarted(tmp_path, POLICY, replace(POLICY, classes=()), [predicted()])
        read(partition, [answered(1, 10)], 0)
        assert tables(partition) == {"all": one(0.5, 1)}

    def test_classes_where_there_were_none(self, tmp_path: Path) -> None:
        """An outcome that is neither 0 nor 1 says of a prediction of P(y = 1) that it did not come true."""
        binary = NaiveEvent(Kind.PREDICTION, "a", "1", START_MS, 0.75)
        partition = self.restarted(tmp_path, replace(POLICY, classes=()), POLICY, [binary])
        read(partition, [answered(2, 10)])
        assert tables(partition) == {"all": one(0.75, 0)}
        read(partition, [answered(0, 20), answered(1, 30)])
        assert tables(partition) == {"all": one(0.75, 1)}
        assert fates(partition)["outcome", "corrected"] == 1
        assert fates(partition)["outcome", "duplicate"] == 1


@pytest.mark.parametrize("seed", short_of(range(3), 1))
def test_a_log_read_with_crashes_comes_to_what_obvious_loops_make_of_it(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = MixedLog(3_000, partitions=1, seed=seed, models=(*MODELS, OF_CLASSES))
    settings = PartitionSettings(policy=policy_of, kept_ms={SLIDE_MS: 10**9})
    kinds = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
    written = {
        topic: [LogRecord(at, START_MS + 10**8, line.value) for at, line in enumerate(lines)]
        for topic, lines in ((topic, [line for line in log.lines if line.topic == topic]) for topic in kinds)
    }
    decoder = Decoder(Rules(classes={OF_CLASSES: len(CLASSES)}))
    published = Published()
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), settings, store.load(0))
        while any(partition.offsets.get(topic, 0) < len(records) for topic, records in written.items()):
            for topic, records in written.items():
                start = partition.offsets.get(topic, 0)
                chunk = records[start : start + int(rng.integers(1, 200))]
                if chunk:
                    partition.apply(RecordBatch(topic, 0, chunk, start + len(chunk)), decoder, kinds[topic])
            crashes = rng.random() < 0.3
            if not crashes:
                store.save([published.add(partition.checkpoint())])
            if crashes or rng.random() < 0.3:
                partition = Partition(0, store.claim(0), settings, store.load(0))
    assert unjoined_as_one(partition.event_counters()) == unjoined_as_one(log.expected.counters)
    assert published.tables(partition) == log.expected.panes
