r"""Choose the events of a full sample: about equally many of each stratum, by the hash of their id.

Let every event have a stratum and a key: its hash, and its time where two are equal. Its *rank* is how many events of
its stratum have a smaller key. A sample of capacity C keeps the C events with the smallest (rank, key): the first of
every stratum, then the second of every one, and so on, until it is full. So a small stratum is kept whole, however
large the others are, and within a stratum the kept events are those with the smallest hashes: a random part that
depends on the ids only.

**Samples merge**: the sample of A and B together is the sample of (sample of A) and (sample of B). For an event x of A
which the whole A and B keep, count who comes before x in A. Let x have rank r there, and R >= r in all. A stratum of n
events in A puts min(n, r) before x, and one more if its event of rank r has a key below x's. In all it has N >= n
events: where R > r it puts at least min(N, r + 1) before x, which is no less; and where R = r it puts min(N, r), and
its event of rank r has a key no larger than it had in A, since more events only push smaller ones in. So at least as
many come before x in all as in A, and those are fewer than C: A keeps x. And all of x's stratum with smaller keys come
before x, so they are kept with it, and its rank follows from what is kept. Hence any order of events, any cut into
parts and any tree of merges gives the same sample.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.loops import njit

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

EDGES: Final = (
    0.000911,
    0.002473,
    0.006693,
    0.017986,
    0.047426,
    0.119203,
    0.268941,
    0.5,
    0.731059,
    0.880797,
    0.952574,
    0.982014,
    0.993307,
    0.997527,
    0.999089,
)
"""Edges of the strata of confidence: logits -7, -6, ..., 7, to six digits. They are part of the format of a sample."""


@njit()
def _choose(stratum: NDArray[np.int32], order: NDArray[np.int64], capacity: int, kept: NDArray[np.int64]) -> int:
    """The events of the smallest (rank, key), in the order of their keys.

    Parameters
    ----------
    stratum
        int32, shape (n,), none negative.
    order
        Sorts the events by their keys, shape (n,).
    capacity
        Number of events to keep.
    kept
        int64, shape (capacity,): output.

    Returns
    -------
    int
        Their number: they are ``kept[:count]``.
    """
    highest = 0
    for at in range(stratum.size):
        highest = max(highest, stratum[at])
    counts = np.zeros(highest + 1, np.int64)
    rank = np.empty(order.size, np.int64)
    with_rank = np.zeros(order.size + 1, np.int64)
    for at in range(order.size):
        group = stratum[order[at]]
        rank[at] = counts[group]
        with_rank[rank[at]] += 1
        counts[group] += 1
    level, left = 0, capacity
    while level < order.size and with_rank[level] <= left:
        left -= with_rank[level]
        level += 1
    # All below the level are kept; of the level itself, those with the smallest keys.
    count = 0
    for at in range(order.size):
        if rank[at] > level or (rank[at] == level and left == 0):
            continue
        if rank[at] == level:
            left -= 1
        kept[count] = order[at]
        count += 1
    return count


def keep_fewest(stratum: NDArray[np.int32], capacity: int, *keys: ArrayLike) -> Ints:
    """The events that a sample of that capacity keeps, in the order of their keys.

    Parameters
    ----------
    stratum
        int32, shape (n,).
    capacity
        Number of events to keep.
    keys
        Sort keys, the most significant first, each of shape (n,).
    """
    first = np.asarray(keys[0])
    order = np.argsort(first)
    if (first[order][1:] == first[order][:-1]).any():
        # Rare if the first key is a hash, and sorting by all keys takes several times as long.
        order = np.lexsort([np.asarray(key) for key in reversed(keys)])
    if stratum.size <= capacity:
        return order
    kept = np.empty(capacity, np.int64)
    # A copy, as columns from bytes are read-only, and the loop would be compiled for each of the two types.
    return kept[: _choose(np.array(stratum, np.int32), order, capacity, kept)]


def thresholds(stratum: NDArray[np.int32], high: Hashes, capacity: int) -> Hashes:
    """Return the largest high half of a hash that a full sample of each stratum can accept.

    Parameters
    ----------
    stratum, high
        Of the events in the sample, in the order of their hashes, shape (n,) each.

    Returns
    -------
    uint64, shape (k,); empty while the sample is not full. Strata from k on have no limit.
    """
    highest = np.iinfo(np.uint64).max
    if stratum.size < capacity:
        return np.empty(0, np.uint64)
    counts = np.bincount(stratum)
    largest = np.zeros(counts.size, np.uint64)
    largest[stratum] = high  # the last one written is the largest
    level = int(counts.max()) - 1
    # The last event kept has the largest key among those of the largest rank, each the last of its stratum.
    last = largest[counts > level].max()
    result = np.full(counts.size, highest, np.uint64)
    # An event behind the last of its stratum has the rank ``counts``: above the level it is rejected, at the level it
    # has to come before the last event kept, and below it is accepted.
    result[counts > level] = largest[counts > level]
    result[counts == level] = np.maximum(largest[counts == level], last)
    return result
