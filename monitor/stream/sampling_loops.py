"""Choose candidates for samples, row by row of the journal, before any sorting."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.loops import njit
from monitor.stream.journal_loops import BLOCK, PREDICTED, VECTOR, Blocks
from monitor.stream.table_loops import find, insert

NO_STRATUM: Final = -1
"""In place of a stratum: the row is not a prediction."""


class FullCells(NamedTuple):
    """The cells that are full, indexed by version and bucket, to skip predictions that they would reject."""

    slots: NDArray[np.uint64]
    version: NDArray[np.uint64]
    bucket: NDArray[np.uint64]
    first: NDArray[np.int64]
    """Where the thresholds of a cell begin, shape (cells + 1,)."""
    threshold: NDArray[np.uint64]
    """For each stratum of confidence, the largest high half of an id that is accepted. Later strata have no limit."""


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
    """The stratum of confidence of each prediction: the number of edges up to its largest probability.

    With several classes, k (edges + 1) more if the largest probability is that of class k. Of equal probabilities
    the first is the largest.

    Parameters
    ----------
    rows, blocks
        Rows of the journal, and the columns of its VECTOR rows.
    edges
        float64, shape (edges,), ascending.
    stratum
        int32, shape (rows,): output; NO_STRATUM for rows that are not predictions.
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
    """Find the predictions that may become candidates: all but those that a full cell rejects.

    Parameters
    ----------
    rows, stratum, model
        Rows of the journal, the stratum of confidence of each, and its model.
    version_of_stratum
        Number of the version that a stratum of names belongs to; -1 if it is not sampled.
    widths_ms
        Width of each model's buckets.
    chosen
        int64, shape (rows,): output.

    Returns
    -------
    int
        Their number: they are ``chosen[:count]``, ascending.
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
    """Insert distinct pairs of keys into an empty index that is large enough."""
    for row in range(high.size):
        insert(slots, high[row], low[row], row)


@njit()
def match_ids(
    rows: NDArray[np.void],
    slots: NDArray[np.uint64],
    high: NDArray[np.uint64],
    low: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> None:
    """Look up rows of the journal among distinct keys; writes their places, or -1.

    A key is the hash of an id, the low half of it combined with the time by exclusive or. ``slots`` is empty.
    """
    index_keys(slots, high, low)
    for index in range(rows.size):
        key = rows[index].id_low ^ np.uint64(rows[index].time_ms)
        places[index] = find(slots, high, low, rows[index].id_high, key)
