"""The partition of a message by its key: the same one in Kafka and in the embedded log."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit

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
