"""A million mixed events through a real broker come to what obvious loops make of them, to the last count.

And they do so however often the process is killed, the broker restarts, or partitions move.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.scores import GridTable
from monitor.sources.base import Polled
from monitor.sources.kafka import KafkaSource
from monitor.store.base import Bucket, PartitionState
from monitor.store.closed_samples import ClosedSample
from monitor.store.schema import CLOSED_SAMPLES
from monitor.store.sql import SqlStore
from monitor.stream.pipeline import Pipeline
from monitor.stream.sample_candidates import Candidates
from monitor.stream.status import Phase
from monitor.windows.panes import ClosedPanes, read_closings
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import (
    CLASSES,
    MODELS,
    OF_CLASSES,
    SAMPLE_CAPACITY,
    SLIDE_MS,
    SPAN_MS,
    START_MS,
    MixedLog,
    policy_of,
    unjoined_as_one,
)
from tests.real.produce import produce
from tests.real.stream_worker import DAY_MS, pipeline, topics
from tests.real.vanishing import broker_vanishes, collected
from tests.reference.naive_sample import naive_closed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]

SUFFIX = "mixed"
EVENTS = 1_000_000


@pytest.fixture(scope="module")
def log(kafka_broker: KafkaBroker) -> MixedLog:
    """The log, written to the broker."""
    mixed = MixedLog(EVENTS, models=(*MODELS, OF_CLASSES), features=True)
    # What it comes to is found before any consumer runs: the loops take so long that its heartbeats would starve.
    assert mixed.expected.panes
    assert mixed.sketches(SLIDE_MS)
    assert mixed.samples
    for topic in topics(SUFFIX):
        kafka_broker.create_topic(topic, mixed.partitions)
    produce(kafka_broker.bootstrap, mixed.lines, SUFFIX)
    return mixed


@contextmanager
def running(instance: Pipeline) -> Iterator[Pipeline]:
    """Run a pipeline in a thread of its own, and stop it in order."""
    thread = threading.Thread(target=instance.run)
    thread.start()
    try:
        yield instance
    finally:
        instance.stop()
        joined(thread)


def met(instance: Pipeline) -> int:
    """Messages that have met their fate."""
    assert instance.status.phase is not Phase.FAILED, instance.status.detail
    return sum(instance.status.counters.values())


def wait_for(log: MixedLog, instance: Pipeline) -> None:
    """Wait until every message of the log has met its fate; however long that takes, as long as it goes on."""
    while (before := met(instance)) != len(log.lines):
        eventually(lambda before=before: met(instance) != before, shown=lambda: instance.status)  # type: ignore[misc]


class Holding(KafkaSource):
    """Brings some of the log, and then nothing until it is let go on: then the broker has been away meanwhile."""

    let = threading.Event()
    brought = 0

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        if self.brought > EVENTS // 10:
            assert self.let.wait(PATIENCE_SECONDS)
        polled = super().poll(timeout_seconds, max_records)
        self.brought += sum(len(batch.records) for batch in polled.batches)
        return polled


def assert_as_expected(log: MixedLog, instance: Pipeline) -> None:
    expected = log.expected
    assert unjoined_as_one(instance.status.counters) == unjoined_as_one(expected.counters)
    assert instance.status.pending + sum(instance.status.departed.values()) == expected.predictions


def assert_panes_as_expected(log: MixedLog, store: SqlStore) -> None:
    """What the store holds of closings, and of what is not settled, is what obvious loops count."""
    panes = ClosedPanes({SLIDE_MS: DAY_MS}, policy_of)
    read_closings(store, panes)
    assert set(panes.series()) == {key for _, key in log.expected.panes}
    found: dict[tuple[int, object], GridTable] = {}
    for key in panes.series():
        for start, _, _ in panes.counts(key, SLIDE_MS, START_MS - SPAN_MS, START_MS + 2 * SPAN_MS):
            found[start, key] = panes.sum(key, SLIDE_MS, start, start + SLIDE_MS)
    assert found == log.expected.panes
    for (start, key), sketch in log.sketches(SLIDE_MS).items():
        kept = panes.sketch(key, SLIDE_MS, start, start + SLIDE_MS)
        assert kept is not None
        assert kept.sums.tobytes() == sketch.sums.tobytes()


def assert_samples_as_expected(log: MixedLog, store: SqlStore) -> None:
    """What the store holds of samples is what obvious loops keep, of the buckets that it has dropped."""
    with store._database.reading() as connection:
        rows = connection.execute(sa.select(CLOSED_SAMPLES)).all()
    parts: dict[tuple[int, str, str, int], list[ClosedSample]] = {}
    for row in rows:
        key = (row.partition, row.model, row.version, row.start_ms)
        parts.setdefault(key, []).append(ClosedSample.from_bytes(row.sample))
    stored = {key: naive_closed(ClosedSample.sum(of_span)) for key, of_span in parts.items()}
    expected, open_buckets = {}, set()
    for partition, samples in enumerate(log.samples):
        state = store.load(partition)
        not_dropped = {batch.bucket for batch in state.journal}
        open_buckets |= not_dropped
        for span, closed in samples.closed(lambda bucket, kept=not_dropped: bucket in kept).items():  # type: ignore[misc]
            expected[partition, *span] = closed
        waiting = {cell: items for cell, items in samples.candidates.items() if cell[0] in not_dropped}
        saved = _candidates(state)
        assert set(saved) == set(waiting)
        for cell, items in waiting.items():
            assert {(item.id_hash, item.confidence, item.features) for item in items} <= saved[cell]
    assert open_buckets
    assert len(stored) > 4 * 4 * 8
    assert sum(len(closed.events) == SAMPLE_CAPACITY for closed in stored.values()) > len(stored) // 2
    assert stored == expected
    events = store.read_sample(OF_CLASSES, "1").events
    assert events.classes == len(CLASSES)
    assert events.features is not None
    assert events.features.shape[1] == 4


def _candidates(state: PartitionState) -> dict[tuple[Bucket, str], set[tuple[int, int, tuple[float, ...]]]]:
    """Hash, stratum of confidence and features of what was saved, by bucket and version."""
    candidates: dict[tuple[Bucket, str], set[tuple[int, int, tuple[float, ...]]]] = defaultdict(set)
    for batch in state.candidates:
        for row in Candidates.from_bytes(batch.rows).table.to_pylist():
            version = state.strata[row["stratum"]].version
            candidate = row["id_high"] << 64 | row["id_low"], row["confidence"], tuple(row["features"] or ())
            candidates[batch.bucket, version].add(candidate)
    return candidates


def read_and_compare(log: MixedLog, broker: KafkaBroker, group: str, url: str) -> None:
    """Restore what was saved, read to the end, and compare."""
    with SqlStore.open(url) as store, running(pipeline(broker.bootstrap, group, store, topics(SUFFIX))) as instance:
        wait_for(log, instance)
        assert_as_expected(log, instance)
    with SqlStore.open(url) as store:
        assert_panes_as_expected(log, store)
        assert_samples_as_expected(log, store)


def start_worker(broker: KafkaBroker, group: str, url: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.real.stream_worker", broker.bootstrap, group, url, SUFFIX]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def records_saved(store: SqlStore) -> int:
    """How far the saved offsets have come, over all partitions."""
    return sum(store.saved_offsets().values())


def test_in_one_go(kafka_broker: KafkaBroker, log: MixedLog, tmp_path: Path) -> None:
    for _ in range(2):
        read_and_compare(log, kafka_broker, "one-go", f"sqlite:///{tmp_path}/state.db")


def test_killed_at_random_instants(kafka_broker: KafkaBroker, log: MixedLog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    moments = random.Random(7)
    with SqlStore.open(url) as store:
        for _ in range(5):
            before = records_saved(store)
            worker = start_worker(kafka_broker, "killed", url)
            eventually(lambda before=before: records_saved(store) > before, shown=worker.poll)  # type: ignore[misc]
            time.sleep(moments.uniform(0, 0.6))
            assert worker.poll() is None
            worker.kill()
            worker.wait(PATIENCE_SECONDS)
    for _ in range(2):
        read_and_compare(log, kafka_broker, "killed", url)


@broker_vanishes
def test_the_broker_restarts_in_the_middle(kafka_broker: KafkaBroker, log: MixedLog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with collected(), SqlStore.open(url) as store:
        instance = pipeline(kafka_broker.bootstrap, "broker-restart", store, topics(SUFFIX), reads=Holding)
        with running(instance):
            eventually(lambda: instance.status.records_read > EVENTS // 10, shown=lambda: instance.status)
            kafka_broker.stop()
            assert instance.status.records_read < len(log.lines) // 2
            Holding.let.set()
            kafka_broker.start()
            wait_for(log, instance)
            assert_as_expected(log, instance)
    read_and_compare(log, kafka_broker, "broker-restart", url)


def test_a_second_consumer_joins_and_leaves(kafka_broker: KafkaBroker, log: MixedLog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with SqlStore.open(url) as store:
        instance = pipeline(kafka_broker.bootstrap, "two", store, topics(SUFFIX), checkpoint_seconds=0.2)
        with running(instance):
            # Partitions are claimed one by one, so that this one holds half of them before the other has joined, too.
            eventually(lambda: len(instance.status.partitions) == log.partitions, shown=lambda: instance.status)
            eventually(lambda: instance.status.counters)
            other = start_worker(kafka_broker, "two", url)
            eventually(
                lambda: len(instance.status.partitions) == log.partitions // 2,
                shown=lambda: instance.status,
                pause_seconds=0.01,
            )
            time.sleep(1)
            other.send_signal(signal.SIGTERM)
            assert other.wait(PATIENCE_SECONDS) == 0
            wait_for(log, instance)
            assert_as_expected(log, instance)
    read_and_compare(log, kafka_broker, "two", url)
