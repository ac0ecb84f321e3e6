"""In which partition a message belongs: the same one in Kafka and in the embedded log."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.sources.murmur2_loops import murmur2

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
    murmur2(np.frombuffer(b"".join(keys), np.uint8), ends, hashes)
    return ((hashes & _POSITIVE) % np.uint32(partitions)).astype(np.int64)
