"""The join by prediction id: each event, in log order, against the table of what is known.

The order in which predictions and outcomes are read relative to each other does not matter: an outcome that is read
before its prediction waits, and is settled when the prediction comes as if it had been read right after it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit
from monitor.store.base import ANSWERED, CLAIMED, CONFIRMED, CORRECTED, PREDICTED, WAITING
from monitor.stream.hash_loops import Row, find, remove
from monitor.stream.join_table_loops import (
    ACCEPTED,
    AFTER_HORIZON,
    BEFORE_PREDICTION,
    CORRECTION,
    DUPLICATE,
    EARLY,
    FREE,
    JOINED,
    LATE,
    NO_OUTCOME,
    REFUSED,
    SUPERSEDED,
    UNANSWERED,
    Accepted,
    Events,
    Known,
    Models,
    Waiting,
    add_known,
    add_waiting,
    give_row,
    write_row,
)
from monitor.stream.vector_loops import Vectors, add_vector, is_hit

_PREDICTION: Final = 0
_OUTCOME: Final = 1


@njit()
def _settle(
    known: Known,
    vectors: Vectors,
    row: Row,
    time_ms: int,
    outcome: int,
    horizon_ms: int,
    lateness_ms: int,
    accepted: Accepted,
    at: int,
) -> tuple[int, int]:
    """Hold an outcome against its prediction: its fate, and how many rows of the journal were written (0 or 1)."""
    predicted_ms = known.time_ms[row]
    if time_ms > predicted_ms + horizon_ms:
        return AFTER_HORIZON, 0
    if time_ms < predicted_ms - lateness_ms:
        return BEFORE_PREDICTION, 0
    vector = known.vector[row]
    if vector < 0:
        # That of several classes answers a prediction of two only where the model was declared in between.
        outcome = is_hit(vectors, vector, outcome)
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
    hit = outcome
    if vector >= 0:
        hit = is_hit(vectors, vector, outcome)
        if entry == CORRECTED and hit == is_hit(vectors, vector, before):
            entry = CONFIRMED  # of the top label, which this row tells of
        accepted.label[at], accepted.before[at] = outcome, before
    accepted.vector[at] = vector
    write_row(
        accepted.rows,
        at,
        entry,
        known.id_high[row],
        known.id_low[row],
        predicted_ms,
        known.prediction[row],
        time_ms,
        known.stratum[row],
        hit,
    )
    return fate, 1


@njit()
def _write_waiting(
    accepted: Accepted, at: int, entry: int, high: np.uint64, low: np.uint64, time_ms: int, arrival: int, outcome: int
) -> None:
    """Write what becomes of an outcome that waits. The row's ``outcome`` has no room for a class beyond 127."""
    above = outcome if outcome > 1 else -1
    accepted.vector[at] = -1
    write_row(accepted.rows, at, entry, high, low, time_ms, float(arrival), time_ms, above, min(outcome, 1))


@njit()
def apply_events(
    events: Events,
    known: Known,
    vectors: Vectors,
    waiting: Waiting,
    models: Models,
    counts: NDArray[np.int64],
    accepted: Accepted,
) -> int:
    """Join a batch.

    Parameters
    ----------
    counts
        int64, shape (3, FATES), by kind and fate; raised in place. Their outcomes' row, summed up, numbers arrivals.
    vectors
        Has room for the probabilities of all events.
    accepted
        Room for one row an event, two more an outcome that waits or may come to wait, and one to spare.

    Returns
    -------
    int
        Rows written to ``accepted``.
    """
    filed_model, filed_ms = accepted.model, accepted.filed_ms
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
                add_waiting(waiting, high, low, time_ms, arrivals, model, outcome)
                _write_waiting(accepted, written, WAITING, high, low, time_ms, arrivals, outcome)
                filed_model[written], filed_ms[written] = model, time_ms + lateness_ms
                written += 1
                continue
            fate, wrote = _settle(known, vectors, row, time_ms, outcome, horizon_ms, lateness_ms, accepted, written)
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
                fate, wrote = _settle(known, vectors, row, time_ms, outcome, horizon_ms, lateness_ms, accepted, written)
            counts[kind, fate] += 1
            filed_model[written], filed_ms[written] = model, known.time_ms[row]
            written += wrote
            continue
        prediction, stratum = events.prediction[index], events.stratum[index]
        vector: Row = -1
        hit = outcome
        if classes > 0:
            vector = add_vector(vectors, events.probabilities, first, classes)
            hit = is_hit(vectors, vector, outcome)
            accepted.label[written], accepted.before[written] = outcome, -1
        accepted.vector[written] = vector
        row = add_known(known, high, low, time_ms, prediction, time_ms, stratum, vector, outcome)
        write_row(accepted.rows, written, PREDICTED, high, low, time_ms, prediction, time_ms, stratum, hit)
        filed_model[written], filed_ms[written] = model, time_ms
        accepted.event[written] = index
        written += 1
        counts[kind, ACCEPTED] += 1

        link = find(waiting.slots, waiting.id_high, waiting.id_low, high, low)
        if link < 0:
            continue
        remove(waiting.slots, high, low, link)
        while link >= 0:
            early_ms, early = waiting.time_ms[link], waiting.outcome[link]
            _write_waiting(accepted, written, CLAIMED, high, low, early_ms, waiting.arrival[link], early)
            filed_model[written], filed_ms[written] = model, early_ms + lateness_ms
            written += 1
            fate, wrote = _settle(known, vectors, row, early_ms, early, horizon_ms, lateness_ms, accepted, written)
            filed_model[written], filed_ms[written] = model, time_ms
            written += wrote
            counts[_OUTCOME, EARLY] -= 1
            counts[_OUTCOME, fate] += 1
            following = waiting.next[link]
            waiting.outcome[link] = FREE
            give_row(link, waiting.time_ms, waiting.meta)
            link = following
    return written
