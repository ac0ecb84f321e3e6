r"""Choose the events of a full sample: equally many of each stratum where possible, by the hash of their id.

Let every event have a stratum and a key: its hash, and its time where two are equal. Its *rank* is how many events of
its stratum have a smaller key. A sample of capacity C keeps the C events with the smallest (rank, key): the first of
every stratum, then the second of every one, and so on, until it is full. So a stratum with little in it is kept whole
however large the others are, and within a stratum the kept ones are those with the smallest hashes: a random part, that
depends on nothing but the ids.

**Samples merge**: the sample of A and B together is the sample of (sample of A) and (sample of B). For an event x of A
which the whole A and B keep, count who comes before x in A. Let x have rank r there, and R >= r in all. A stratum of n
events in A puts min(n, r) before x, and one more if its event of rank r has a key below x's. In all it has N >= n
events: where R > r it puts at least min(N, r + 1) before x, which is no less; and where R = r it puts min(N, r), and
its event of rank r has a key no larger than it had in A, since more events only push smaller ones in. So at least as
many come before x in all as in A, and those are fewer than C: A keeps x. And all of x's stratum with smaller keys come
before x, so they are kept with it, and its rank can be told from what is kept. Hence any order of events, any cut into
parts and any tree of merges gives the same sample.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.store.bottom_sample_loops import choose_fewest

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
"""Edges of the strata of confidence: logits -7, -6, ..., 7, to six digits. Part of the sample format."""

LEVELS: Final = len(EDGES) + 1
"""Number of strata of confidence; with several classes, for each most probable class."""


def keep_fewest(stratum: NDArray[np.int32], capacity: int, *keys: ArrayLike) -> Ints:
    """Return the events that a sample of that capacity keeps, in order of their keys.

    Parameters
    ----------
    stratum
        int32, shape (n,).
    capacity
        Maximum number of events.
    keys
        Sort keys, the most significant first, each of shape (n,).
    """
    first = np.asarray(keys[0])
    order = np.argsort(first)
    if (first[order][1:] == first[order][:-1]).any():
        # Rare if the first key is a hash; sorting by all keys takes several times as long.
        order = np.lexsort([np.asarray(key) for key in reversed(keys)])
    if stratum.size <= capacity:
        return order
    kept = np.empty(capacity, np.int64)
    # A copy, because the kernel would be compiled twice: for read-only arrays and for others.
    return kept[: choose_fewest(np.array(stratum, np.int32), order, capacity, kept)]


def thresholds(stratum: NDArray[np.int32], high: Hashes, capacity: int) -> Hashes:
    """Return, by stratum, the high half of a hash above which a full sample certainly drops an event.

    Parameters
    ----------
    stratum, high
        Of the events in the sample, in order of their hashes, shape (n,) each.

    Returns
    -------
    uint64, shape (k,); empty while the sample is not full. Events of strata from k on may still be kept.
    """
    highest = np.iinfo(np.uint64).max
    if stratum.size < capacity:
        return np.empty(0, np.uint64)
    held = np.bincount(stratum)
    largest = np.zeros(held.size, np.uint64)
    largest[stratum] = high  # of several, the last is written last: the largest
    level = int(held.max()) - 1
    # The last to be kept has the largest key among those of the largest rank, each the last of its stratum.
    last = largest[held > level].max()
    result = np.full(held.size, highest, np.uint64)
    # One behind the last of its stratum would have the rank ``held``: beyond the level it is out, at the level it
    # would have to come before the last, and below it it is in.
    result[held > level] = largest[held > level]
    result[held == level] = np.maximum(largest[held == level], last)
    return result
