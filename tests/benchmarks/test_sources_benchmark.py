"""How fast records come, against kafka-python's own iterator on the same topic."""

import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from monitor.clock import SystemClock
from monitor.events.log import Source, Topics
from monitor.events.model import Message
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.kafka_writer import KafkaWriter
from tests.real.kafka import KafkaBroker

RECORDS = 400_000
PARTITIONS = 4
BATCH = 50_000

pytestmark = pytest.mark.benchmark


def _messages(topic: str) -> list[Message]:
    return [
        Message(
            topic,
            b'{"type":"prediction","model":"churn","version":"7","id":"%08x","ts":1795227584345,"p":0.%06d}' % (n, n),
            key=b"%08x" % n,
        )
        for n in range(RECORDS)
    ]


def _drain(source: Source) -> float:
    """Seconds from the first start to the last record."""
    assigned = source.poll(10, BATCH).assigned
    while not assigned:
        assigned = source.poll(10, BATCH).assigned
    began = time.perf_counter()
    for partition in assigned:
        source.start(partition, {})
    count = 0
    while count < RECORDS:
        count += sum(len(batch.records) for batch in source.poll(5, BATCH).batches)
    seconds = time.perf_counter() - began
    source.close()
    assert count == RECORDS
    return seconds


def _iterate(broker: KafkaBroker, topic: str) -> float:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id="iterator",
        max_poll_records=BATCH,
    )
    iterator = iter(consumer)
    next(iterator)  # The group has been joined.
    began = time.perf_counter()
    for _ in range(RECORDS - 1):
        next(iterator)
    seconds = time.perf_counter() - began
    consumer.close(autocommit=False)
    return seconds


def _write(writer: EmbeddedLog | KafkaWriter, messages: list[Message]) -> float:
    began = time.perf_counter()
    for start in range(0, RECORDS, BATCH):
        writer.write(messages[start : start + BATCH])
    seconds = time.perf_counter() - began
    writer.close()
    return seconds


def test_polls_against_the_iterator_and_the_embedded_log(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka_broker.create_topic("sources-benchmark", PARTITIONS)
    connection = KafkaConnection([kafka_broker.bootstrap])
    messages = _messages(topic)
    kafka_written = _write(KafkaWriter(connection), messages)
    topics = Topics({topic: None})
    polled = min(_drain(KafkaSource(connection, topics, group_id=f"poll-{n}", clock=SystemClock())) for n in range(2))
    iterated = _iterate(kafka_broker, topic)

    log = EmbeddedLog(tmp_path, partitions=PARTITIONS, clock=SystemClock())
    log.write([Message("warm-up", b"x", key=b"x")])
    appended = _write(log, messages)
    read = min(_drain(EmbeddedSource(log, topics)) for _ in range(2))

    print()
    for what, seconds in {
        "Kafka, kafka-python's iterator": iterated,
        "Kafka, KafkaSource.poll": polled,
        "Kafka, KafkaWriter.write": kafka_written,
        "embedded log, read": read,
        "embedded log, write (durable)": appended,
    }.items():
        print(f"{what:32} {RECORDS / seconds:>10,.0f} records/s   {iterated / seconds:5.2f} x the iterator")
    assert polled < iterated
    assert read < polled
