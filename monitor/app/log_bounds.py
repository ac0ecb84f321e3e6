"""Compare the first and last offsets of the log with the offsets that a store continues from."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec

from monitor.app.parts import log_directory, make_connection, make_embedded_log, make_topics
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.errors import SourceUnavailable
from monitor.sources.base import TopicPartition
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.kafka_connection import KafkaConnection, partition_counts


class Bounds(NamedTuple):
    """Of one topic partition: its first offset, and the one after its last."""

    begin: int
    end: int


class Continuation(NamedTuple):
    """Which records a store will read when it continues."""

    to_read: int
    """Records between its offsets and the end of the log."""
    missing: Mapping[TopicPartition, int]
    """Where the log begins behind the store's offset: records that are in neither."""
    ahead: Mapping[TopicPartition, int]
    """Where the log ends before the store's offset: it was made anew, or is an older copy."""
    unknown: tuple[TopicPartition, ...]
    """Topic partitions that the store knows and the log does not have, or that are not read any more."""


def continuation(offsets: Iterable[tuple[str, int, int]], bounds: Mapping[TopicPartition, Bounds]) -> Continuation:
    """Compare the offsets of a store (topic, partition, offset) with a log."""
    to_read = 0
    missing: dict[TopicPartition, int] = {}
    ahead: dict[TopicPartition, int] = {}
    unknown: list[TopicPartition] = []
    for topic, partition, offset in offsets:
        part = TopicPartition(topic, partition)
        bound = bounds.get(part)
        if bound is None:
            unknown.append(part)
        elif offset < bound.begin:
            missing[part] = bound.begin - offset
            to_read += bound.end - bound.begin
        elif offset > bound.end:
            ahead[part] = offset - bound.end
        else:
            to_read += bound.end - offset
    return Continuation(to_read, missing, ahead, tuple(sorted(unknown)))


def log_bounds(settings: Settings, clock: Clock) -> Mapping[TopicPartition, Bounds]:
    """Where the topics that are read begin and end, once. Errors as of :class:`LogBounds`."""
    return LogBounds(settings, clock)()


class LogBounds:
    """Read the first and last offsets of the topics that are read; topics that do not exist are left out.

    A repeated call on an embedded log reads only what was written since.

    Raises
    ------
    SourceUnavailable
        When called: the log is not there, or does not answer.
    SourceMisconfigured, SettingsError
        When called: it refuses the connection.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = list(make_topics(settings).kinds)
        self._embedded: EmbeddedLog | None = None

    def __call__(self) -> Mapping[TopicPartition, Bounds]:
        """Read the bounds once."""
        if self._settings.source.kind == "embedded":
            return self._of_embedded_log()
        connection = make_connection(self._settings.source.kafka)
        counts = partition_counts(connection, self._topics)
        return kafka_bounds(connection, counts)

    def _of_embedded_log(self) -> Mapping[TopicPartition, Bounds]:
        directory = log_directory(self._settings)
        if not (directory / "log.json").is_file():
            # Reading its bounds must not create it.
            raise SourceUnavailable(f"there is no embedded log in {directory}")
        log = self._embedded = self._embedded or make_embedded_log(self._settings, self._clock)
        result: dict[TopicPartition, Bounds] = {}
        for topic in self._topics:
            for number in range(log.partitions):
                part = TopicPartition(topic, number)
                with suppress(FileNotFoundError):
                    result[part] = Bounds(*log.bounds(part))
        return result


def kafka_bounds(connection: KafkaConnection, counts: Mapping[str, int]) -> Mapping[TopicPartition, Bounds]:
    """Where topics of so many partitions begin and end. Errors as of :func:`log_bounds`."""
    parts = [KafkaTopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    if not parts:
        return {}
    try:
        with KafkaAdminClient(**connection.options()) as admin:
            begin = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.EARLIEST))
            end = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.LATEST))
    except kafka_errors.KafkaError as error:
        raise connection.explain(error) from error
    return {TopicPartition(*part): Bounds(int(begin[part].offset), int(end[part].offset)) for part in parts}
