"""What reaches outside the process: the log of events, the store, and the pipeline between them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from monitor.app.parts import make_decoder, make_partition_settings, make_topics
from monitor.app.settings import Settings
from monitor.app.settings.model import KafkaSettings
from monitor.app.settings.values import to_ms
from monitor.clock import Clock
from monitor.events.model import DeadLetter
from monitor.sources.base import LogStart, Message, Source, Writer
from monitor.sources.embedded import EmbeddedSource, EmbeddedWriter
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.kafka_writer import KafkaWriter
from monitor.store.address import expand_home
from monitor.store.base import StateStore
from monitor.store.sql import SqlStore
from monitor.stream.pipeline import DeadLetterCeiling, Pipeline, PipelineSettings

_HEADER: Final = "calibration-dead-letter-"
"""Begins the names of the headers that a dead letter gets besides its own."""


class Log(NamedTuple):
    """Both ends of the log of events."""

    source: Source
    writer: Writer


def make_log(settings: Settings, clock: Clock) -> Log:
    """Both ends of the log. A Kafka cluster is not asked for anything yet.

    Raises
    ------
    SettingsError
        Something that the settings name is not there, or is wrong.
    SourceError
        The embedded log cannot be opened.
    """
    topics = make_topics(settings)
    start = LogStart(when_new=settings.source.start, when_purged=settings.source.when_purged)
    if settings.source.kind == "embedded":
        log = make_embedded_log(settings, clock)
        return Log(EmbeddedSource(log, topics, log_start=start), EmbeddedWriter(log))
    kafka = settings.source.kafka
    connection = make_connection(kafka)
    source = KafkaSource(
        connection,
        topics,
        group_id=kafka.group_id,
        group_instance_id=kafka.group_instance_id,
        log_start=start,
        session_timeout_seconds=kafka.session_timeout.total_seconds(),
        max_poll_interval_seconds=kafka.max_poll_interval.total_seconds(),
        clock=clock,
    )
    return Log(source, KafkaWriter(connection))


def make_writer(settings: Settings, clock: Clock) -> Writer:
    """The end of the log that is written to, alone. Errors as of :func:`make_log`."""
    if settings.source.kind == "embedded":
        return EmbeddedWriter(make_embedded_log(settings, clock))
    return KafkaWriter(make_connection(settings.source.kafka))


def log_directory(settings: Settings) -> Path:
    """Where the embedded log is. Raises SettingsError where the path begins with a home that is not known."""
    return expand_home(settings.source.embedded.directory, "source.embedded.directory")


def make_embedded_log(settings: Settings, clock: Clock) -> EmbeddedLog:
    """The embedded log."""
    embedded = settings.source.embedded
    return EmbeddedLog(
        log_directory(settings),
        partitions=embedded.partitions,
        retention_bytes=embedded.retention_bytes,
        retention_ms=None if embedded.retention is None else to_ms(embedded.retention),
        clock=clock,
    )


def make_connection(kafka: KafkaSettings) -> KafkaConnection:
    """How the brokers are reached."""

    def reveal(name: str) -> str | None:
        secret = getattr(kafka, name)
        return None if secret is None else str(secret.get_secret_value())

    return KafkaConnection(
        bootstrap_servers=kafka.bootstrap_servers,
        client_id=kafka.client_id,
        security_protocol=kafka.security_protocol,
        ssl_cafile=kafka.ssl_cafile,
        ssl_certfile=kafka.ssl_certfile,
        ssl_keyfile=kafka.ssl_keyfile,
        ssl_password=reveal("ssl_password"),
        ssl_check_hostname=kafka.ssl_check_hostname,
        sasl_mechanism=kafka.sasl_mechanism,
        sasl_plain_username=kafka.sasl_plain_username,
        sasl_plain_password=reveal("sasl_plain_password"),
        sasl_kerberos_service_name=kafka.sasl_kerberos_service_name,
        connect_seconds=kafka.connect_timeout.total_seconds(),
        request_seconds=kafka.request_timeout.total_seconds(),
    )


def open_store(settings: Settings, clock: Clock) -> SqlStore:
    """The store; made when it is not there.

    Raises
    ------
    SettingsError, StoreError
        As of :meth:`SqlStore.open`.
    """
    return SqlStore.open(settings.store.url, dead_letter_limit=settings.dead_letters.keep, clock=clock)


def make_pipeline(settings: Settings, log: Log, store: StateStore, clock: Clock) -> Pipeline:
    """The pipeline between a log and a store."""
    pipeline, letters = settings.pipeline, settings.dead_letters
    return Pipeline(
        log.source,
        store,
        make_decoder(settings, clock),
        partitions=make_partition_settings(settings),
        settings=PipelineSettings(
            kinds=make_topics(settings).kinds,
            max_poll_records=pipeline.max_poll_records,
            checkpoint_seconds=pipeline.checkpoint_interval.total_seconds(),
            alignment_seconds=pipeline.topic_alignment.total_seconds(),
            dead_letter_ceiling=DeadLetterCeiling(ratio=letters.max_ratio, messages=letters.block),
        ),
        clock=clock,
        send_dead_letters=None if letters.topic is None else dead_letter_sender(letters.topic, log.writer),
    )


def dead_letter_sender(topic: str, writer: Writer) -> Callable[[Sequence[DeadLetter]], None]:
    """Writes dead letters to a topic: the original key, bytes and headers, and where they were and why as headers."""

    def send(letters: Sequence[DeadLetter]) -> None:
        writer.write([_as_message(topic, letter) for letter in letters])

    return send


def _as_message(topic: str, letter: DeadLetter) -> Message:
    told = {
        "reason": letter.reason.value,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
    headers = [(f"{_HEADER}{name}", str(value).encode()) for name, value in told.items()]
    return Message(
        topic,
        letter.value,
        key=letter.key,
        headers=(*letter.headers, *headers),
        timestamp_ms=letter.timestamp_ms if letter.timestamp_ms >= 0 else None,
    )
