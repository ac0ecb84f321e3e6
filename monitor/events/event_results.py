"""Names of the results of events. Each event that is read has exactly one, so their sum is the events read."""

from typing import Final

# Types of events.
PREDICTION: Final = "prediction"
OUTCOME: Final = "outcome"
LABELLED: Final = "labelled"
UNKNOWN: Final = "unknown"
"""A message that is not an event."""

# Results of a prediction.
ACCEPTED: Final = "accepted"
"""Prediction: first of its id, waits for its outcome or met an early one. Labelled: first of its id."""

# Results of an outcome.
JOINED: Final = "joined"
"""First outcome of its prediction."""
CORRECTED: Final = "corrected"
"""Newer than the outcome known so far, and different: the earlier one is retracted."""
SUPERSEDED: Final = "superseded"
"""Older than the outcome known so far, and different: nothing changes."""
EARLY: Final = "early"
"""Waits for its prediction. The only result that changes: it becomes another once the prediction is read."""
ORPHAN: Final = "orphan"
"""Waited for a prediction that never came."""
AFTER_HORIZON: Final = "after_horizon"
"""Later than its prediction by more than the model's horizon."""
BEFORE_PREDICTION: Final = "before_prediction"
"""Dated before its prediction by more than the model's lateness."""

# Results of any event.
DUPLICATE: Final = "duplicate"
"""Its id is in the join and it changes nothing."""
LATE: Final = "late"
"""Further out of order in its log than the model's lateness allows."""
REFUSED: Final = "refused"
"""Its model is not declared, or exceeds the limit of models."""
DEAD_LETTER: Final = "dead_letter"
"""Not a valid event."""
TOMBSTONE: Final = "tombstone"
"""Has no value, on a topic whose tombstones are ignored."""

RESULTS: Final = {
    PREDICTION: (ACCEPTED, DUPLICATE, LATE, REFUSED),
    OUTCOME: (
        JOINED,
        CORRECTED,
        SUPERSEDED,
        DUPLICATE,
        EARLY,
        ORPHAN,
        AFTER_HORIZON,
        BEFORE_PREDICTION,
        LATE,
        REFUSED,
    ),
    LABELLED: (ACCEPTED, CORRECTED, SUPERSEDED, DUPLICATE, LATE, REFUSED, JOINED, AFTER_HORIZON, BEFORE_PREDICTION),
    UNKNOWN: (DEAD_LETTER, TOMBSTONE),
}
"""Every (type, result) that is counted."""

# How accepted predictions left the join. These count predictions, not events read.
ANSWERED: Final = "answered"
"""Left the join with an outcome."""
EXPIRED: Final = "expired_unlabelled"
"""Left the join without an outcome."""
IMPLIED_NEGATIVE: Final = "implied_negative"
"""Left the join without an outcome, which counts as a negative for its model."""
EVICTED: Final = "evicted"
"""Left the join early, because the table was full. An outcome that comes later is an orphan."""

DEPARTURES: Final = (ANSWERED, EXPIRED, IMPLIED_NEGATIVE, EVICTED)
