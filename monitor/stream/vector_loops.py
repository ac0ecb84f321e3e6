"""Predictions over several classes: their probabilities beside the join's table, in the journal, and as binary rows.

The join treats such a prediction as one, whatever the number of its classes. In the journal its row tells of the
*top label* (the largest probability, and whether that class came true), so it is a binary row like any other; rows
with the entry VECTOR follow it, which hold the probabilities and the class that came true. To the panes it is all of
that at once: the top label, and each class against the rest.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.store.base import ANSWERED, CORRECTED, PREDICTED, VECTOR
from monitor.stream.hash_loops import Row
from monitor.stream.join_table_loops import give_row, take_row, write_row

BLOCK: Final = 4
"""Probabilities a row, in the table and in the journal."""

_NO_KEY: Final = np.uint64(0)


class Vectors(NamedTuple):
    """The probabilities of the predictions that are kept, four a row, chained."""

    values: NDArray[np.float64]
    """Shape (rows, 4)."""
    next: NDArray[np.int32]
    """Next row of the same prediction, or -1; in a free row, the next free one."""
    classes: NDArray[np.int16]
    """In the first row of a chain, how many classes there are."""
    meta: NDArray[np.int64]


class Blocks(NamedTuple):
    """What the VECTOR rows of a stretch of the journal hold, in their order.

    All of one prediction say the same, but for ``values``.
    """

    values: NDArray[np.float64]
    """Shape (blocks, 4)."""
    classes: NDArray[np.int16]
    label: NDArray[np.int16]
    """The class that came true, or -1."""
    before: NDArray[np.int16]
    """The class that was held to have come true until then, or -1."""


class ClassFanOut(NamedTuple):
    """The classes of each stratum: the series of class k of stratum s is ``series[first[s] + k]``, k < classes[s]."""

    first: NDArray[np.int32]
    classes: NDArray[np.int32]
    series: NDArray[np.int32]


@njit()
def blocks_of(classes: int) -> int:
    """Rows that so many probabilities take."""
    return (classes + BLOCK - 1) // BLOCK


@njit()
def add_vector(vectors: Vectors, values: NDArray[np.float64], start: int, classes: int) -> Row:
    """Enter ``values[start : start + classes]``; the first row. The caller sees to it that there is room."""
    head: Row = -1
    last: Row = -1
    for at in range(classes):
        if at % BLOCK == 0:
            row = take_row(vectors.next, vectors.meta)
            vectors.next[row] = -1
            vectors.classes[row] = classes
            vectors.values[row] = 0.0
            if last < 0:
                head = row
            else:
                vectors.next[last] = row
            last = row
        vectors.values[last, at % BLOCK] = values[start + at]
    return head


@njit()
def free_vectors(heads: NDArray[np.int32], vectors: Vectors) -> None:
    """Take the probabilities that begin there out of use; -1 is none."""
    for head in heads:
        row: Row = head
        while row >= 0:
            following = vectors.next[row]
            give_row(row, vectors.next, vectors.meta)
            row = following


@njit()
def is_hit(vectors: Vectors, head: Row, label: int) -> int:
    """Whether the prediction's top label is the class that came true; -1 while none is known.

    Of equal probabilities the first is the largest. A prediction without a vector is of class 1.
    """
    if label < 0:
        return -1
    if head < 0:
        return int(label == 1)
    top, largest = 0, -1.0
    row: Row = head
    classes = vectors.classes[head]
    for at in range(classes):
        value = vectors.values[row, at % BLOCK]
        if value > largest:
            top, largest = at, value
        if at % BLOCK == BLOCK - 1:
            row = vectors.next[row]
    return int(label == top)


@njit()
def count_blocks(heads: NDArray[np.int32], vectors: Vectors) -> NDArray[np.int64]:
    """Rows that the probabilities take which begin there, int64, shape (heads,); none where it is -1."""
    count = np.zeros(heads.size, np.int64)
    for index in range(heads.size):
        if heads[index] >= 0:
            count[index] = blocks_of(vectors.classes[heads[index]])
    return count


@njit()
def write_blocks(
    heads: NDArray[np.int32],
    label: NDArray[np.int16],
    before: NDArray[np.int16],
    vectors: Vectors,
    blocks: Blocks,
) -> None:
    """Write the probabilities that begin there, one behind the other, into ``blocks``, which has room for them."""
    at = 0
    for index in range(heads.size):
        row: Row = heads[index]
        classes = vectors.classes[row] if row >= 0 else 0
        while row >= 0:
            blocks.values[at] = vectors.values[row]
            blocks.classes[at] = classes
            blocks.label[at] = label[index]
            blocks.before[at] = before[index]
            at += 1
            row = vectors.next[row]


@njit()
def class_rows(
    rows: NDArray[np.void], blocks: Blocks, fan_out: ClassFanOut, start: int, first: int, out: NDArray[np.void]
) -> tuple[int, int, int]:
    """Rows of the journal as binary rows, one for each class against the rest, as far as there is room.

    Of a correction only the two classes change. The ``stratum`` of a row is the place of its class in
    ``fan_out.series``; its id is 0. Classes beyond those that the model has today are passed over.

    Parameters
    ----------
    rows, blocks
        Rows of the journal, and what those with the entry VECTOR hold.
    start, first
        Where to begin: in ``rows``, with a row that is no VECTOR row, and in ``blocks``, with the next that is one.
    out
        Room for as many rows as a prediction has classes, at least.

    Returns
    -------
    written, index, block
        Rows written, and where to go on: in ``rows``, and in ``blocks``.
    """
    written, index, block = 0, start, first
    while index < rows.size:
        following = index + 1
        while following < rows.size and rows[following].entry == VECTOR:
            following += 1
        held = following - index - 1
        if held > 0:
            label, before = blocks.label[block], blocks.before[block]
            stratum = rows[index].stratum
            classes = min(np.int64(blocks.classes[block]), np.int64(fan_out.classes[stratum]))
            if written + classes > out.size:
                break
            entry = rows[index].entry
            time_ms = rows[index].time_ms
            if entry != PREDICTED and entry != ANSWERED:
                # A corrected class may leave the top label as it was: the row of that says it is only confirmed.
                entry = CORRECTED
            for at in range(classes):
                if entry == CORRECTED and (label == before or (at != label and at != before)):
                    continue
                value = blocks.values[block + at // BLOCK, at % BLOCK]
                outcome = int(at == label) if label >= 0 else -1
                write_row(
                    out,
                    written,
                    entry,
                    _NO_KEY,
                    _NO_KEY,
                    time_ms,
                    value,
                    time_ms,
                    fan_out.first[stratum] + at,
                    outcome,
                )
                written += 1
            block += held
        index = following
    return written, index, block
