"""Compiled loops for Kafka's formats: the partition of a key, and where the records of a batch begin and end."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import Message
from monitor.loops import njit

Int = int | np.int64

SPANS: Final = 9
"""Columns of what :func:`locate_records` fills in."""

_LONGEST_VARINT: Final = 10

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)


def partitions_of(keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """The partition of each key, as Kafka's producers choose it by default.

    Parameters
    ----------
    keys
        n keys.
    partitions
        How many partitions the topic has.

    Returns
    -------
    NDArray[np.int64]
        Partition numbers, shape (n,).
    """
    ends = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)), dtype=np.int64)
    hashes = np.empty(len(keys), np.uint32)
    _murmur2(np.frombuffer(b"".join(keys), np.uint8), ends, hashes)
    return ((hashes & _POSITIVE) % np.uint32(partitions)).astype(np.int64)


def choose_partitions(messages: Sequence[Message], partition_count: Callable[[str], int]) -> list[int | None]:
    """The partition of each message: its own, or by its key; None for a message with neither.

    Parameters
    ----------
    messages
        The messages, of any topics.
    partition_count
        Topic -> number of partitions.
    """
    partitions = [message.partition for message in messages]
    by_topic: dict[str, list[int]] = defaultdict(list)
    for place, message in enumerate(messages):
        if message.partition is None and message.key is not None:
            by_topic[message.topic].append(place)
    for topic, places in by_topic.items():
        keys = [messages[place].key or b"" for place in places]
        for place, partition in zip(places, partitions_of(keys, partition_count(topic)).tolist(), strict=True):
            partitions[place] = partition
    return partitions


@njit()
def _murmur2(data: NDArray[np.uint8], ends: NDArray[np.int64], out: NDArray[np.uint32]) -> None:
    """MurmurHash2 of many keys.

    Parameters
    ----------
    data
        The keys one after the other, shape (bytes,).
    ends
        Where each key ends, shape (n,).
    out
        The hashes, shape (n,).

    Notes
    -----
    As in ``org.apache.kafka.common.utils.Utils.murmur2``, whose seed and shifts these are.
    """
    start = 0
    for i in range(ends.shape[0]):
        end = ends[i]
        length = end - start
        h = _SEED ^ np.uint32(length)
        at = start
        while end - at >= 4:
            k = (
                np.uint32(data[at])
                | (np.uint32(data[at + 1]) << np.uint32(8))
                | (np.uint32(data[at + 2]) << np.uint32(16))
                | (np.uint32(data[at + 3]) << np.uint32(24))
            )
            k = np.uint32(k * _M)
            k ^= k >> np.uint32(24)
            k = np.uint32(k * _M)
            h = np.uint32(h * _M) ^ k
            at += 4
        rest = end - at
        if rest == 3:
            h ^= np.uint32(data[at + 2]) << np.uint32(16)
        if rest >= 2:
            h ^= np.uint32(data[at + 1]) << np.uint32(8)
        if rest >= 1:
            h ^= np.uint32(data[at])
            h = np.uint32(h * _M)
        h ^= h >> np.uint32(13)
        h = np.uint32(h * _M)
        h ^= h >> np.uint32(15)
        out[i] = h
        start = end


@njit()
def _varint(data: NDArray[np.uint8], at: Int) -> tuple[Int, Int]:
    """A zigzag varint, and where it ends; that is -1 if it does not end within the data."""
    value = np.uint64(0)
    for place in range(_LONGEST_VARINT):
        if at + place >= data.size:
            return 0, -1
        byte = np.uint64(data[at + place])
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + place + 1
    return 0, -1


@njit()
def locate_records(data: NDArray[np.uint8], at: Int, spans: NDArray[np.int64]) -> bool:
    """Find the records.

    Parameters
    ----------
    data
        The batch.
    at
        Where its first record begins.
    spans
        int64, shape (records, SPANS), filled in: length of the record, timestamp delta, offset delta, start and
        length of the key, start and length of the value (length -1: null), start and number of the headers.

    Returns
    -------
    bool
        Whether the batch holds exactly that many records, each as long as it says.
    """
    for index in range(spans.shape[0]):
        length, at = _varint(data, at)
        if at < 0 or length < 1 or at + length > data.size:
            return False
        end = at + length
        at += 1  # attributes: none are in use
        timestamp, at = _varint(data, at)
        if at < 0:
            return False
        offset, at = _varint(data, at)
        if at < 0:
            return False
        key_length, key = _varint(data, at)
        if key < 0 or key_length > end - key:
            return False
        value_length, value = _varint(data, key + max(key_length, 0))
        if value < 0 or value_length > end - value:
            return False
        headers, at = _varint(data, value + max(value_length, 0))
        if at < 0 or headers < 0:
            return False
        first_header = at
        for _ in range(2 * headers):  # a name and a value each
            part_length, at = _varint(data, at)
            if at < 0 or part_length > end - at:
                return False
            at += max(part_length, 0)
        if at != end:
            return False
        spans[index, 0] = length
        spans[index, 1] = timestamp
        spans[index, 2] = offset
        spans[index, 3] = key
        spans[index, 4] = key_length
        spans[index, 5] = value
        spans[index, 6] = value_length
        spans[index, 7] = first_header
        spans[index, 8] = headers
    return at == data.size
