"""The streaming job of Spark: it reads the topics and writes closings into the store, in place of the pipeline."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from monitor.app.parts import (
    dead_letter_sender,
    make_connection,
    make_decoder,
    make_formats,
    make_partition_settings,
    make_topics,
    make_writer,
)
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.errors import Conflict, SettingsError, SourceMisconfigured, StoreUnavailable
from monitor.events.codec import Decoder
from monitor.events.times import format_time
from monitor.outage_log import Outage, Retry
from monitor.sources.base import LogStart
from monitor.sources.kafka_connection import KafkaConnection, partition_counts, same_partition_count
from monitor.spark.kafka import read_topics
from monitor.spark.others import read_others
from monitor.spark.stream import STATE_STORE, checkpoints, decode_checkpoint
from monitor.store.base import Checkpoint
from monitor.store.settled import edges
from monitor.store.sql import SqlStore
from monitor.stream.keyed_partition import Others
from monitor.stream.old_panes import OldPanesFinder
from monitor.stream.partition import PartitionSettings

_log = structlog.get_logger(__name__)

_QUERY_ID: Final = "sql.streaming.queryId"
"""Property of Spark's context while a batch is written."""


def start_stream(
    spark: SparkSession,
    settings: Settings,
    open_store: Callable[[], SqlStore],
    *,
    folder: str,
    batch_seconds: float,
    max_records: int,
) -> StreamingQuery:
    """Start the job.

    Parameters
    ----------
    spark
        The session, with the package ``spark-sql-kafka-0-10``.
    open_store
        Opens the store of the settings; also called in a process of its own, beside the driver.
    folder
        The query's checkpoint folder: where Spark keeps offsets and state.
    batch_seconds
        How far batches are apart at least.
    max_records
        How many records a batch reads at most.

    Raises
    ------
    SettingsError
        The source is not Kafka, or windows are asked for that the job cannot serve.
    SourceError, StoreError
        Kafka or the store does not answer, or refuses.
    """
    if settings.source.kind != "kafka":
        raise SettingsError("source.kind must be kafka for the streaming job: Spark cannot read the embedded log")
    policies = make_partition_settings(settings, sampling=False)
    if policies.unsettled_cells:
        raise SettingsError("windows with mature: false hold what is not settled, which the streaming job does not sum")
    connection, kinds = make_connection(settings.source.kafka), make_topics(settings).kinds
    partitions = same_partition_count(partition_counts(connection, list(kinds)))
    store = open_store()
    store.register(range(partitions))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    start = LogStart(when_new=settings.source.start, when_purged=settings.source.when_purged)
    others = read_others(spark, partial(_others_reader, connection, list(kinds), partitions, open_store))
    messages = read_topics(spark, connection, list(kinds), start, max_records)
    return (
        checkpoints(others.unionByName(messages), policies, kinds, partial(_decoder, settings))
        .writeStream.outputMode("append")
        .foreachBatch(_BatchWriter(store, settings, policies, range(partitions)))
        .option("checkpointLocation", folder)
        .trigger(processingTime=f"{batch_seconds} seconds")
        .start()
    )


def _decoder(settings: Settings) -> Decoder:
    clock = SystemClock()
    return make_decoder(settings, clock, formats=make_formats(settings, clock))


def _others_reader(
    connection: KafkaConnection, topics: list[str], partitions: int, open_store: Callable[[], SqlStore]
) -> Callable[[], Mapping[int, Others]]:
    """Make a function that reads the ends of the logs, and how far all partitions are by what is saved."""
    store = open_store()
    consumer = KafkaConsumer(**connection.options(), enable_auto_commit=False, isolation_level="read_committed")
    parts = [KafkaTopicPartition(topic, number) for topic in topics for number in range(partitions)]

    def read() -> Mapping[int, Others]:
        with connection.translated():
            ends = consumer.end_offsets(parts)
        clocks, backfilled_ms = store.model_clocks(), store.backfilled_ms()
        return {
            number: Others({topic: ends[KafkaTopicPartition(topic, number)] for topic in topics}, clocks, backfilled_ms)
            for number in range(partitions)
        }

    return read


class _BatchWriter:
    """Writes the checkpoints of each batch into the store. Called on the driver."""

    def __init__(self, store: SqlStore, settings: Settings, policies: PartitionSettings, partitions: range) -> None:
        self._store, self._policies = store, policies
        letters = settings.dead_letters.topic
        self._send = None if letters is None else dead_letter_sender(letters, make_writer(settings, SystemClock()))
        self._epochs = {number: store.claim(number) for number in partitions}
        self._old_panes = {
            number: OldPanesFinder(policies.kept_ms, store.load(number).oldest_ms) for number in partitions
        }
        clock = SystemClock()
        self._retry = Retry(clock, Outage(_log, "a batch could not be saved and is tried again", "saved", clock))

    def __call__(self, frame: DataFrame, number: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        rows = frame.collect()
        while True:
            try:
                self._save(str(query), number, {row.partition: bytes(row.checkpoint) for row in rows})
            except StoreUnavailable as error:
                time.sleep(self._retry.failed(error, batch=number))
            else:
                self._retry.over()
                return

    def _save(self, query: str, number: int, encoded: Mapping[int, bytes]) -> None:
        clocks, backfilled_ms = self._store.model_clocks(), self._store.backfilled_ms()
        read_to_ms = min(clock.read_to_ms for clock in self._store.partition_clocks().values())
        edges_ms, evidence_ms = edges(clocks, read_to_ms, self._policies.policy), self._store.evidence_ms()
        if new := encoded.keys() - self._epochs.keys():
            raise SourceMisconfigured(
                f"the topics have new partitions ({', '.join(map(str, sorted(new)))}): start the job again"
            )
        checkpoints: list[Checkpoint] = []
        for partition, data in encoded.items():
            checkpoint = decode_checkpoint(data, self._epochs[partition])
            for closing in checkpoint.closings:
                if closing.panes.cells.start_ms.min(initial=closing.to_ms) < backfilled_ms.get(closing.model, -1):
                    raise Conflict(
                        f"{closing.model}: a backfill up to {format_time(backfilled_ms[closing.model])} was written "
                        "while the job had read predictions from before its end: replace it by one that ends before "
                        "the job's first prediction, with --to"
                    )
            closed = {state.name: state.closed_to_ms for state in checkpoint.models}
            old = self._old_panes[partition].find(closed, edges_ms, evidence_ms)
            checkpoints.append(replace(checkpoint, old=old))
        if self._send is not None:
            self._send([letter for checkpoint in checkpoints for letter in checkpoint.dead_letters])
        is_new = self._store.save_batch(query, number, checkpoints)
        closings = sum(len(checkpoint.closings) for checkpoint in checkpoints)
        _log.info("batch saved" if is_new else "batch was saved before", batch=number, closings=closings)
