"""The predictions of one model in one step of simulated time, and everything that follows from them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.demo.models import Regime

HORIZON_MS: Final = 600_000
"""How long an outcome counts. Outcomes that arrive at all arrive within it, but for a few that are too late."""

LATENESS_MS: Final = 300_000
"""No event reaches the log later than this after its time."""

REGIONS: Final = ("eu", "us", "apac")

_STRAGGLERS: Final = 0.02
"""Share of predictions that reach the log up to three minutes late: some of them after their outcome."""
_STRAGGLE_MS: Final = 180_000.0
_NEVER: Final = 0.04
_TOO_LATE: Final = 0.01
_CORRECTED: Final = 0.01
_TWICE: Final = 0.01

Times = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cohort:
    """Columns, one row a prediction. Times are milliseconds since the epoch, simulated.

    Attributes
    ----------
    time_ms, prediction, region
        Of the prediction; int64, float64, and int8 index into REGIONS.
    logged_ms
        When it reaches the log.
    outcome, outcome_ms, outcome_logged_ms
        The truth, when it is known, and when that reaches the log.
    answered
        Whether it ever reaches the log.
    corrected
        Whether the outcome is first reported wrongly; the truth then follows at ``corrected_ms``.
    prediction_twice, outcome_twice
        Whether the message is sent a second time.
    features
        float32, shape (n, D): what the prediction carries; D is 0 where that is nothing.
    """

    time_ms: Times
    prediction: NDArray[np.float64]
    region: NDArray[np.int8]
    logged_ms: Times
    outcome: NDArray[np.int8]
    outcome_ms: Times
    outcome_logged_ms: Times
    answered: Flags
    corrected: Flags
    corrected_ms: Times
    prediction_twice: Flags
    outcome_twice: Flags
    features: NDArray[np.float32]


def draw_cohort(regime: Regime, start_ms: int, length_ms: int, rate: float, rng: np.random.Generator) -> Cohort:
    """The predictions that a model makes in [start, start + length).

    Whether, how and how late an outcome is reported may depend on the outcome only so far as it is reported within the
    horizon in any case: so a mature window sees an unbiased sample, and one that is not mature does not.

    Parameters
    ----------
    rate
        Predictions a simulated second, on average.
    """
    count = int(rng.poisson(rate * length_ms / 1000))
    prediction, outcome, features = regime.draw(count, rng)
    time_ms = np.sort(rng.integers(start_ms, start_ms + length_ms, count))

    # Positives are noticed early, negatives mostly by the time that has passed.
    share = np.where(outcome == 1, rng.beta(1.2, 5.0, count), rng.beta(3.0, 2.5, count))
    too_late = rng.random(count) < _TOO_LATE
    delay = np.where(too_late, HORIZON_MS * (1.05 + 0.3 * rng.random(count)), 0.95 * HORIZON_MS * share)
    outcome_ms = time_ms + delay.astype(np.int64)

    corrected = (rng.random(count) < _CORRECTED) & ~too_late
    left_ms = np.maximum(time_ms + 0.99 * HORIZON_MS - outcome_ms, 0.0)
    corrected_ms = outcome_ms + 1 + (left_ms * rng.random(count)).astype(np.int64)

    straggling = np.where(rng.random(count) < _STRAGGLERS, _STRAGGLE_MS * rng.random(count), 0.0)
    return Cohort(
        time_ms=time_ms,
        prediction=prediction,
        region=rng.choice(len(REGIONS), count, p=(0.5, 0.3, 0.2)).astype(np.int8),
        logged_ms=time_ms + _transport(count, rng) + straggling.astype(np.int64),
        outcome=outcome,
        outcome_ms=outcome_ms,
        outcome_logged_ms=outcome_ms + _transport(count, rng),
        answered=rng.random(count) >= _NEVER,
        corrected=corrected,
        corrected_ms=corrected_ms,
        prediction_twice=rng.random(count) < _TWICE,
        outcome_twice=rng.random(count) < _TWICE,
        features=features,
    )


def _transport(count: int, rng: np.random.Generator) -> Times:
    """Milliseconds from a message's making to the log, shape (count,)."""
    return np.minimum(rng.exponential(800.0, count), 20_000.0).astype(np.int64)
