"""Compare the first and last offsets of the log with the offsets from which a store continues."""

import fcntl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from monitor.app.parts import log_directory, make_embedded_log, make_topics
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.errors import SourceUnavailable
from monitor.events.log import LogRange
from monitor.events.model import TopicPartition
from monitor.sources.embedded_log import EmbeddedLog


class Continuation(NamedTuple):
    """Which records a store will read when it continues."""

    to_read: int
    """Records between its offsets and the end of the log."""
    missing: Mapping[TopicPartition, int]
    """Where the log begins behind the store's offset: number of records that are in neither."""
    ahead: Mapping[TopicPartition, int]
    """Where the log ends before the store's offset: by how many records."""
    unknown: tuple[TopicPartition, ...]
    """Topic partitions of the store that are not in the log, or no longer read."""

    def gaps(self) -> list[str]:
        """Describe what keeps the store from continuing: one line for each topic partition."""
        return [
            f"{part.topic}/{part.partition}: {count:,} records were purged unread"
            for part, count in self.missing.items()
        ] + [
            f"{part.topic}/{part.partition}: the log ends {count:,} "
            "records before the store's offset: it was created anew, or is an older copy"
            for part, count in self.ahead.items()
        ]


def continuation(offsets: Iterable[tuple[str, int, int]], bounds: Mapping[TopicPartition, LogRange]) -> Continuation:
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
        elif offset > bound.end:
            ahead[part] = offset - bound.end
        else:
            to_read += bound.end - max(offset, bound.earliest)
            if offset < bound.earliest:
                missing[part] = bound.earliest - offset
    return Continuation(to_read, missing, ahead, tuple(sorted(unknown)))


class LogBounds:
    """The first and last offsets of the topics that are read; topics that do not exist are left out.

    A second call for an embedded log reads only what was written since the first.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = list(make_topics(settings).kinds)
        self._embedded: EmbeddedLog | None = None

    def read(self) -> Mapping[TopicPartition, LogRange]:
        """Read the current bounds.

        Raises
        ------
        SourceUnavailable
            The log does not exist, or does not answer.
        SourceMisconfigured, SettingsError
            It refuses the connection.
        """
        return self._read_embedded() if self._settings.source.kind == "embedded" else self._read_kafka()

    def _read_embedded(self) -> Mapping[TopicPartition, LogRange]:
        directory = log_directory(self._settings)
        if not (directory / "log.json").is_file():
            # Reading its bounds must not create it.
            raise SourceUnavailable(f"there is no embedded log in {directory}")
        log = self._embedded = self._embedded or make_embedded_log(self._settings, self._clock)
        result: dict[TopicPartition, LogRange] = {}
        for topic in self._topics:
            for number in range(log.partitions):
                part = TopicPartition(topic, number)
                with suppress(FileNotFoundError):
                    result[part] = log.bounds(part)
        return result

    def _read_kafka(self) -> Mapping[TopicPartition, LogRange]:
        from monitor.app.kafka_parts import read_kafka_bounds  # noqa: PLC0415 - not without Kafka

        return read_kafka_bounds(self._settings.source.kafka, self._topics)


def is_log_read(directory: Path) -> bool:
    """Whether a service reads the embedded log in that directory now."""
    lock = directory / "reader.lock"
    if not lock.is_file():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
