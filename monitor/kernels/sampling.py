"""Which predictions may belong to a sample, told row by row of the journal, before anything is sorted."""

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from monitor.kernels.hash_index import find, insert
from monitor.kernels.join_tables import PREDICTED, VECTOR
from monitor.kernels.vectors import BLOCK, Blocks

NO_STRATUM: Final = -1
"""In place of a stratum: the row is no prediction."""


class FullCells(NamedTuple):
    """The cells that hold as many candidates as they may: what would be turned away is passed over at once.

    A cell is of one version, and of one bucket of the journal; they are found by these two.
    """

    slots: NDArray[np.uint64]
    version: NDArray[np.uint64]
    bucket: NDArray[np.uint64]
    first: NDArray[np.int64]
    """Where the thresholds of a cell begin, shape (cells + 1,)."""
    threshold: NDArray[np.uint64]
    """Of each stratum of confidence: no id whose high half is above it is let in. Strata beyond the last have none."""


@njit(cache=True, nogil=True)
def _stratum_of(p: float, edges: NDArray[np.float64]) -> int:
    low, high = 0, edges.size
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= p:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def confidence_strata(
    rows: NDArray[np.void], blocks: Blocks, edges: NDArray[np.float64], stratum: NDArray[np.int32]
) -> None:
    """The stratum of confidence of each prediction: how many edges its largest probability has reached.

    Of several classes, those whose largest probability is that of class k have k (edges + 1) more. Of equal
    probabilities the first is the largest.

    Parameters
    ----------
    rows, blocks
        Rows of the journal, and what those with the entry VECTOR hold.
    edges
        float64, shape (edges,), ascending.
    stratum
        int32, as long as ``rows``: written; NO_STRATUM where a row is no prediction.
    """
    block = 0
    for index in range(rows.size):
        entry = rows[index].entry
        stratum[index] = NO_STRATUM
        if entry == VECTOR:
            block += 1
            continue
        if entry != PREDICTED:
            continue
        top = 0
        if index + 1 < rows.size and rows[index + 1].entry == VECTOR:
            largest = -1.0
            for at in range(blocks.classes[block]):
                value = blocks.values[block + at // BLOCK, at % BLOCK]
                if value > largest:
                    top, largest = at, value
        stratum[index] = top * (edges.size + 1) + _stratum_of(rows[index].prediction, edges)


@njit(cache=True, nogil=True)
def admit(
    rows: NDArray[np.void],
    stratum: NDArray[np.int32],
    model: NDArray[np.int32],
    version_of_stratum: NDArray[np.int32],
    widths_ms: NDArray[np.int64],
    full: FullCells,
    chosen: NDArray[np.int64],
) -> int:
    """The predictions that may become candidates: all of them, but those that a full cell is sure to turn away.

    Parameters
    ----------
    rows, stratum, model
        Rows of the journal, the stratum of confidence of each, and its model.
    version_of_stratum
        Number of the version that a stratum of names belongs to; -1 where it is not sampled.
    widths_ms
        Width of each model's buckets.
    chosen
        int64, as long as ``rows``: written.

    Returns
    -------
    int
        How many there are: ``chosen[:count]``, ascending.
    """
    count = 0
    for index in range(rows.size):
        if stratum[index] == NO_STRATUM:
            continue
        version = version_of_stratum[rows[index].stratum]
        if version < 0:
            continue
        if full.version.size > 0:
            time_ms = rows[index].time_ms
            bucket = np.uint64(time_ms - time_ms % widths_ms[model[index]])
            cell = find(full.slots, full.version, full.bucket, np.uint64(version), bucket)
            if cell >= 0:
                at = full.first[cell] + stratum[index]
                if at < full.first[cell + 1] and rows[index].id_high > full.threshold[at]:
                    continue
        chosen[count] = index
        count += 1
    return count


@njit(cache=True, nogil=True)
def choose_fewest(stratum: NDArray[np.int32], order: NDArray[np.int64], capacity: int, kept: NDArray[np.int64]) -> int:
    """The events of the smallest (rank, key), in the order of their keys: see :mod:`monitor.samples.bottom`.

    Parameters
    ----------
    stratum
        int32, shape (n,), none negative.
    order
        Sorts the events by their keys, shape (n,).
    capacity
        How many are kept.
    kept
        int64, with room for that many, or for all: written.

    Returns
    -------
    int
        How many there are: ``kept[:count]``.
    """
    highest = 0
    for at in range(stratum.size):
        highest = max(highest, stratum[at])
    held = np.zeros(highest + 1, np.int64)
    rank = np.empty(order.size, np.int64)
    of_rank = np.zeros(order.size + 1, np.int64)
    for at in range(order.size):
        of = stratum[order[at]]
        rank[at] = held[of]
        of_rank[rank[at]] += 1
        held[of] += 1
    level, room = 0, capacity
    while level < order.size and of_rank[level] <= room:
        room -= of_rank[level]
        level += 1
    # All below the level are in; of the level itself, those of the smallest keys.
    count = 0
    for at in range(order.size):
        if rank[at] > level or (rank[at] == level and room == 0):
            continue
        if rank[at] == level:
            room -= 1
        kept[count] = order[at]
        count += 1
    return count


@njit(cache=True, nogil=True)
def index_keys(slots: NDArray[np.uint64], high: NDArray[np.uint64], low: NDArray[np.uint64]) -> None:
    """Enter pairs of keys, each there once, into an empty index that has room."""
    for row in range(high.size):
        insert(slots, high[row], low[row], row)


@njit(cache=True, nogil=True)
def match_ids(
    rows: NDArray[np.void],
    wanted: NDArray[np.bool_],
    slots: NDArray[np.uint64],
    high: NDArray[np.uint64],
    low: NDArray[np.uint64],
    found: NDArray[np.int64],
) -> None:
    """Look up the ids of the wanted rows; writes the place of each among the keys, -1 where it is not."""
    for index in range(rows.size):
        found[index] = -1
        if wanted[index]:
            found[index] = find(slots, high, low, rows[index].id_high, rows[index].id_low)
