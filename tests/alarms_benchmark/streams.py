"""Streams of binary predictions with delayed outcomes, calibrated until they change.

Predictions are sigmoid(z) with z normal; an outcome is positive with probability sigmoid of what its scenario makes of
z. A stream comes in parts, from a seed, so that a run may end where all detectors have raised their alarm.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit

from monitor.arrays import Floats, Ints
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.sequential.steps import Steps

EVENTS: Final = 1_000_000
CHANGE_AT: Final = 100_000
"""Events before the change."""

PART: Final = 50_000
EVENTS_PER_HOUR: Final = 8_600
HOUR_MS: Final = 3_600_000
PANE_MS: Final = 60_000
HORIZON_MS: Final = 4 * HOUR_MS
"""A negative outcome comes this long after its prediction, a positive one at a random time before that."""

SPREAD: Final = 1.5
"""Standard deviation of the predictions' logits."""

PREVALENCES: Final = MappingProxyType({"balanced": 0.0, "5%": -3.8446, "1%": -5.6565})
"""Mean logit of the predictions, by the name of the prevalence that it makes."""


@dataclass(frozen=True)
class Scenario:
    """How outcomes, predictions and volume of a stream behave.

    Attributes
    ----------
    slope, offset, bump
        What changes, in logits: ``slope`` about the mean logit of the predictions, ``bump`` between their quartiles 2
        and 3.
    share
        Of the events, drawn at random (a segment), that change.
    ramp
        Events that a change takes.
    change_at
        Events before it; 0 if outcomes are so from the beginning.
    accepted_slope, accepted_offset
        By what the model is miscalibrated all the time.
    moving
        Logits by which predictions move over a day, and their outcomes with them.
    wander
        Standard deviation, in logits, of what is drawn every day and moves predictions and their outcomes.
    season
        Share by which the volume moves over a day.
    jump
        Standard deviation, in logits, of an offset of outcomes alone that is drawn anew every day.
    shock
        The same, of each period of one horizon.
    """

    slope: float = 1.0
    offset: float = 0.0
    bump: float = 0.0
    share: float = 1.0
    ramp: int = 0
    change_at: int = 0
    accepted_slope: float = 1.0
    accepted_offset: float = 0.0
    moving: float = 0.0
    wander: float = 0.0
    season: float = 0.0
    jump: float = 0.0
    shock: float = 0.0


class Part(NamedTuple):
    """Consecutive events of a stream, in order of prediction time."""

    time_ms: Ints
    prediction: Floats
    outcome: Ints
    known_ms: Ints
    """When the outcome comes."""

    def between(self, begin: int, end: int) -> "Part":
        """Events from one to before another."""
        return Part(
            self.time_ms[begin:end], self.prediction[begin:end], self.outcome[begin:end], self.known_ms[begin:end]
        )

    def followed_by(self, other: "Part") -> "Part":
        """These events and others behind them."""
        return Part(
            np.concatenate([self.time_ms, other.time_ms]),
            np.concatenate([self.prediction, other.prediction]),
            np.concatenate([self.outcome, other.outcome]),
            np.concatenate([self.known_ms, other.known_ms]),
        )


def parts(scenario: Scenario, prevalence: str, seed: int, events: int = EVENTS) -> Iterator[Part]:
    """Draw a stream part by part.

    The mean of outcomes under offsets that are drawn (``jump``, ``shock``) is that of the predictions only in logits.
    """
    rng = np.random.default_rng([seed, *prevalence.encode()])
    mean, done, volume = PREVALENCES[prevalence], 0, 0.0
    while done < events:
        n = min(PART, events - done)
        volume_at = volume + np.cumsum(rng.exponential(1.0 / EVENTS_PER_HOUR, n))
        volume = float(volume_at[-1])
        hours = _hours(volume_at, scenario.season)
        z = rng.normal(0.0, SPREAD, n)
        day = hours / 24.0
        moved = scenario.moving * np.sin(2.0 * math.pi * day) + scenario.wander * _drawn(seed, 0, day)
        prediction_logit = mean + z + moved
        changed = np.clip((np.arange(done, done + n) + 1.0 - scenario.change_at) / max(scenario.ramp, 1), 0.0, 1.0)
        changed *= rng.random(n) < scenario.share
        slope = (scenario.slope - 1.0) * scenario.accepted_slope
        shift = scenario.offset + slope * z + scenario.bump * ((z > 0.0) & (z < 0.6745 * SPREAD))
        accepted = scenario.accepted_offset + (scenario.accepted_slope - 1.0) * z
        offset = scenario.jump * _drawn(seed, 1, day) + scenario.shock * _drawn(seed, 2, hours * HOUR_MS / HORIZON_MS)
        outcome = (rng.random(n) < expit(prediction_logit + accepted + changed * shift + offset)).astype(np.int64)
        delay = np.where(outcome == 1, rng.random(n), 1.0) * HORIZON_MS
        time_ms = (hours * HOUR_MS).astype(np.int64)
        yield Part(time_ms, expit(prediction_logit), outcome, time_ms + delay.astype(np.int64))
        done += n


def _hours(volume: Floats, season: float) -> Floats:
    """When so much time's worth of the mean volume has come."""
    end = float(volume[-1]) + 24.0
    hours = np.linspace(0.0, end, int(end * 60.0) + 1)
    return np.interp(volume, hours + season * 12.0 / math.pi * (1.0 - np.cos(math.pi * hours / 12.0)), hours)


def _drawn(seed: int, kind: int, period: Floats) -> Floats:
    """A standard normal number for each whole number of periods."""
    number = period.astype(np.int64)
    first, last = int(number[0]), int(number[-1])
    values = [np.random.default_rng([seed, kind, k]).normal() for k in range(first, last + 1)]
    return np.array(values)[number - first]


class Panes:
    """Add the events of parts up to steps of a minute.

    A pane that may go on in the next part waits for it.
    """

    def __init__(self, pane_ms: int = PANE_MS) -> None:
        self._pane_ms = pane_ms
        self._rest: Part | None = None

    def steps(self, part: Part) -> Steps:
        """Return the steps that this part finishes, those without events included."""
        if self._rest is not None:
            part = self._rest.followed_by(part)
        open_ms = int(part.time_ms[-1]) // self._pane_ms * self._pane_ms
        closed = int(np.searchsorted(part.time_ms, open_ms))
        self._rest = part.between(closed, part.time_ms.size)
        return steps_of(part.between(0, closed), self._pane_ms)


def steps_of(part: Part, pane_ms: int = PANE_MS) -> Steps:
    """Return a step for each pane, from that of the first event to that of the last."""
    time_ms, prediction, outcome, _ = part
    if not time_ms.size:
        return Steps.of([])
    pane, cells = time_ms // pane_ms, grid.cell_count()
    begin, end = int(pane[0]), int(pane[-1]) + 1
    order = np.argsort(prediction)  # the cells of ascending predictions are found sooner
    cell = np.empty(order.size, np.int64)
    cell[order] = grid.locate(prediction[order])
    key, row = np.unique((pane - begin) * cells + cell, return_inverse=True)
    above = grid.to_units(prediction) - grid.anchors()[cell]
    values = np.zeros((key.size, COLUMNS), np.int64)
    for column, positive in ((0, outcome), (1, 1 - outcome)):
        values[:, column] = np.bincount(row, positive, key.size)
        values[:, column + 3] = np.bincount(row, positive * above, key.size)
    return Steps(
        np.arange(begin + 1, end + 1) * pane_ms,
        np.searchsorted(key // cells, np.arange(end - begin + 1)),
        key % cells,
        values,
    )
