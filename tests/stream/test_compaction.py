"""A compacted topic of a real broker: offsets that are gone, a saved offset among them, and ignored tombstones."""

from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import TopicPartition
from tests.patience import eventually
from tests.real.kafka import PATIENCE_MS, KafkaBroker
from tests.stream.one_topic import MODEL, OneTopic
from tests.stream.support import START_MS

pytestmark = pytest.mark.kafka


def kept_offsets(broker: KafkaBroker, topic: str) -> list[int]:
    """The offsets of the messages that are still in the topic."""
    part = KafkaTopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    try:
        consumer.assign([part])
        end = consumer.end_offsets([part], PATIENCE_MS)[part]
        offsets: list[int] = []
        while consumer.position(part, timeout_ms=PATIENCE_MS) < end:
            offsets += [record.offset for records in consumer.poll(200).values() for record in records]
        return offsets
    finally:
        consumer.close()


def test_compaction_between_two_starts_and_ignored_tombstones(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    service = OneTopic(
        tmp_path,
        kafka_broker,
        ignore_tombstones=True,
        cleanup_policy="compact",
        segment_ms="1",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="86400000",
    )
    topic, keys = service.topic, [b"%d" % number for number in range(30)]
    predictions = [encode_prediction(MODEL, key.decode(), START_MS, (at + 1) / 32) for at, key in enumerate(keys)]
    wrong, right = (
        [encode_outcome(MODEL, key.decode(), START_MS + at, y) for key in keys] for at, y in ((1, 0), (2, 1))
    )
    # Predictions and outcomes under keys of their own: under one key, only the outcomes would stay.
    kafka_broker.produce(topic, predictions, keys=[b"p" + key for key in keys], partition=0)
    kafka_broker.produce(topic, wrong, keys=keys, partition=0)
    service.read_to(60)
    service.source.close()
    # The first twenty outcomes are corrected and the others' keys deleted; the saved offset 60 is of one that goes.
    kafka_broker.produce(topic, [right[0], None, right[0]], keys=[keys[0], keys[29], keys[0]], partition=0)
    kafka_broker.produce(topic, right[1:20], keys=keys[1:20], partition=0)
    kafka_broker.produce(topic, [None] * 9, keys=keys[20:29], partition=0)
    kafka_broker.produce(topic, [None], keys=[b"new"], partition=0)  # a segment that is written to is not compacted
    kept = [*range(30), *range(61, 92)]
    eventually(lambda: kept_offsets(kafka_broker, topic) == kept, shown=lambda: kept_offsets(kafka_broker, topic))
    service.start()
    service.read_to(92)
    assert service.pipeline.status.lag == {TopicPartition(topic, 0): 0}
    # What was read before is counted on, and what a tombstone deleted later stays counted.
    assert service.counted() == {
        ("prediction", "accepted"): 30,
        ("outcome", "joined"): 30,
        ("outcome", "corrected"): 20,
        ("unknown", "tombstone"): 11,
    }
    service.assert_holds([((at + 1) / 32, int(at < 20)) for at in range(30)])
    service.restart()
    service.read_to(92)
    assert service.counted()["unknown", "tombstone"] == 11
    service.close()
