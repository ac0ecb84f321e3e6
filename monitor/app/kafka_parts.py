"""Build the parts that talk to Kafka. Loaded only where there is Kafka: kafka-python takes a tenth of a second."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import OffsetSpec
from pydantic import SecretStr

from monitor.app.settings.model import KafkaSettings
from monitor.clock import Clock
from monitor.events.log import LogRange, LogStart, Topics
from monitor.events.model import TopicPartition
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection, partition_counts
from monitor.sources.kafka_writer import KafkaWriter


def make_connection(kafka: KafkaSettings) -> KafkaConnection:
    """Options to connect to the brokers."""
    # Both have the names of kafka-python.
    options: dict[str, Any] = {
        field.name: getattr(kafka, field.name) for field in fields(KafkaConnection) if hasattr(kafka, field.name)
    }
    revealed = {name: value.get_secret_value() for name, value in options.items() if isinstance(value, SecretStr)}
    return KafkaConnection(
        **options | revealed,
        connect_seconds=kafka.connect_timeout.total_seconds(),
        request_seconds=kafka.request_timeout.total_seconds(),
    )


def make_kafka_source(kafka: KafkaSettings, topics: Topics, log_start: LogStart, clock: Clock) -> KafkaSource:
    """The reading end of the log. Does not connect yet."""
    return KafkaSource(
        make_connection(kafka),
        topics,
        group_id=kafka.group_id,
        group_instance_id=kafka.group_instance_id,
        log_start=log_start,
        session_timeout_seconds=kafka.session_timeout.total_seconds(),
        max_poll_interval_seconds=kafka.max_poll_interval.total_seconds(),
        clock=clock,
    )


def make_kafka_writer(kafka: KafkaSettings) -> KafkaWriter:
    """The writing end of the log."""
    return KafkaWriter(make_connection(kafka))


def read_kafka_bounds(kafka: KafkaSettings, topics: Sequence[str]) -> Mapping[TopicPartition, LogRange]:
    """Read the first and last offsets of topics; those that do not exist are left out.

    Raises
    ------
    SourceUnavailable, SourceMisconfigured, SettingsError
        The brokers do not answer, or refuse the connection.
    """
    connection = make_connection(kafka)
    counts = partition_counts(connection, topics)
    parts = [KafkaTopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    if not parts:
        return {}
    with connection.translated(), KafkaAdminClient(**connection.options()) as admin:
        begin = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.EARLIEST))
        end = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.LATEST))
    return {TopicPartition(*part): LogRange(int(begin[part].offset), int(end[part].offset)) for part in parts}
