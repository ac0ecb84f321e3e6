"""The join by prediction id: its tables, the join of a batch, restoring after a restart, and eviction.

Events are joined in log order. The order in which predictions and outcomes are read relative to each other does not
matter: an outcome that is read before its prediction waits, and is joined when the prediction comes as if it had been
read right after it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.loops import njit
from monitor.stream.journal_loops import (
    ANSWERED,
    CLAIMED,
    NO_OUTCOME,
    PREDICTED,
    VECTOR,
    WAITING,
    Blocks,
    Vectors,
    add_vector,
    is_hit,
    write_row,
)
from monitor.stream.table_loops import UNANSWERED, USED, Row, allocate_row, find, insert, release_row, remove

FREE: Final = -2
"""In place of the outcome in a row that is not in use."""

# Results of events, as columns of the counts. Their names are in event_results.py.
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
RESULTS: Final = 11

_PREDICTION: Final = 0
_OUTCOME: Final = 1
_LABELLED: Final = 2


class Predictions(NamedTuple):
    """The predictions in the join, column by column, in no order.

    For a prediction over several classes, ``prediction`` is the largest probability and ``outcome`` the class that
    came true; ``vector`` is the first row of its probabilities in :class:`~monitor.stream.journal_loops.Vectors`, else
    -1. Free rows are chained through ``time_ms``.
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


class EarlyOutcomes(NamedTuple):
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
    """In the first row of a chain, the last row of it."""
    meta: NDArray[np.int64]


class Models(NamedTuple):
    """Policy and watermarks of each model, by model id. The loops raise the watermarks."""

    horizon_ms: NDArray[np.int64]
    lateness_ms: NDArray[np.int64]
    prediction_watermark_ms: NDArray[np.int64]
    outcome_watermark_ms: NDArray[np.int64]
    closed_to_ms: NDArray[np.int64]
    """Predictions before this time are closed."""
    awaits_outcomes: NDArray[np.int64]
    """1 once a prediction or an outcome came by itself; 0 where all events so far were labelled."""


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
    """What a batch changed: rows of the journal, with the model and the time that puts each into a bucket.

    For predictions over several classes also ``vector``, the first row of the probabilities (else -1), and ``label``,
    the class that came true, or -1. ``event`` is the place of the event in the batch, written for rows with the entry
    PREDICTED only.
    """

    rows: NDArray[np.void]
    model: NDArray[np.int32]
    bucket_time_ms: NDArray[np.int64]
    event: NDArray[np.int32]
    vector: NDArray[np.int32]
    label: NDArray[np.int16]


@njit()
def _write_prediction(
    accepted: Accepted, at: int, entry: int, predictions: Predictions, vectors: Vectors, row: Row
) -> None:
    """Write a row of the join's table as a row of the journal."""
    vector, outcome = predictions.vector[row], predictions.outcome[row]
    accepted.vector[at], accepted.label[at] = vector, outcome
    write_row(
        accepted.rows,
        at,
        entry,
        predictions.id_high[row],
        predictions.id_low[row],
        predictions.time_ms[row],
        predictions.prediction[row],
        predictions.outcome_ms[row],
        predictions.stratum[row],
        is_hit(vectors, vector, outcome),
    )


@njit()
def _add_prediction(
    predictions: Predictions,
    high: np.uint64,
    low: np.uint64,
    time_ms: int,
    prediction: float,
    outcome_ms: int,
    stratum: int,
    vector: Row,
    outcome: int | np.int64,
) -> Row:
    """Insert a prediction; returns its row. The caller guarantees free rows."""
    row = allocate_row(predictions.time_ms, predictions.meta)
    predictions.id_high[row] = high
    predictions.id_low[row] = low
    predictions.time_ms[row] = time_ms
    predictions.prediction[row] = prediction
    predictions.outcome_ms[row] = outcome_ms
    predictions.stratum[row] = stratum
    predictions.vector[row] = vector
    predictions.outcome[row] = outcome
    insert(predictions.slots, high, low, row)
    if outcome == NO_OUTCOME:
        predictions.meta[UNANSWERED] += 1
    return row


