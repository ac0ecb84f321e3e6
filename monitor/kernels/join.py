"""The join by prediction id: each event, in log order, against the table of what is known.

The order in which predictions and outcomes are read relative to each other does not matter: an outcome that is read
before its prediction waits, and is settled when the prediction comes as if it had been read right after it.
"""

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from monitor.kernels.hash_index import Row, find, insert, remove

# What a row of the journal says happened.
PREDICTED: Final = 0
"""A prediction was accepted; with an outcome if the event brought one."""
ANSWERED: Final = 1
"""A prediction got its first outcome."""
CORRECTED: Final = 2
"""A prediction's outcome turned into the other one."""
CONFIRMED: Final = 3
"""The same outcome, newer."""
WAITING: Final = 4
"""An outcome waits for its prediction. ``prediction`` holds its arrival number."""
CLAIMED: Final = 5
"""A waiting outcome met its prediction. ``prediction`` holds its arrival number."""

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
"""First row to be used again, or -1; the next stands in its ``time_ms``."""
COUNT: Final = 2
"""Rows in use."""
UNANSWERED: Final = 3
"""Predictions without an outcome."""
META: Final = 4

_PREDICTION: Final = 0
_OUTCOME: Final = 1


class Known(NamedTuple):
    """The predictions that are kept, column by column; a row each, in no order."""

    slots: NDArray[np.uint64]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    prediction: NDArray[np.float64]
    outcome_ms: NDArray[np.int64]
    stratum: NDArray[np.int32]
    outcome: NDArray[np.int8]
    meta: NDArray[np.int64]


class Waiting(NamedTuple):
    """The outcomes that wait for their prediction. Those of one id are chained in order of arrival."""

    slots: NDArray[np.uint64]
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    arrival: NDArray[np.int64]
    model: NDArray[np.int32]
    outcome: NDArray[np.int8]
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
    outcome: NDArray[np.int8]
    model: NDArray[np.int32]
    stratum: NDArray[np.int32]


class Accepted(NamedTuple):
    """What a batch changed: rows of the journal, with the model and the time by which each is filed."""

    rows: NDArray[np.void]
    model: NDArray[np.int32]
    filed_ms: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _take_row(free: NDArray[np.int64], meta: NDArray[np.int64]) -> Row:
    meta[COUNT] += 1
    head: Row = meta[FREE_HEAD]
    if head >= 0:
        meta[FREE_HEAD] = free[head]
        return head
    fresh: Row = meta[USED]
    meta[USED] += 1
    return fresh


@njit(cache=True, nogil=True)
def _give_row(row: Row, free: NDArray[np.int64], meta: NDArray[np.int64]) -> None:
    meta[COUNT] -= 1
    free[row] = meta[FREE_HEAD]
    meta[FREE_HEAD] = row


