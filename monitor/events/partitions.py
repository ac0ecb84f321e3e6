"""Partition of a key, as Kafka's producers choose it by default."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import Message
from monitor.loops import njit

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
