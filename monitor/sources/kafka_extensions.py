"""Changes to kafka-python (3.0.12) that use its private parts; docs/decisions/0020 gives the reason for each.

**Records.** kafka-python decodes each record byte by byte in Python, which takes longer than all later steps together.
Here a compiled loop locates keys and values, and all records are cut out of the batch at once; the fetcher handles a
batch as if it were one record. Everything else stays kafka-python's: compression, checksums, aborted transactions. A
batch that the loop cannot read goes the library's way, which raises the library's errors.

**Headers.** Kafka allows headers without a value. kafka-python reads them as None, but its producer takes only bytes:
NULL stands for none until the record is written.

**Joins.** kafka-python lets a join go on in the background when a poll's time is up, but loses it in two ways:

- It decides anew at every poll whether to join. A leader may rejoin because a topic's partitions became known, or
  grew. When the answer comes, it has already stored the new partitions, so it sees no reason to join any more. It never
  applies its assignment and sends no heartbeat: the group goes on without it, and it never reads again.
- It discards an answer that came between two polls, and joins once more. If the leader does so, that is another
  rebalance, which the other members learn of seconds later; and their answers may again come between the leader's
  polls. On a slow machine, partitions are assigned again and again, and never read.

Besides, a leader makes its first assignment before it knows the topics' partitions, so the assignment is empty. It
learns them a moment later and assigns again; in between no member reads.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.producer import record_accumulator
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from monitor.events.model import Headers
from monitor.sources.kafka_loops import SPANS, locate_records
from monitor.sources.log_format import LogRecord, make_records

_NO_HEADERS: Final[Headers] = ()


class _Null(bytes):
    """The type of NULL."""


NULL: Final = _Null()
"""Value of a header that the producer accepts, and writes as null."""


class _RecordsBuilder(MemoryRecordsBuilder):  # type: ignore[misc]  # kafka-python ships no types
    """The records of a batch that a producer makes."""

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Any = ()) -> Any:
        """Append a record."""
        written = [(name, None if given is NULL else given) for name, given in headers] if headers else []
        return super().append(timestamp, key, value, written)


record_accumulator.MemoryRecordsBuilder = _RecordsBuilder  # the library offers no other place


def speed_up(consumer: KafkaConsumer) -> None:
    """Let a consumer that has fetched nothing yet cut all records out of a batch at once."""
    consumer._fetcher.PartitionRecords = _PartitionRecords  # noqa: SLF001 - the library offers no other place


class _WholeBatch(NamedTuple):
    """All records of a batch, with the attributes that kafka-python's fetcher reads of a single one."""

    value: list[LogRecord]
    offset: int
    """Offset of the last record."""
    size_in_bytes: int
    timestamp: int
    timestamp_type: int
    key: None = None
    headers: Headers = _NO_HEADERS
    checksum: None = None

    def validate_crc(self) -> bool:
        """True: the checksum is the batch's."""
        return True


