"""Which predictions may belong to a sample, told row by row of the journal, before anything is sorted."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.store.base import PREDICTED, VECTOR
from monitor.stream.hash_loops import find, insert
from monitor.stream.vector_loops import BLOCK, Blocks

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


@njit()
def _stratum_of(p: float, edges: NDArray[np.float64]) -> int:
    low, high = 0, edges.size
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= p:
            low = middle + 1
        else:
            high = middle
    return low


@njit()
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


@njit()
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


@njit()
def index_keys(slots: NDArray[np.uint64], high: NDArray[np.uint64], low: NDArray[np.uint64]) -> None:
    """Enter pairs of keys, each there once, into an empty index that has room."""
    for row in range(high.size):
        insert(slots, high[row], low[row], row)


@njit()
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