@njit()
def _add_early_outcome(
    early: EarlyOutcomes,
    high: np.uint64,
    low: np.uint64,
    time_ms: int,
    arrival: Row,
    model: int,
    outcome: int | np.int64,
) -> None:
    """Insert an outcome without a prediction, behind earlier ones of the same id."""
    row = allocate_row(early.time_ms, early.meta)
    early.id_high[row] = high
    early.id_low[row] = low
    early.time_ms[row] = time_ms
    early.arrival[row] = arrival
    early.model[row] = model
    early.outcome[row] = outcome
    early.next[row] = -1
    head = find(early.slots, early.id_high, early.id_low, high, low)
    if head < 0:
        early.last[row] = row
        insert(early.slots, high, low, row)
    else:
        early.next[early.last[head]] = row
        early.last[head] = row


@njit()
def _join_outcome(
    predictions: Predictions,
    vectors: Vectors,
    row: Row,
    time_ms: int,
    outcome: int,
    horizon_ms: int,
    lateness_ms: int,
    accepted: Accepted,
    at: int,
) -> tuple[int, int]:
    """Join an outcome with its prediction; returns its result, and how many rows were written (0 or 1)."""
    predicted_ms = predictions.time_ms[row]
    if time_ms > predicted_ms + horizon_ms:
        return AFTER_HORIZON, 0
    if time_ms < predicted_ms - lateness_ms:
        return BEFORE_PREDICTION, 0
    vector = predictions.vector[row]
    if vector < 0:
        # A class beyond two meets a prediction of two only if the model's classes were declared in between.
        outcome = is_hit(vectors, vector, outcome)
    before = predictions.outcome[row]
    if before == NO_OUTCOME:
        result = JOINED
        predictions.meta[UNANSWERED] -= 1
    elif before == outcome:
        if time_ms <= predictions.outcome_ms[row]:
            return DUPLICATE, 0
        result = DUPLICATE
    elif time_ms < predictions.outcome_ms[row]:
        return SUPERSEDED, 0
    else:
        # Of two outcomes with the same time, the later one in the log is the correction.
        result = CORRECTION
    predictions.outcome[row] = outcome
    predictions.outcome_ms[row] = time_ms
    _write_prediction(accepted, at, ANSWERED, predictions, vectors, row)
    return result, 1


@njit()
def _write_early(
    accepted: Accepted, at: int, entry: int, high: np.uint64, low: np.uint64, time_ms: int, arrival: int, outcome: int
) -> None:
    """Write an early outcome. A class above 1 goes into ``stratum``, as ``outcome`` holds at most 127."""
    above = outcome if outcome > 1 else -1
    accepted.vector[at] = -1
    write_row(accepted.rows, at, entry, high, low, time_ms, float(arrival), time_ms, above, min(outcome, 1))


