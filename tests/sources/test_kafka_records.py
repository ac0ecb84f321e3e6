"""Records cut out of a batch are those that kafka-python reads one by one."""

from typing import Any

import numpy as np
import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from monitor.sources.kafka_extensions import _PartitionRecords

PART = TopicPartition("events", 0)
SEEN = ("offset", "timestamp", "key", "value", "headers")


def built(rng: np.random.Generator, codec: int, records: int, headers: bool) -> bytes:
    builder = MemoryRecordsBuilder(2, codec, 1 << 24, offset=int(rng.integers(0, 1000)))
    for at in range(records):
        key = None if rng.random() < 0.2 else rng.bytes(int(rng.integers(0, 300)))
        value = None if rng.random() < 0.1 else rng.bytes(int(rng.integers(0, 3000)))
        named = [(f"h{place}-ü", rng.bytes(place) if place else None) for place in range(int(rng.integers(0, 4)))]
        builder.append(1_700_000_000_000 + int(rng.integers(-(10**6), 10**6)), key, value, named if headers else [])
        if at % 7 == 3:
            builder.skip(3)  # as compaction leaves it
    builder.close()
    return bytes(builder.buffer())


def read(kind: type[Any], data: bytes, fetch_offset: int = 0) -> list[Any]:
    return list(kind(fetch_offset, PART, MemoryRecords(data)).take())


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("headers", [False, True])
def test_as_kafka_python_reads_them(codec: int, headers: bool) -> None:
    rng = np.random.default_rng(codec)
    data = b"".join(built(rng, codec, records, headers) for records in (1, 200, 3))
    slow, fast = read(Fetcher.PartitionRecords, data), read(_PartitionRecords, data)
    assert len(fast) == 204
    for name in SEEN:
        assert [_plain(getattr(record, name)) for record in fast] == [_plain(getattr(record, name)) for record in slow]


def test_taking_some_leaves_the_position_where_the_library_leaves_it() -> None:
    data = built(np.random.default_rng(5), 0, 50, headers=False)
    first = read(Fetcher.PartitionRecords, data)[0].offset
    parts = [kind(first + 2, PART, MemoryRecords(data)) for kind in (Fetcher.PartitionRecords, _PartitionRecords)]
    for count in (1, 10, 100):
        slow, fast = (part.take(count) for part in parts)
        assert [record.offset for record in slow] == [record.offset for record in fast]
        assert parts[0].next_fetch_offset == parts[1].next_fetch_offset


def test_what_is_corrupt_is_said_in_the_librarys_words() -> None:
    data = bytearray(built(np.random.default_rng(6), 0, 6, headers=True))
    data[-1] ^= 0xFF
    with pytest.raises(CorruptRecordError, match="crc"):
        read(_PartitionRecords, bytes(data))
    for at in range(61, len(data), 11):
        broken = bytearray(data)
        broken[at] ^= 0x55
        outcomes: list[list[object]] = []
        for kind in (Fetcher.PartitionRecords, _PartitionRecords):
            part = kind(0, PART, MemoryRecords(bytes(broken)), check_crcs=False)
            try:
                outcomes.append([(record.offset, record.key, record.value) for record in part.take()])
            except Exception as error:  # noqa: BLE001 - whatever the library raises, both must
                outcomes.append([type(error)])
        if not isinstance(outcomes[1][0], type):
            assert outcomes[0] == outcomes[1], at


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value


def test_a_name_of_a_header_that_is_no_text_is_escaped() -> None:
    builder = MemoryRecordsBuilder(2, 0, 1 << 16)
    builder.append(1_700_000_000_000, None, b"value", [("name", b"1"), ("name", None)])
    builder.close()
    part = _PartitionRecords(
        0, PART, MemoryRecords(bytes(builder.buffer()).replace(b"name", b"n\xffm\xfe")), check_crcs=False
    )
    assert list(part.take()[0].headers) == [("n\\xffm\\xfe", b"1"), ("n\\xffm\\xfe", None)]
