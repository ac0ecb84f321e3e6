"""Transactions of librdkafka's producer: committed events are counted once, aborted ones never, open ones later."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import TopicPartition
from tests.patience import PATIENCE_SECONDS
from tests.real.kafka import KafkaBroker
from tests.stream.one_topic import MODEL, OneTopic
from tests.stream.support import START_MS

pytestmark = pytest.mark.kafka


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


@pytest.fixture
def running(tmp_path: Path, kafka_broker: KafkaBroker) -> Iterator[OneTopic]:
    service = OneTopic(tmp_path, kafka_broker)
    yield service
    service.close()


def test_committed_events_count_once_however_transactions_interleave(running: OneTopic) -> None:
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
            running.restart()
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
    running.read_to(stable)
    end = running.source.end_offsets()[part]
    assert end > stable
    for _ in range(3):
        assert running.saved_offset == stable
    assert running.pipeline.status.lag == {part: end - stable}
    assert last.open
    last.end(commit=True)
    running.read_to(end + 1)
    assert running.pipeline.status.lag == {part: 0}
    committed = [event for producer in producers for event in producer.committed]
    assert len(committed) > len(before)
    assert running.counted() == {("prediction", "accepted"): len(committed), ("outcome", "joined"): len(committed)}
    running.assert_holds(committed)


def last_stable_offset(running: OneTopic) -> int:
    """The first offset of the earliest open transaction, according to the broker."""
    part = KafkaTopicPartition(running.topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=running.broker.bootstrap, isolation_level="read_committed")
    try:
        return int(consumer.end_offsets([part])[part])
    finally:
        consumer.close()
