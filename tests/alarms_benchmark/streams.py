"""Streams of binary predictions with delayed outcomes, calibrated until they change.

Predictions are sigmoid(z) with z normal; :mod:`monitor.simulation.generator` draws the outcomes. A stream comes in
parts, from a seed, so that a run may end where all detectors have raised their alarm.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.scores.steps import Steps
from monitor.simulation.generator import (
    HOUR_MS,
    NEGATIVE,
    POSITIVE,
    Arrivals,
    DrawnEvents,
    Generator,
    Law,
    Shape,
    to_steps,
)

EVENTS: Final = 1_000_000
CHANGE_AT: Final = 100_000
"""Events before the change."""

PART: Final = 50_000
EVENTS_PER_HOUR: Final = 8_600
PANE_MS: Final = 60_000
HORIZON_MS: Final = 4 * HOUR_MS

SPREAD: Final = 1.5
"""Standard deviation of the predictions' logits."""

PREVALENCES: Final = MappingProxyType({"balanced": 0.0, "5%": -3.8446, "1%": -5.6565})
"""Mean logit of the predictions, by the name of the prevalence that it makes."""


def parts(law: Law, prevalence: str, seed: int, events: int = EVENTS) -> Iterator[DrawnEvents]:
    """Draw a stream part by part; changes go by the number of the prediction."""
    rng = np.random.default_rng([seed, *prevalence.encode()])
    # Published streams draw a number for the segment of each prediction, also where all change.
    law = replace(law, share=1.0) if law.share is None else law
    shape = Shape(PREVALENCES[prevalence], middle=0.0, upper=0.6745 * SPREAD)
    generator, done, volume = Generator(law, shape, HORIZON_MS, seed, rng), 0, 0.0
    while done < events:
        n = min(PART, events - done)
        volume_at = volume + np.cumsum(rng.exponential(1.0 / EVENTS_PER_HOUR, n))
        volume = float(volume_at[-1])
        time_ms = _hours(volume_at, law.season) * HOUR_MS
        yield generator.label(Arrivals(time_ms, rng.normal(0.0, SPREAD, n), np.arange(done, done + n)))
        done += n


def _hours(volume: Floats, season: float) -> Floats:
    """When so much time's worth of the mean volume has come."""
    end = float(volume[-1]) + 24.0
    hours = np.linspace(0.0, end, int(end * 60.0) + 1)
    return np.interp(volume, hours + season * 12.0 / math.pi * (1.0 - np.cos(math.pi * hours / 12.0)), hours)


def followed_by(part: DrawnEvents, other: DrawnEvents) -> DrawnEvents:
    """Events and others behind them."""
    return DrawnEvents(
        np.concatenate([part.time_ms, other.time_ms]),
        np.concatenate([part.prediction, other.prediction]),
        np.concatenate([part.outcome, other.outcome]),
        np.concatenate([part.known_ms, other.known_ms]),
        np.concatenate([part.changing, other.changing]),
    )


class Panes:
    """Add the events of parts up to steps of a minute.

    A pane that may go on in the next part waits for it.
    """

    def __init__(self, pane_ms: int = PANE_MS) -> None:
        self._pane_ms = pane_ms
        self._rest: DrawnEvents | None = None

    def steps(self, part: DrawnEvents) -> Steps:
        """Return the steps that this part finishes, those without events included."""
        if self._rest is not None:
            part = followed_by(self._rest, part)
        open_ms = int(part.time_ms[-1]) // self._pane_ms * self._pane_ms
        closed = int(np.searchsorted(part.time_ms, open_ms))
        self._rest = part.take(slice(closed, None))
        done = part.take(slice(closed))
        return steps_of(done.time_ms, done.prediction, done.outcome, self._pane_ms)


def steps_of(time_ms: Ints, prediction: Floats, outcome: Ints, pane_ms: int = PANE_MS) -> Steps:
    """Return a step for each pane, from that of the first event to that of the last."""
    if not time_ms.size:
        return Steps.of([])
    pane = time_ms // pane_ms
    end_ms = np.arange(pane[0] + 1, pane[-1] + 2) * pane_ms
    return to_steps(pane - pane[0], end_ms, np.where(outcome == 1, POSITIVE, NEGATIVE), prediction)
