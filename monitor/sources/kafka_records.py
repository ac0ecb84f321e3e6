"""A faster way through fetched record batches than kafka-python's own.

kafka-python decodes each record byte by byte in Python, which takes longer than all later steps together. Here a
compiled loop locates keys and values, and all records are cut out of the batch at once. Everything else stays
kafka-python's: compression, checksums, aborted transactions, positions. A batch that the loop cannot read goes the
library's way, which raises the library's errors.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from monitor.sources.kafka_batch_loops import SPANS, locate_records

_NO_HEADERS: Final[tuple[tuple[str, bytes], ...]] = ()


def speed_up(consumer: KafkaConsumer) -> None:
    """Make a consumer that has fetched nothing yet unpack batches this way."""
    consumer._fetcher.PartitionRecords = _PartitionRecords  # noqa: SLF001 - the library offers no other place


class _CutRecord(NamedTuple):
    """A record with the attributes that kafka-python's fetcher reads."""

    size_in_bytes: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Any
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
        if not locate_records(np.frombuffer(data, np.uint8), self._pos, spans):
            return iter(super().__iter__())
        sizes, times, offsets, keys, key_lengths, values, value_lengths, headers, counts = spans.T
        whole = bytes(data)
        stamped = self.timestamp_type == self.LOG_APPEND_TIME
        return map(
            _CutRecord._make,
            zip(
                sizes.tolist(),
                (offsets + self.base_offset).tolist(),
                repeat(self.max_timestamp) if stamped else (times + self.first_timestamp).tolist(),
                repeat(self.timestamp_type),
                _cut(whole, keys, key_lengths),
                _cut(whole, values, value_lengths),
                repeat(_NO_HEADERS)
                if not counts.any()
                else map(_headers, repeat(whole), headers.tolist(), counts.tolist()),
                repeat(None),
            ),
        )


def _cut(data: bytes, starts: Any, lengths: Any) -> list[bytes | None]:
    ends = (starts + lengths).tolist()
    if (lengths >= 0).all():
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    return [data[start:end] if end >= start else None for start, end in zip(starts.tolist(), ends, strict=True)]


def _headers(data: bytes, at: int, count: int) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, at = decode_varint(data, at)
        name, at = data[at : at + length].decode(), at + length
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

    def _unpack_records(self, tp: Any, records: MemoryRecords, *deserializers: Any) -> Iterator[Any]:
        return iter(super()._unpack_records(tp, _Batches(records), *deserializers))
