"""The join's tables, taken up again after a restart, and emptied of what can change no more."""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.store.base import CLAIMED, PREDICTED, VECTOR, WAITING
from monitor.stream.hash_loops import Row, find, insert, remove
from monitor.stream.join_table_loops import (
    FREE,
    NO_OUTCOME,
    UNANSWERED,
    USED,
    Accepted,
    Known,
    Waiting,
    add_known,
    add_waiting,
    give_row,
    write_row,
)
from monitor.stream.vector_loops import Blocks, Vectors, add_vector, is_hit


@njit()
def restore_rows(
    rows: NDArray[np.void], blocks: Blocks, known: Known, vectors: Vectors, astray: NDArray[np.bool_]
) -> None:
    """Take up rows of the journal, in their order.

    Rows of waiting outcomes are passed over: :func:`restore_waiting` takes those that were never claimed.

    Parameters
    ----------
    blocks
        What the rows with the entry VECTOR hold.
    astray
        bool, as long as ``rows``: marks rows that answer a prediction which is not there (yet), with their VECTOR rows.
    """
    block = 0
    flat = blocks.values.reshape(blocks.values.size)
    for index in range(rows.size):
        entry = rows[index].entry
        if entry == VECTOR:
            astray[index] = astray[index - 1]
            block += 1
            continue
        astray[index] = False
        if entry == WAITING or entry == CLAIMED:
            continue
        high, low = rows[index].id_high, rows[index].id_low
        outcome = np.int64(rows[index].outcome)
        has_vector = index + 1 < rows.size and rows[index + 1].entry == VECTOR
        if has_vector:
            outcome = np.int64(blocks.label[block])
        if entry == PREDICTED:
            vector: Row = -1
            if has_vector:
                vector = add_vector(vectors, flat, block * blocks.values.shape[1], blocks.classes[block])
            add_known(
                known,
                high,
                low,
                rows[index].time_ms,
                rows[index].prediction,
                rows[index].outcome_ms,
                rows[index].stratum,
                vector,
                outcome,
            )
            continue
        row = find(known.slots, known.id_high, known.id_low, high, low)
        if row < 0:
            astray[index] = True
            continue
        if known.outcome[row] == NO_OUTCOME:
            known.meta[UNANSWERED] -= 1
        elif rows[index].outcome_ms < known.outcome_ms[row]:
            continue  # of another bucket, whose newer rows came first
        known.outcome[row] = outcome
        known.outcome_ms[row] = rows[index].outcome_ms


@njit()
def restore_waiting(rows: NDArray[np.void], model: NDArray[np.int32], waiting: Waiting) -> None:
    """Take up waiting outcomes, in order of arrival."""
    for index in range(rows.size):
        add_waiting(
            waiting,
            rows[index].id_high,
            rows[index].id_low,
            rows[index].time_ms,
            np.int64(rows[index].prediction),
            model[index],
            max(np.int64(rows[index].outcome), np.int64(rows[index].stratum)),
        )


@njit()
def evict_known(
    known: Known,
    vectors: Vectors,
    model_of_stratum: NDArray[np.int32],
    before_ms: NDArray[np.int64],
    taken: Accepted,
) -> int:
    """Take out the predictions older than ``before_ms[model]``; their probabilities stay, for the caller to free.

    Parameters
    ----------
    taken
        Room for what is taken out, as rows of the journal; when it is full, the rest stays for another call.

    Returns
    -------
    int
        Rows taken out.
    """
    written = 0
    for row in range(known.meta[USED]):
        if written == taken.rows.size:
            break
        if known.outcome[row] == FREE or known.time_ms[row] >= before_ms[model_of_stratum[known.stratum[row]]]:
            continue
        high, low = known.id_high[row], known.id_low[row]
        vector, outcome = known.vector[row], known.outcome[row]
        taken.vector[written], taken.label[written], taken.before[written] = vector, outcome, -1
        write_row(
            taken.rows,
            written,
            PREDICTED,
            high,
            low,
            known.time_ms[row],
            known.prediction[row],
            known.outcome_ms[row],
            known.stratum[row],
            is_hit(vectors, vector, outcome),
        )
        written += 1
        if outcome == NO_OUTCOME:
            known.meta[UNANSWERED] -= 1
        known.outcome[row] = FREE
        remove(known.slots, high, low, row)
        give_row(row, known.time_ms, known.meta)
    return written


@njit()
def evict_waiting(waiting: Waiting, lateness_ms: NDArray[np.int64], before_ms: NDArray[np.int64]) -> int:
    """Take out the outcomes filed before ``before_ms[model]``, which wait in vain; returns their number."""
    taken = 0
    for head in range(waiting.meta[USED]):
        if waiting.outcome[head] == FREE:
            continue
        high, low = waiting.id_high[head], waiting.id_low[head]
        if find(waiting.slots, waiting.id_high, waiting.id_low, high, low) != head:
            continue  # not the first of its chain: it is met there
        model = waiting.model[head]
        remove(waiting.slots, high, low, head)
        first, last, link = -1, -1, head
        while link >= 0:
            following = waiting.next[link]
            if waiting.time_ms[link] + lateness_ms[model] < before_ms[model]:
                waiting.outcome[link] = FREE
                give_row(link, waiting.time_ms, waiting.meta)
                taken += 1
            else:
                if first < 0:
                    first = link
                else:
                    waiting.next[last] = link
                last = link
                waiting.next[link] = -1
            link = following
        if first >= 0:
            waiting.last[first] = last
            insert(waiting.slots, high, low, first)
    return taken