@njit()
def apply_events(
    events: Events,
    predictions: Predictions,
    vectors: Vectors,
    early: EarlyOutcomes,
    models: Models,
    counts: NDArray[np.int64],
    accepted: Accepted,
) -> int:
    """Join a batch.

    Parameters
    ----------
    counts
        int64, shape (3, RESULTS), by kind and result; raised in place. The sum over outcomes numbers their arrivals.
    predictions, vectors, early
        Have free rows for all events.
    accepted
        Room for one row per event, two more per outcome that waits or may come to wait, and one to spare.

    Returns
    -------
    int
        Rows written to ``accepted``.
    """
    row_model, bucket_ms = accepted.model, accepted.bucket_time_ms
    written = 0
    read = 0
    arrivals = counts[_OUTCOME].sum()
    for index in range(events.kind.size):
        kind = events.kind[index]
        model = events.model[index]
        classes = events.classes[index]
        first = read
        read += classes
        if model < 0:
            counts[kind, REFUSED] += 1
            if kind == _OUTCOME:
                arrivals += 1
            continue
        time_ms = events.time_ms[index]
        outcome = events.outcome[index]
        high, low = events.id_hash[index, 0], events.id_hash[index, 1]
        horizon_ms, lateness_ms = models.horizon_ms[model], models.lateness_ms[model]
        if kind != _LABELLED:
            models.awaits_outcomes[model] = 1

        if kind == _OUTCOME:
            arrivals += 1
            newest = models.outcome_watermark_ms[model]
            models.outcome_watermark_ms[model] = max(newest, time_ms)
            if newest >= 0 and time_ms < newest - lateness_ms:
                counts[kind, LATE] += 1
                continue
            row = find(predictions.slots, predictions.id_high, predictions.id_low, high, low)
            if row < 0:
                counts[kind, EARLY] += 1
                _add_early_outcome(early, high, low, time_ms, arrivals, model, outcome)
                _write_early(accepted, written, WAITING, high, low, time_ms, arrivals, outcome)
                row_model[written], bucket_ms[written] = model, time_ms + lateness_ms
                written += 1
                continue
            result, wrote = _join_outcome(
                predictions, vectors, row, time_ms, outcome, horizon_ms, lateness_ms, accepted, written
            )
            counts[kind, result] += 1
            row_model[written], bucket_ms[written] = model, predictions.time_ms[row]
            written += wrote
            continue

        newest = models.prediction_watermark_ms[model]
        models.prediction_watermark_ms[model] = max(newest, time_ms)
        if kind != _PREDICTION:
            models.outcome_watermark_ms[model] = max(models.outcome_watermark_ms[model], time_ms)
        wait_ms = lateness_ms + horizon_ms * models.awaits_outcomes[model]
        if time_ms < models.closed_to_ms[model] or (newest >= 0 and time_ms < newest - wait_ms):
            counts[kind, LATE] += 1
            continue
        row = find(predictions.slots, predictions.id_high, predictions.id_low, high, low)
        if row >= 0:
            result, wrote = DUPLICATE, 0
            if kind != _PREDICTION:
                result, wrote = _join_outcome(
                    predictions, vectors, row, time_ms, outcome, horizon_ms, lateness_ms, accepted, written
                )
            counts[kind, result] += 1
            row_model[written], bucket_ms[written] = model, predictions.time_ms[row]
            written += wrote
            continue
        prediction, stratum = events.prediction[index], events.stratum[index]
        vector: Row = add_vector(vectors, events.probabilities, first, classes) if classes > 0 else -1
        row = _add_prediction(predictions, high, low, time_ms, prediction, time_ms, stratum, vector, outcome)
        _write_prediction(accepted, written, PREDICTED, predictions, vectors, row)
        row_model[written], bucket_ms[written] = model, time_ms
        accepted.event[written] = index
        written += 1
        counts[kind, ACCEPTED] += 1

        link = find(early.slots, early.id_high, early.id_low, high, low)
        if link < 0:
            continue
        remove(early.slots, high, low, link)
        while link >= 0:
            outcome_ms, outcome = early.time_ms[link], early.outcome[link]
            _write_early(accepted, written, CLAIMED, high, low, outcome_ms, early.arrival[link], outcome)
            row_model[written], bucket_ms[written] = model, outcome_ms + lateness_ms
            written += 1
            result, wrote = _join_outcome(
                predictions, vectors, row, outcome_ms, outcome, horizon_ms, lateness_ms, accepted, written
            )
            row_model[written], bucket_ms[written] = model, time_ms
            written += wrote
            counts[_OUTCOME, EARLY] -= 1
            counts[_OUTCOME, result] += 1
            following = early.next[link]
            early.outcome[link] = FREE
            release_row(link, early.time_ms, early.meta)
            link = following
    return written


