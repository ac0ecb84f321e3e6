"""The join by prediction id: each event, in log order, against the table of what is known.

The order in which predictions and outcomes are read relative to each other does not matter: an outcome that is read
before its prediction waits, and is settled when the prediction comes as if it had been read right after it.
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from monitor.kernels.hash_index import Row, find, remove
from monitor.kernels.join_tables import (
    ACCEPTED,
    AFTER_HORIZON,
    ANSWERED,
    BEFORE_PREDICTION,
    CLAIMED,
    CONFIRMED,
    CORRECTED,
    CORRECTION,
    DUPLICATE,
    EARLY,
    FREE,
    JOINED,
    LATE,
    NO_OUTCOME,
    PREDICTED,
    REFUSED,
    SUPERSEDED,
    UNANSWERED,
    WAITING,
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

_PREDICTION: Final = 0
_OUTCOME: Final = 1


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
    write_row(
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
                add_waiting(waiting, high, low, time_ms, arrivals, model, outcome)
                write_row(rows, written, WAITING, high, low, time_ms, float(arrivals), time_ms, -1, outcome)
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
        row = add_known(known, high, low, time_ms, prediction, time_ms, stratum, outcome)
        write_row(rows, written, PREDICTED, high, low, time_ms, prediction, time_ms, stratum, outcome)
        filed_model[written], filed_ms[written] = model, time_ms
        written += 1
        counts[kind, ACCEPTED] += 1

        link = find(waiting.slots, waiting.id_high, waiting.id_low, high, low)
        if link < 0:
            continue
        remove(waiting.slots, high, low, link)
        while link >= 0:
            early_ms, early = waiting.time_ms[link], waiting.outcome[link]
            write_row(rows, written, CLAIMED, high, low, early_ms, float(waiting.arrival[link]), early_ms, -1, early)
            filed_model[written], filed_ms[written] = model, early_ms + lateness_ms
            written += 1
            fate, wrote = _settle(known, row, early_ms, early, horizon_ms, lateness_ms, rows, written)
            filed_model[written], filed_ms[written] = model, time_ms
            written += wrote
            counts[_OUTCOME, EARLY] -= 1
            counts[_OUTCOME, fate] += 1
            following = waiting.next[link]
            waiting.outcome[link] = FREE
            give_row(link, waiting.time_ms, waiting.meta)
            link = following
    return written
