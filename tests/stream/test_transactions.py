"""Transactions of librdkafka's producer: committed events are counted once, aborted ones never, open ones later."""

import random
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import Kind, ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.sources.base import TopicPartition, Topics
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.pipeline import Pipeline, PipelineSettings
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker
from tests.stream.support import START_MS, tables_of

pytestmark = pytest.mark.kafka

POLICY = ModelPolicy(horizon_ms=3_600_000, lateness_ms=600_000)
PARTITIONS = PartitionSettings(policy=lambda _: POLICY, kept_ms={3_600_000: 86_400_000})
MODEL = "m"


class Transactions:
    """A transactional producer of predictions and outcomes, the whole history of which is known."""

    def __init__(self, broker: KafkaBroker, topic: str, name: str) -> None:
        self.committed: list[tuple[float, int]] = []
        """p and y of the events of committed transactions."""
        self.open: list[tuple[float, int]] = []
        self.began = False
        self._name, self._topic, self._number = name, topic, 0
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{name}", "log_level": 0}
        )
        self._producer.init_transactions(PATIENCE_SECONDS)

    def send(self, count: int) -> None:
        """Write predictions with their outcomes, as a batch that the broker has acknowledged."""
        if not self.began:
            self._producer.begin_transaction()
            self.began = True
        for _ in range(count):
            self._number += 1
            id_, p, y = f"{self._name}-{self._number}", self._number % 97 / 97, self._number % 3 % 2
            time_ms = START_MS + self._number
            self._producer.produce(self._topic, encode_prediction(MODEL, id_, time_ms, p), partition=0)
            self._producer.produce(self._topic, encode_outcome(MODEL, id_, time_ms, y), partition=0)
            self.open.append((p, y))
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def end(self, *, commit: bool) -> None:
        """End the transaction."""
        if commit:
            self._producer.commit_transaction(PATIENCE_SECONDS)
            self.committed += self.open
        else:
            self._producer.abort_transaction(PATIENCE_SECONDS)
        self.open, self.began = [], False


class Running:
    """A service that reads the topic in small polls, and may be started again from what it saved."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        self.broker, self.group = broker, f"group-{uuid4().hex[:8]}"
        self.topic = broker.create_topic(f"events-{uuid4().hex[:8]}", 1)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db")
        self.start()

    def start(self) -> None:
        """Start from what is saved; unsaved events of an earlier start are read again."""
        kinds: dict[str, Kind | None] = {self.topic: None}
        connection = KafkaConnection([self.broker.bootstrap], connect_seconds=PATIENCE_SECONDS)
        self.source = KafkaSource(connection, Topics(kinds), group_id=self.group)
        self.pipeline = Pipeline(
            self.source,
            self.store,
            Decoder(),
            partitions=PARTITIONS,
            settings=PipelineSettings(kinds, checkpoint_seconds=0.1, max_poll_records=11),
            clock=SystemClock(),
        )

    @property
    def saved_offset(self) -> int:
        """Up to where the log is read and saved, after one more step."""
        self.pipeline.step()
        return self.store.saved_offsets().get((self.topic, 0), 0)

    def assert_counts(self, events: list[tuple[float, int]]) -> None:
        """The saved state is that of exactly these predictions with their outcomes."""
        partition = Partition(0, 0, PARTITIONS, self.store.load(0))
        counted = {key: number for key, number in partition.event_counters().items() if number}
        assert counted == {("prediction", "accepted"): len(events), ("outcome", "joined"): len(events)}
        scores, labels = np.array(events).T
        whole = SeriesKey(MODEL, "unversioned", "all")
        tables = [table for (_, series), table in tables_of(partition.unsettled(cells=True)).items() if series == whole]
        assert sum(tables, GridTable.zero()) == GridTable.from_events(scores, labels.astype(int))


@pytest.fixture
def running(tmp_path: Path, kafka_broker: KafkaBroker) -> Iterator[Running]:
    service = Running(tmp_path, kafka_broker)
    yield service
    service.source.close()
    service.store.close()


def test_committed_events_count_once_however_transactions_interleave(running: Running) -> None:
    chance = random.Random(4)
    producers = [Transactions(running.broker, running.topic, name) for name in "abc"]
    for step in range(36):
        producer = chance.choice(producers)
        producer.send(chance.randrange(1, 9))
        if chance.random() < 0.4:
            producer.end(commit=chance.random() < 0.5)
        if step in {12, 24}:
            # A crash: whatever was read and not saved is read again, from within a batch as well.
            for _ in range(6):
                running.pipeline.step()
            running.source.close()
            running.start()
    last, *others = producers
    for producer in others:
        if producer.began:
            producer.end(commit=True)
    if not last.began:
        last.send(3)
    # Nothing behind the first message of an open transaction is read, and the lag says so.
    before = last.committed + [event for producer in others for event in producer.committed]
    part = TopicPartition(running.topic, 0)
    stable = last_stable_offset(running)
    eventually(lambda: running.saved_offset == stable, shown=lambda: running.pipeline.status, pause_seconds=0)
    end = running.source.end_offsets()[part]
    assert end > stable
    for _ in range(3):
        assert running.saved_offset == stable
    assert running.pipeline.status.lag == {part: end - stable}
    assert last.open
    last.end(commit=True)
    eventually(lambda: running.saved_offset == end + 1, shown=lambda: running.pipeline.status, pause_seconds=0)
    assert running.pipeline.status.lag == {part: 0}
    committed = [event for producer in producers for event in producer.committed]
    assert len(committed) > len(before)
    running.assert_counts(committed)


def last_stable_offset(running: Running) -> int:
    """The first offset of the earliest open transaction, according to the broker."""
    part = KafkaTopicPartition(running.topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=running.broker.bootstrap, isolation_level="read_committed")
    try:
        return int(consumer.end_offsets([part])[part])
    finally:
        consumer.close()