@njit(cache=True, nogil=True)
def _write(
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
    rows[at].id_high = high
    rows[at].id_low = low
    rows[at].time_ms = time_ms
    rows[at].prediction = prediction
    rows[at].outcome_ms = outcome_ms
    rows[at].stratum = stratum
    rows[at].entry = entry
    rows[at].outcome = outcome


@njit(cache=True, nogil=True)
def _add_known(
    known: Known,
    high: np.uint64,
    low: np.uint64,
    time_ms: int,
    prediction: float,
    outcome_ms: int,
    stratum: int,
    outcome: int,
) -> Row:
    row = _take_row(known.time_ms, known.meta)
    known.id_high[row] = high
    known.id_low[row] = low
    known.time_ms[row] = time_ms
    known.prediction[row] = prediction
    known.outcome_ms[row] = outcome_ms
    known.stratum[row] = stratum
    known.outcome[row] = outcome
    insert(known.slots, high, low, row)
    if outcome == NO_OUTCOME:
        known.meta[UNANSWERED] += 1
    return row


@njit(cache=True, nogil=True)
def _settle(
    known: Known,
    row: Row,
    time_ms: int,
    outcome: int,
    horizon_ms: int,
    lateness_ms: int,
    rows: NDArray[np.void],
    at: int,
) -> tuple[int, int]:
    """Hold an outcome against its prediction: its fate, and how many rows of the journal were written (0 or 1)."""
    predicted_ms = known.time_ms[row]
    if time_ms > predicted_ms + horizon_ms:
        return AFTER_HORIZON, 0
    if time_ms < predicted_ms - lateness_ms:
        return BEFORE_PREDICTION, 0
    before = known.outcome[row]
    if before == NO_OUTCOME:
        fate, entry = JOINED, ANSWERED
        known.meta[UNANSWERED] -= 1
    elif before == outcome:
        if time_ms <= known.outcome_ms[row]:
            return DUPLICATE, 0
        fate, entry = DUPLICATE, CONFIRMED
    elif time_ms < known.outcome_ms[row]:
        return SUPERSEDED, 0
    else:
        # Of two outcomes with the same time the later in the log is the correction.
        fate, entry = CORRECTION, CORRECTED
    known.outcome[row] = outcome
    known.outcome_ms[row] = time_ms
    _write(
        rows,
        at,
        entry,
        known.id_high[row],
        known.id_low[row],
        predicted_ms,
        known.prediction[row],
        time_ms,
        known.stratum[row],
        outcome,
    )
    return fate, 1


@njit(cache=True, nogil=True)
def _add_waiting(
    waiting: Waiting, high: np.uint64, low: np.uint64, time_ms: int, arrival: Row, model: int, outcome: int
) -> None:
    row = _take_row(waiting.time_ms, waiting.meta)
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


@njit(cache=True, nogil=True)
def apply_events(
    events: Events, known: Known, waiting: Waiting, models: Models, counts: NDArray[np.int64], accepted: Accepted
) -> int:
    """Join a batch.

    Parameters
    ----------
    counts
        int64, shape (3, FATES), by kind and fate; raised in place. Their outcomes' row, summed up, numbers arrivals.
    accepted
        Room for one row an event, two more an outcome that waits or may come to wait, and one to spare.

    Returns
    -------
    int
        Rows written to ``accepted``.
    """
    rows, filed_model, filed_ms = accepted
    written = 0
    arrivals = counts[_OUTCOME].sum()
    for index in range(events.kind.size):
        kind = events.kind[index]
        model = events.model[index]
        if model < 0:
            counts[kind, REFUSED] += 1
            if kind == _OUTCOME:
                arrivals += 1
            continue
        time_ms = events.time_ms[index]
        outcome = events.outcome[index]
        high, low = events.id_hash[index, 0], events.id_hash[index, 1]
        horizon_ms, lateness_ms = models.horizon_ms[model], models.lateness_ms[model]

        if kind == _OUTCOME:
            arrivals += 1
            newest = models.outcome_watermark_ms[model]
            models.outcome_watermark_ms[model] = max(newest, time_ms)
            if newest >= 0 and time_ms < newest - lateness_ms:
                counts[kind, LATE] += 1
                continue
            row = find(known.slots, known.id_high, known.id_low, high, low)
            if row < 0:
                counts[kind, EARLY] += 1
                _add_waiting(waiting, high, low, time_ms, arrivals, model, outcome)
                _write(rows, written, WAITING, high, low, time_ms, float(arrivals), time_ms, -1, outcome)
                filed_model[written], filed_ms[written] = model, time_ms + lateness_ms
                written += 1
                continue
            fate, wrote = _settle(known, row, time_ms, outcome, horizon_ms, lateness_ms, rows, written)
            counts[kind, fate] += 1
            filed_model[written], filed_ms[written] = model, known.time_ms[row]
            written += wrote
            continue

        newest = models.prediction_watermark_ms[model]
        models.prediction_watermark_ms[model] = max(newest, time_ms)
        if kind != _PREDICTION:
            models.outcome_watermark_ms[model] = max(models.outcome_watermark_ms[model], time_ms)
        if time_ms < models.evicted_before_ms[model] or (newest >= 0 and time_ms < newest - horizon_ms - lateness_ms):
            counts[kind, LATE] += 1
            continue
        row = find(known.slots, known.id_high, known.id_low, high, low)
        if row >= 0:
            fate, wrote = DUPLICATE, 0
            if kind != _PREDICTION:
                fate, wrote = _settle(known, row, time_ms, outcome, horizon_ms, lateness_ms, rows, written)
            counts[kind, fate] += 1
            filed_model[written], filed_ms[written] = model, known.time_ms[row]
            written += wrote
            continue
        prediction, stratum = events.prediction[index], events.stratum[index]
        row = _add_known(known, high, low, time_ms, prediction, time_ms, stratum, outcome)
        _write(rows, written, PREDICTED, high, low, time_ms, prediction, time_ms, stratum, outcome)
        filed_model[written], filed_ms[written] = model, time_ms
        written += 1
        counts[kind, ACCEPTED] += 1

        link = find(waiting.slots, waiting.id_high, waiting.id_low, high, low)
        if link < 0:
            continue
        remove(waiting.slots, high, low, link)
        while link >= 0:
            early_ms, early = waiting.time_ms[link], waiting.outcome[link]
            _write(rows, written, CLAIMED, high, low, early_ms, float(waiting.arrival[link]), early_ms, -1, early)
            filed_model[written], filed_ms[written] = model, early_ms + lateness_ms
            written += 1
            fate, wrote = _settle(known, row, early_ms, early, horizon_ms, lateness_ms, rows, written)
            filed_model[written], filed_ms[written] = model, time_ms
            written += wrote
            counts[_OUTCOME, EARLY] -= 1
            counts[_OUTCOME, fate] += 1
            following = waiting.next[link]
            waiting.outcome[link] = FREE
            _give_row(link, waiting.time_ms, waiting.meta)
            link = following
    return written


@njit(cache=True, nogil=True)
def restore_rows(rows: NDArray[np.void], known: Known, astray: NDArray[np.int64]) -> int:
    """Take up rows of the journal, in their order.

    Rows of waiting outcomes are passed over: :func:`restore_waiting` takes those that were never claimed.

    Parameters
    ----------
    astray
        int64, as long as ``rows``: gets the places of rows that answer a prediction which is not there (yet).

    Returns
    -------
    int
        How many of those there are.
    """
    count = 0
    for index in range(rows.size):
        entry = rows[index].entry
        if entry == WAITING or entry == CLAIMED:
            continue
        high, low = rows[index].id_high, rows[index].id_low
        if entry == PREDICTED:
            _add_known(
                known,
                high,
                low,
                rows[index].time_ms,
                rows[index].prediction,
                rows[index].outcome_ms,
                rows[index].stratum,
                rows[index].outcome,
            )
            continue
        row = find(known.slots, known.id_high, known.id_low, high, low)
        if row < 0:
            astray[count] = index
            count += 1
            continue
        if known.outcome[row] == NO_OUTCOME:
            known.meta[UNANSWERED] -= 1
        elif rows[index].outcome_ms < known.outcome_ms[row]:
            continue  # of another bucket, whose newer rows came first
        known.outcome[row] = rows[index].outcome
        known.outcome_ms[row] = rows[index].outcome_ms
    return count


@njit(cache=True, nogil=True)
def restore_waiting(rows: NDArray[np.void], model: NDArray[np.int32], waiting: Waiting) -> None:
    """Take up waiting outcomes, in order of arrival."""
    for index in range(rows.size):
        _add_waiting(
            waiting,
            rows[index].id_high,
            rows[index].id_low,
            rows[index].time_ms,
            np.int64(rows[index].prediction),
            model[index],
            rows[index].outcome,
        )


@njit(cache=True, nogil=True)
def evict_known(
    known: Known, model_of_stratum: NDArray[np.int32], before_ms: NDArray[np.int64], rows: NDArray[np.void]
) -> int:
    """Take out the predictions older than ``before_ms[model]``.

    Parameters
    ----------
    rows
        Room for what is taken out, as rows of the journal; when it is full, the rest stays for another call.

    Returns
    -------
    int
        Rows taken out.
    """
    written = 0
    for row in range(known.meta[USED]):
        if written == rows.size:
            break
        if known.outcome[row] == FREE or known.time_ms[row] >= before_ms[model_of_stratum[known.stratum[row]]]:
            continue
        high, low = known.id_high[row], known.id_low[row]
        _write(
            rows,
            written,
            PREDICTED,
            high,
            low,
            known.time_ms[row],
            known.prediction[row],
            known.outcome_ms[row],
            known.stratum[row],
            known.outcome[row],
        )
        written += 1
        if known.outcome[row] == NO_OUTCOME:
            known.meta[UNANSWERED] -= 1
        known.outcome[row] = FREE
        remove(known.slots, high, low, row)
        _give_row(row, known.time_ms, known.meta)
    return written


@njit(cache=True, nogil=True)
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
                _give_row(link, waiting.time_ms, waiting.meta)
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
