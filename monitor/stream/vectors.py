"""Predictions over several classes in the journal: rows of their probabilities behind the row of their top label."""

import numpy as np
from numpy.typing import NDArray

from monitor.store.base import JOURNAL_ROW, VECTOR, VECTOR_ROW
from monitor.stream.join_table_loops import NO_OUTCOME, Accepted
from monitor.stream.vector_loops import BLOCK, Blocks, Vectors, count_blocks, write_blocks


def blocks_in(rows: NDArray[np.void]) -> Blocks:
    """What the VECTOR rows of a stretch of the journal hold, in their order."""
    held = rows.view(VECTOR_ROW)[rows["entry"] == VECTOR]
    return Blocks(
        np.ascontiguousarray(held["values"]),
        np.ascontiguousarray(held["classes"]),
        np.ascontiguousarray(held["label"]),
        np.ascontiguousarray(held["before"]),
    )


def journal_rows(accepted: Accepted, vectors: Vectors) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """The rows that were accepted, each with its probabilities behind it.

    Returns
    -------
    rows
        JOURNAL_ROW, shape (k,), some of which are VECTOR_ROW.
    origin
        int64, shape (k,): which of the accepted rows each is, or belongs to.
    """
    held = count_blocks(accepted.vector, vectors)
    origin = np.repeat(np.arange(held.size), 1 + held)
    is_block = np.ones(origin.size, np.bool_)
    is_block[np.cumsum(1 + held) - 1 - held] = False
    count = int(held.sum())
    blocks = Blocks(
        np.empty((count, BLOCK)), np.empty(count, np.int16), np.empty(count, np.int16), np.empty(count, np.int16)
    )
    write_blocks(accepted.vector, accepted.label, accepted.before, vectors, blocks)
    written = np.zeros(count, VECTOR_ROW)
    for name in Blocks._fields:
        written[name] = getattr(blocks, name)
    written["stratum"] = NO_OUTCOME
    written["outcome"] = NO_OUTCOME
    written["entry"] = VECTOR
    rows = np.empty(origin.size, JOURNAL_ROW)
    rows[~is_block] = accepted.rows
    rows[is_block] = written.view(JOURNAL_ROW)
    return rows, origin
