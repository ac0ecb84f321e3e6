"""Both logs behind one face, so that the same tests run on them."""

import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from monitor.clock import Clock, SystemClock
from monitor.errors import SourceUnavailable
from monitor.events.log import LogStart, Source, Topics, Writer
from monitor.events.model import Message, Record, TopicPartition
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.kafka_writer import KafkaWriter
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker

PARTITIONS = 3


class Log(Protocol):
    """What a test asks of a log. Whatever it makes is closed with it."""

    def topic(self) -> str: ...
    def source(self, *topics: str, start: LogStart | None = None) -> Source: ...
    def writer(self) -> Writer: ...
    def purge(self, topic: str, partition: int, before: int) -> None: ...
    def close(self) -> None: ...


class EmbeddedUnderTest:
    """Small segments: one for each write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: list[EmbeddedSource | EmbeddedLog] = []

    def log(self) -> EmbeddedLog:
        return EmbeddedLog(self.directory, partitions=PARTITIONS, segment_bytes=1, clock=SystemClock())

    def topic(self) -> str:
        return f"events-{uuid.uuid4().hex[:8]}"

    def source(self, *topics: str, start: LogStart | None = None) -> EmbeddedSource:
        source = EmbeddedSource(self.log(), Topics(dict.fromkeys(topics)), log_start=start)
        self._open.append(source)
        return source

    def writer(self) -> EmbeddedLog:
        writer = self.log()
        self._open.append(writer)
        return writer

    def purge(self, topic: str, partition: int, before: int) -> None:
        segments = self.log().segments(TopicPartition(topic, partition))
        for segment, following in pairwise(segments):
            if following.base_offset <= before:
                segment.path.unlink()

    def close(self) -> None:
        for each in self._open:
            each.close()


class KafkaUnderTest:
    """Topics and a consumer group of its own in a broker that others use too."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.group_id = f"group-{uuid.uuid4().hex[:8]}"
        self._open: list[KafkaSource | KafkaWriter] = []

    def topic(self, partitions: int = PARTITIONS, **configs: str) -> str:
        return self.broker.create_topic(f"events-{uuid.uuid4().hex[:8]}", partitions, **configs)

    def source(
        self,
        *topics: str,
        start: LogStart | None = None,
        group_instance_id: str | None = None,
        session_timeout_seconds: float = 45.0,
        clock: Clock | None = None,
    ) -> KafkaSource:
        source = KafkaSource(
            KafkaConnection([self.broker.bootstrap], connect_seconds=PATIENCE_SECONDS),
            Topics(dict.fromkeys(topics)),
            group_id=self.group_id,
            group_instance_id=group_instance_id,
            log_start=start,
            session_timeout_seconds=session_timeout_seconds,
            clock=clock or SystemClock(),
        )
        self._open.append(source)
        return source

    def writer(
        self, *, connect_seconds: float = PATIENCE_SECONDS, request_seconds: float = PATIENCE_SECONDS
    ) -> KafkaWriter:
        connection = KafkaConnection(
            [self.broker.bootstrap], connect_seconds=connect_seconds, request_seconds=request_seconds
        )
        writer = KafkaWriter(connection)
        self._open.append(writer)
        return writer

    def purge(self, topic: str, partition: int, before: int) -> None:
        self.broker.delete_records(topic, {partition: before})

    def close(self) -> None:
        for each in self._open:
            each.close()


@dataclass
class Reading:
    """Everything that some polls brought."""

    records: dict[tuple[str, int], list[Record]] = field(default_factory=lambda: defaultdict(list))
    next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    revoked: set[int] = field(default_factory=set)
    assigned: set[int] = field(default_factory=set)
    largest_poll: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.records.values()))

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [record.value for record in self.records[topic, partition]]


def read(
    source: Source,
    until: Callable[[Reading], bool],
    *,
    reading: Reading | None = None,
    max_records: int = 1_000,
) -> Reading:
    """Poll until something holds; fail when it never does."""
    reading = reading or Reading()

    def look() -> bool:
        if until(reading):
            return True
        polled = source.poll(0.2, max_records)
        reading.revoked |= polled.revoked
        reading.assigned |= polled.assigned
        reading.largest_poll = max(reading.largest_poll, sum(len(batch.records) for batch in polled.batches))
        for batch in polled.batches:
            place = batch.topic, batch.partition
            offsets = [record.offset for record in batch.records]
            assert offsets == sorted(set(offsets))
            if offsets:
                assert offsets[0] >= reading.next_offsets.get(place, 0)
                assert batch.next_offset > offsets[-1]
            reading.records[place].extend(batch.records)
            reading.next_offsets[place] = batch.next_offset
        return False

    eventually(look, shown=lambda: reading, pause_seconds=0)
    return reading


def unavailable(attempt: Callable[[], object], why: str) -> None:
    """Try until the source is unavailable for this reason; on a slow machine there may be others before."""
    said = "nothing"

    def look() -> object:
        nonlocal said
        try:
            attempt()
        except SourceUnavailable as error:
            said = str(error)
        return re.search(why, said)

    eventually(look, shown=lambda: f"{why} is looked for; told last was {said}")


def when_available(attempt: Callable[[], None]) -> None:
    """Try as the service does: what is unavailable is asked again."""
    said = ""

    def look() -> bool:
        nonlocal said
        try:
            attempt()
        except SourceUnavailable as error:
            said = str(error)
            return False
        return True

    eventually(look, shown=lambda: said, pause_seconds=0.2)


def count(records: int) -> Callable[[Reading], bool]:
    """As many records have come."""
    return lambda reading: reading.count >= records


def nothing_for(seconds: float) -> Callable[[Reading], bool]:
    """Holds after that time; what came meanwhile, and should not have, is for the test to look at."""
    deadline = time.monotonic() + seconds
    return lambda _: time.monotonic() >= deadline


def run_all(source: Source, offsets: Mapping[int, Mapping[str, int]] | None = None) -> frozenset[int]:
    """Wait for the assignment and start each partition of it."""
    assigned = frozenset(read(source, lambda reading: bool(reading.assigned)).assigned)
    for partition in assigned:
        source.start(partition, (offsets or {}).get(partition, {}))
    return assigned


def one_by_one(writer: Writer, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
    """Write each value by itself."""
    for value in values:
        writer.write([Message(topic, value, key=b"k", partition=partition)])