@njit()
def restore_rows(
    rows: NDArray[np.void], blocks: Blocks, predictions: Predictions, vectors: Vectors, unmatched: NDArray[np.bool_]
) -> None:
    """Restore predictions and their outcomes from rows of the journal, in order. Skips WAITING and CLAIMED rows.

    Parameters
    ----------
    blocks
        Columns of the VECTOR rows.
    unmatched
        bool, shape (rows,): marks outcomes whose prediction is not in the table (yet), with their VECTOR rows.
    """
    block = 0
    flat = blocks.values.reshape(blocks.values.size)
    for index in range(rows.size):
        entry = rows[index].entry
        if entry == VECTOR:
            unmatched[index] = unmatched[index - 1]
            block += 1
            continue
        unmatched[index] = False
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
            _add_prediction(
                predictions,
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
        row = find(predictions.slots, predictions.id_high, predictions.id_low, high, low)
        if row < 0:
            unmatched[index] = True
            continue
        if predictions.outcome[row] == NO_OUTCOME:
            predictions.meta[UNANSWERED] -= 1
        elif rows[index].outcome_ms < predictions.outcome_ms[row]:
            continue  # a newer outcome of another bucket came first
        predictions.outcome[row] = outcome
        predictions.outcome_ms[row] = rows[index].outcome_ms


@njit()
def restore_early_outcomes(rows: NDArray[np.void], model: NDArray[np.int32], early: EarlyOutcomes) -> None:
    """Restore waiting outcomes, in order of arrival."""
    for index in range(rows.size):
        _add_early_outcome(
            early,
            rows[index].id_high,
            rows[index].id_low,
            rows[index].time_ms,
            np.int64(rows[index].prediction),
            model[index],
            max(np.int64(rows[index].outcome), np.int64(rows[index].stratum)),
        )


@njit()
def copy_predictions(predictions: Predictions, vectors: Vectors, first: int, copies: Accepted) -> tuple[int, int]:
    """Copy predictions from a row on until ``copies`` is full; returns their number, and the row to continue with."""
    written = 0
    row = first
    while row < predictions.meta[USED] and written < copies.rows.size:
        if predictions.outcome[row] != FREE:
            _write_prediction(copies, written, PREDICTED, predictions, vectors, row)
            written += 1
        row += 1
    return written, row


@njit()
def count_predictions(
    predictions: Predictions,
    series_of_stratum: NDArray[np.int64],
    pane_ms: int,
    series: NDArray[np.int64],
    pane: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> bool:
    """Count predictions by series and pane in an open-addressing table; False if the table is too small.

    Parameters
    ----------
    series_of_stratum
        int64, shape (strata,): the series to count each stratum for.
    series, pane, counts
        int64, shape (n,), (n,) and (n, 2), n a power of two: the table. Predictions with and without an outcome are
        counted; ``counts`` is 0 where a row is free.
    """
    mask = series.size - 1
    used = 0
    for row in range(predictions.meta[USED]):
        outcome = predictions.outcome[row]
        if outcome == FREE:
            continue
        wanted = series_of_stratum[predictions.stratum[row]]
        number = predictions.time_ms[row] // pane_ms
        place = (number * 0x9E3779B1 + wanted * 0x85EBCA6B) & mask
        while counts[place, 0] + counts[place, 1] > 0 and (series[place] != wanted or pane[place] != number):
            place = (place + 1) & mask
        if counts[place, 0] + counts[place, 1] == 0:
            used += 1
            if 2 * used > series.size:
                return False
            series[place], pane[place] = wanted, number
        counts[place, int(outcome == NO_OUTCOME)] += 1
    return True


@njit()
def evict_predictions(
    predictions: Predictions,
    vectors: Vectors,
    model_of_stratum: NDArray[np.int32],
    before_ms: NDArray[np.int64],
    evicted: Accepted,
) -> int:
    """Move predictions older than ``before_ms[model]`` to ``evicted`` until it is full; returns their number.

    Their probabilities stay in ``vectors``, for the caller to free.
    """
    written = 0
    for row in range(predictions.meta[USED]):
        if written == evicted.rows.size:
            break
        if (
            predictions.outcome[row] == FREE
            or predictions.time_ms[row] >= before_ms[model_of_stratum[predictions.stratum[row]]]
        ):
            continue
        _write_prediction(evicted, written, PREDICTED, predictions, vectors, row)
        written += 1
        if predictions.outcome[row] == NO_OUTCOME:
            predictions.meta[UNANSWERED] -= 1
        predictions.outcome[row] = FREE
        remove(predictions.slots, predictions.id_high[row], predictions.id_low[row], row)
        release_row(row, predictions.time_ms, predictions.meta)
    return written


@njit()
def evict_early_outcomes(early: EarlyOutcomes, lateness_ms: NDArray[np.int64], before_ms: NDArray[np.int64]) -> int:
    """Remove outcomes whose time plus lateness is before ``before_ms[model]``; returns their number."""
    removed = 0
    for head in range(early.meta[USED]):
        if early.outcome[head] == FREE:
            continue
        high, low = early.id_high[head], early.id_low[head]
        if find(early.slots, early.id_high, early.id_low, high, low) != head:
            continue  # its chain is handled at the first row
        model = early.model[head]
        remove(early.slots, high, low, head)
        first, last, link = -1, -1, head
        while link >= 0:
            following = early.next[link]
            if early.time_ms[link] + lateness_ms[model] < before_ms[model]:
                early.outcome[link] = FREE
                release_row(link, early.time_ms, early.meta)
                removed += 1
            else:
                if first < 0:
                    first = link
                else:
                    early.next[last] = link
                last = link
                early.next[link] = -1
            link = following
        if first >= 0:
            early.last[first] = last
            insert(early.slots, high, low, first)
    return removed
