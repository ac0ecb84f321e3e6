"""Each event that is read meets exactly one fate. Their sum equals the events read."""

from typing import Final

# Type of the event, the first half of a counter's name.
PREDICTION: Final = "prediction"
OUTCOME: Final = "outcome"
LABELLED: Final = "labelled"
UNKNOWN: Final = "unknown"
"""A message that is no valid event."""

# Fates of a prediction.
ACCEPTED: Final = "accepted"
"""Prediction: first of its id, waits for its outcome or met an early one. Labelled: first of its id."""

# Fates of an outcome.
JOINED: Final = "joined"
"""First outcome of its prediction."""
CORRECTED: Final = "corrected"
"""Newer than the outcome known so far, and different: the earlier one is retracted."""
SUPERSEDED: Final = "superseded"
"""Older than the outcome known so far, and different: nothing changes."""
EARLY: Final = "early"
"""Waits for its prediction. The one fate that changes: it becomes another once the prediction is there."""
ORPHAN: Final = "orphan"
"""Waited for a prediction that never came."""
AFTER_HORIZON: Final = "after_horizon"
"""Later after its prediction than the model's horizon."""
BEFORE_PREDICTION: Final = "before_prediction"
"""Dated before its prediction by more than the model's lateness."""

# Fates of any event.
DUPLICATE: Final = "duplicate"
"""Its id is known and it says nothing new."""
LATE: Final = "late"
"""Further out of order in its log than the model's lateness allows."""
REFUSED: Final = "refused"
"""Its model is not declared, or is one too many."""
DEAD_LETTER: Final = "dead_letter"
"""No valid event."""

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
    UNKNOWN: (DEAD_LETTER,),
}
"""Every (type, result) that is counted."""

# Fates of an accepted prediction, once its time has passed. They count predictions, not events read.
ANSWERED: Final = "answered"
"""Left the join with an outcome."""
EXPIRED: Final = "expired_unlabelled"
"""Left the join without an outcome."""
IMPLIED_NEGATIVE: Final = "implied_negative"
"""Left the join without an outcome, which for its model means a negative."""
EVICTED: Final = "evicted"
"""Left the join before its time, because the table was full. An outcome that comes later is an orphan."""