class _CutBatch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python ships no types
    """A batch whose records are cut out at once."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        if self.is_control_batch:
            return iter(super().__iter__())
        self._maybe_uncompress()
        spans = np.empty((self.records_count, SPANS), np.int64)
        data = self._buffer
        if not spans.size or not locate_records(np.frombuffer(data, np.uint8), self._pos, spans):
            return iter(super().__iter__())
        sizes, times, offsets, keys, key_lengths, values, value_lengths, headers, counts = spans.T
        whole = bytes(data)
        stamped = self.timestamp_type == self.LOG_APPEND_TIME
        records = make_records(
            (offsets + self.base_offset).tolist(),
            repeat(self.max_timestamp) if stamped else (times + self.first_timestamp).tolist(),
            _cut(whole, keys, key_lengths),
            _cut(whole, values, value_lengths),
            map(_headers, repeat(whole), headers.tolist(), counts.tolist()) if counts.any() else repeat(_NO_HEADERS),
        )
        last = records[-1].offset
        return iter([_WholeBatch(records, last, int(sizes.sum()), self.max_timestamp, self.timestamp_type)])


def _cut(data: bytes, starts: Any, lengths: Any) -> list[bytes | None]:
    ends = (starts + lengths).tolist()
    if (lengths >= 0).all():
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    return [data[start:end] if end >= start else None for start, end in zip(starts.tolist(), ends, strict=True)]


def _headers(data: bytes, at: int, count: int) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = decode_varint(data, at)
        # A broker does not check names: one that is no UTF-8 must not stop the reader.
        name, at = data[at : at + length].decode("utf-8", "backslashreplace"), at + length
        length, at = decode_varint(data, at)
        headers.append((name, data[at : at + length] if length >= 0 else None))
        at += max(length, 0)
    return headers


class _Batches:
    """Fetched batches; those of format v2 become :class:`_CutBatch`."""

    def __init__(self, records: MemoryRecords) -> None:
        self._records = records

    def next_batch(self) -> Any:
        """The next batch, or None."""
        batch = self._records.next_batch()
        if type(batch) is DefaultRecordBatch:
            batch.__class__ = _CutBatch
        return batch


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python ships no types
    """The fetched records of one partition."""

    def take(self, n: int | None = None) -> list[Any]:
        """Return the next records, at most ``n``."""
        records: list[Any] = super().take(n)
        if records and self:  # the library is at the end of a batch, and its records may not all be taken
            self.next_fetch_offset = records[-1].offset + 1
        return records

    def _unpack_records(self, tp: Any, records: MemoryRecords, *deserializers: Any) -> Iterator[Any]:
        fetched = super()._unpack_records(tp, _Batches(records), *deserializers)
        return chain.from_iterable(one.value if isinstance(one.value, list) else (one,) for one in fetched)


def fix_joins(consumer: KafkaConsumer) -> None:
    """Fix the joins of a consumer that has not subscribed yet."""
    consumer._coordinator.__class__ = _Coordinator  # noqa: SLF001 - the library offers no other place


def request_topics(client: KafkaNetClient, topics: Iterable[str]) -> None:
    """Let a client that is not connected yet request the metadata of these topics at once.

    A consumer requests it only when it subscribes, which is too late for its first assignment.
    """
    client.cluster.set_topics(topics)


def generation_is_current(consumer: KafkaConsumer) -> bool:
    """Send a heartbeat to learn whether the consumer's generation is the group's current one.

    False where the group is rebalancing or does not answer: the next poll finds out.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - the library offers no other way
    if coordinator.generation_if_stable() is None:
        return False
    try:
        coordinator._net.run(coordinator._send_heartbeat_request)  # noqa: SLF001
    except kafka_errors.KafkaError:
        return False
    return True


class _Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # kafka-python ships no types
    """kafka-python's coordinator, which here keeps the answer to a join until the next poll."""

    _join_task: Any

    def need_rejoin(self) -> bool:
        """Whether a join must be started or finished."""
        return bool(self.rejoining or super().need_rejoin())

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Join, or process the answer to the pending join."""
        join = self._join_task
        if join is not None and join.is_done and not isinstance(join, _AnsweredJoin):
            # An answer that is a session old may be of a group that has since gone on without us.
            self._join_task = None if self.heartbeat.session_timeout_expired() else _AnsweredJoin(join)
        return bool(await super().join_group_async(timeout_ms))

    async def _do_join_and_sync_async(self) -> bytes:
        assignment: bytes = await super()._do_join_and_sync_async()
        # The broker's session timer starts here, though heartbeats only go on once the assignment is processed.
        self.heartbeat.received_heartbeat()
        return assignment

    def _perform_assignment(self, *arguments: Any) -> Any:
        # Assign from the current metadata, not that of the last change: else the next answer looks like a change.
        self._metadata_snapshot = self._build_metadata_snapshot(self._subscription, self._cluster)
        return super()._perform_assignment(*arguments)


class _AnsweredJoin:
    """A join that has been answered, but looks pending to the one check that would discard it."""

    def __init__(self, join: Any) -> None:
        self._join = join
        self._checked = False

    @property
    def is_done(self) -> bool:
        """False at the first call, then True: a second check means that the answer was of no use."""
        checked, self._checked = self._checked, True
        return checked

    def add_callback(self, callback: Callable[[bytes], None]) -> None:
        """Pass on the assignment, if that was the answer."""
        self._join.add_callback(callback)

    def add_errback(self, callback: Callable[[Exception], None]) -> None:
        """Pass on the error, if that was the answer."""
        self._join.add_errback(callback)

    def __await__(self) -> Any:
        return self._join.__await__()


def unblock(consumer: KafkaConsumer) -> None:
    """Free the slot of exhausted records, so that a resumed partition goes on.

    kafka-python (3.0.12) sets records of a paused partition aside, and takes them up again only if its one slot for
    current records is empty; exhausted records stay in the slot, so a resumed partition would never be read again.
    """
    fetcher = consumer._fetcher  # noqa: SLF001 - there is no public way
    if fetcher._next_partition_records is not None and not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001
