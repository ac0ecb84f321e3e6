"""The layout of a row of the journal, and predictions over several classes: in the join's table and in the journal.

The join treats a prediction over several classes as one. Its row in the journal holds the *top label* (the largest
probability, and whether that class came true), so it is a binary row like any other; rows with the entry VECTOR follow
it, which hold the probabilities and the class that came true. The panes count both the top label and each class
against the rest.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.loops import njit
from monitor.stream.table_loops import Row, allocate_row, release_row

# Values of ``entry`` in a row of the journal.
PREDICTED: Final = 0
"""A prediction was accepted; with an outcome if the event brought one."""
ANSWERED: Final = 1
"""A prediction got an outcome, its first one or a newer one."""
WAITING: Final = 4
"""An outcome waits for its prediction. ``prediction`` holds its arrival number; ``stratum`` a class above 1, or -1."""
CLAIMED: Final = 5
"""A waiting outcome met its prediction. ``prediction`` holds its arrival number."""
VECTOR: Final = 6
"""Probabilities of the prediction in the row before, which is over several classes."""

JOURNAL_ROW: Final = np.dtype(
    [
        ("id_high", "<u8"),
        ("id_low", "<u8"),
        ("time_ms", "<i8"),
        ("prediction", "<f8"),
        ("outcome_ms", "<i8"),
        ("stratum", "<i4"),
        ("entry", "i1"),
        ("outcome", "i1"),
    ]
)
"""One row of the journal, packed, little-endian.

For a prediction over several classes it holds the largest probability, and whether that class came true; rows of
VECTOR_ROW with all probabilities follow.
"""

VECTOR_ROW: Final = np.dtype(
    [
        ("values", "<f8", (4,)),
        ("classes", "<i2"),
        ("label", "<i2"),
        ("unused", "<i4"),
        ("stratum", "<i4"),
        ("entry", "i1"),
        ("outcome", "i1"),
    ]
)
"""Four probabilities of the prediction in the row before, in a row as wide as JOURNAL_ROW.

Each such row holds the number of classes, and the class that came true (-1 for none). ``stratum`` and ``outcome`` are
-1.
"""

NO_OUTCOME: Final = -1

BLOCK: Final = 4
"""Probabilities per row, in the table and in the journal."""


class Vectors(NamedTuple):
    """Probabilities of the predictions in the join's table: four per row, rows of one prediction chained."""

    values: NDArray[np.float64]
    """Shape (rows, 4)."""
    next: NDArray[np.int32]
    """Next row of the same prediction, or -1; in a free row, the next free one."""
    classes: NDArray[np.int16]
    """In the first row of a chain, how many classes there are."""
    meta: NDArray[np.int64]


class Blocks(NamedTuple):
    """Columns of consecutive VECTOR rows of the journal. Rows of one prediction differ only in ``values``."""

    values: NDArray[np.float64]
    """Shape (blocks, 4)."""
    classes: NDArray[np.int16]
    label: NDArray[np.int16]
    """The class that came true, or -1."""


def read_blocks(rows: NDArray[np.void]) -> Blocks:
    """Return the columns of the VECTOR rows among rows of the journal."""
    vectors = rows.view(VECTOR_ROW)[rows["entry"] == VECTOR]
    return Blocks(*(np.ascontiguousarray(vectors[name]) for name in Blocks._fields))


def read_vectors(rows: NDArray[np.void]) -> tuple[Ints, Ints, Blocks]:
    """Return the predictions over several classes among rows of the journal.

    Returns
    -------
    places, first
        int64, shape (n,) each: the places of their rows, and of the first block of each among the blocks.
    blocks
        The columns of all VECTOR rows.
    """
    is_block = rows["entry"] == VECTOR
    places = np.flatnonzero(~is_block[:-1] & is_block[1:])
    return places, np.cumsum(is_block)[places], read_blocks(rows)


@njit()
def write_row(
    rows: NDArray[np.void],
    at: int,
    entry: int,
    high: np.uint64,
    low: np.uint64,
    time_ms: int,
    prediction: float,
    outcome_ms: int,
    stratum: int,
    outcome: int,
) -> None:
    """Write one row of the journal."""
    rows[at].id_high = high
    rows[at].id_low = low
    rows[at].time_ms = time_ms
    rows[at].prediction = prediction
    rows[at].outcome_ms = outcome_ms
    rows[at].stratum = stratum
    rows[at].entry = entry
    rows[at].outcome = outcome


@njit()
def block_count(classes: int) -> int:
    """Rows that hold so many probabilities."""
    return (classes + BLOCK - 1) // BLOCK


@njit()
def add_vector(vectors: Vectors, values: NDArray[np.float64], start: int, classes: int) -> Row:
    """Insert ``values[start : start + classes]``; returns the first row. The caller guarantees free rows."""
    head: Row = -1
    last: Row = -1
    for at in range(classes):
        if at % BLOCK == 0:
            row = allocate_row(vectors.next, vectors.meta)
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
    """Release the chains of rows that begin at ``heads``; -1 is none."""
    for head in heads:
        row: Row = head
        while row >= 0:
            following = vectors.next[row]
            release_row(row, vectors.next, vectors.meta)
            row = following


@njit()
def is_hit(vectors: Vectors, head: Row, label: int) -> int:
    """1 if the prediction's top label is the class that came true, else 0; -1 without an outcome.

    Of equal probabilities the first is the top label. A prediction without a vector predicts class 1.
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
    """Rows in each chain that begins at ``heads``, int64, shape (heads,); 0 for -1."""
    count = np.zeros(heads.size, np.int64)
    for index in range(heads.size):
        if heads[index] >= 0:
            count[index] = block_count(vectors.classes[heads[index]])
    return count


@njit()
def write_blocks(heads: NDArray[np.int32], label: NDArray[np.int16], vectors: Vectors, blocks: Blocks) -> None:
    """Copy the chains that begin at ``heads`` into ``blocks``, which has room for them."""
    at = 0
    for index in range(heads.size):
        row: Row = heads[index]
        classes = vectors.classes[row] if row >= 0 else 0
        while row >= 0:
            blocks.values[at] = vectors.values[row]
            blocks.classes[at] = classes
            blocks.label[at] = label[index]
            at += 1
            row = vectors.next[row]
