"""What the join knows: the columns of its tables, and how rows come into them and go."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.stream.hash_loops import Row, find, insert

NO_OUTCOME: Final = -1
FREE: Final = -2
"""In place of the outcome in a row that is not in use."""

# Fates, as columns of the counts; the names stand in monitor/stream/fates.py.
ACCEPTED: Final = 0
DUPLICATE: Final = 1
LATE: Final = 2
REFUSED: Final = 3
JOINED: Final = 4
CORRECTION: Final = 5
SUPERSEDED: Final = 6
EARLY: Final = 7
AFTER_HORIZON: Final = 8
BEFORE_PREDICTION: Final = 9
ORPHAN: Final = 10
FATES: Final = 11

# Places in ``meta``.
USED: Final = 0
"""Rows below this have been in use."""
FREE_HEAD: Final = 1
"""First row to be used again, or -1; the next stands in its ``time_ms`` (of vectors: ``next``)."""
COUNT: Final = 2
"""Rows in use."""
UNANSWERED: Final = 3
"""Predictions without an outcome."""
META: Final = 4


class Known(NamedTuple):
    """The predictions that are kept, column by column; a row each, in no order.

    Of a prediction over several classes, ``prediction`` is the largest probability and ``outcome`` the class that came
    true; ``vector`` is where its probabilities begin in :class:`~monitor.stream.vector_loops.Vectors`, else -1.
    """

    slots: NDArray[np.uint64]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    prediction: NDArray[np.float64]
    outcome_ms: NDArray[np.int64]
    stratum: NDArray[np.int32]
    vector: NDArray[np.int32]
    outcome: NDArray[np.int16]
    meta: NDArray[np.int64]


class Waiting(NamedTuple):
    """The outcomes that wait for their prediction. Those of one id are chained in order of arrival."""

    slots: NDArray[np.uint64]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    arrival: NDArray[np.int64]
    model: NDArray[np.int32]
    outcome: NDArray[np.int16]
    next: NDArray[np.int32]
    last: NDArray[np.int32]
    """In the first row of a chain, its last row."""
    meta: NDArray[np.int64]


class Models(NamedTuple):
    """What the join knows of each model, by model id. The watermarks and the arrival count move."""

    horizon_ms: NDArray[np.int64]
    lateness_ms: NDArray[np.int64]
    prediction_watermark_ms: NDArray[np.int64]
    outcome_watermark_ms: NDArray[np.int64]
    evicted_before_ms: NDArray[np.int64]


class Events(NamedTuple):
    """A decoded batch: see :class:`monitor.events.model.EventColumns`."""

    kind: NDArray[np.int8]
    id_hash: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    prediction: NDArray[np.float64]
    outcome: NDArray[np.int16]
    model: NDArray[np.int32]
    stratum: NDArray[np.int32]
    classes: NDArray[np.int32]
    probabilities: NDArray[np.float64]


class Accepted(NamedTuple):
    """What a batch changed: rows of the journal, with the model and the time by which each is filed.

    Of a row whose prediction is over several classes, also where its probabilities begin (else -1), and the class that
    came true, as it is known now and as it was before; -1 where none is. Of a row with the entry PREDICTED, also the
    place of its event in the batch; of others that is not written.
    """

    rows: NDArray[np.void]
    model: NDArray[np.int32]
    filed_ms: NDArray[np.int64]
    event: NDArray[np.int32]
    vector: NDArray[np.int32]
    label: NDArray[np.int16]
    before: NDArray[np.int16]


@njit()
def take_row(free: NDArray[np.int64] | NDArray[np.int32], meta: NDArray[np.int64]) -> Row:
    """A row that is not in use: one that was given back, or a fresh one."""
    meta[COUNT] += 1
    head: Row = meta[FREE_HEAD]
    if head >= 0:
        meta[FREE_HEAD] = free[head]
        return head
    fresh: Row = meta[USED]
    meta[USED] += 1
    return fresh


@njit()
def give_row(row: Row, free: NDArray[np.int64] | NDArray[np.int32], meta: NDArray[np.int64]) -> None:
    """Take a row out of use."""
    meta[COUNT] -= 1
    free[row] = meta[FREE_HEAD]
    meta[FREE_HEAD] = row


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
def add_known(
    known: Known,
    high: np.uint64,
    low: np.uint64,
    time_ms: int,
    prediction: float,
    outcome_ms: int,
    stratum: int,
    vector: Row,
    outcome: int | np.int64,
) -> Row:
    """Enter a prediction; its row. The caller sees to it that there is room."""
    row = take_row(known.time_ms, known.meta)
    known.id_high[row] = high
    known.id_low[row] = low
    known.time_ms[row] = time_ms
    known.prediction[row] = prediction
    known.outcome_ms[row] = outcome_ms
    known.stratum[row] = stratum
    known.vector[row] = vector
    known.outcome[row] = outcome
    insert(known.slots, high, low, row)
    if outcome == NO_OUTCOME:
        known.meta[UNANSWERED] += 1
    return row


@njit()
def add_waiting(
    waiting: Waiting, high: np.uint64, low: np.uint64, time_ms: int, arrival: Row, model: int, outcome: int | np.int64
) -> None:
    """Enter an outcome that waits, behind those of its id that wait already."""
    row = take_row(waiting.time_ms, waiting.meta)
    waiting.id_high[row] = high
    waiting.id_low[row] = low
    waiting.time_ms[row] = time_ms
    waiting.arrival[row] = arrival
    waiting.model[row] = model
    waiting.outcome[row] = outcome
    waiting.next[row] = -1
    head = find(waiting.slots, waiting.id_high, waiting.id_low, high, low)
    if head < 0:
        waiting.last[row] = row
        insert(waiting.slots, high, low, row)
    else:
        waiting.next[waiting.last[head]] = row
        waiting.last[head] = row
