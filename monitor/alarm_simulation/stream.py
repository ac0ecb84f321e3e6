"""The settled predictions of one simulated model, under a scenario."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit

from monitor.alarm_simulation.predictions import (
    HOUR_MS,
    PredictionSource,
    cell_logits,
    cell_middles,
    quantile_logits,
)
from monitor.alarm_simulation.scenarios import OUTAGE_DAYS, RAMP_DAYS, SEGMENT_SHARE, Scenario
from monitor.alarm_simulation.stream_loops import NEGATIVE, UNLABELLED, count_keys, draw_labels
from monitor.arrays import Floats, Ints
from monitor.events.model import ALL
from monitor.scores import grid
from monitor.sequential.steps import Steps

DAY_MS: Final = 24 * HOUR_MS
CONCERNED: Final = "segment=changed"
OTHERS: Final = "segment=others"

_NONE: Final = np.zeros(0)


class Course(NamedTuple):
    """When things happen to a simulated model."""

    change_ms: int
    """When the scenario begins."""
    end_ms: int
    pane_ms: int
    """Width of steps, a divisor of an hour."""
    horizon_ms: int
    """Of outcomes; shocks last as long."""
    implied_negative: bool
    """Whether a missing label counts as negative."""


class SimulatedStream:
    """Draws the steps of a model, in order of time.

    Parameters
    ----------
    predictions
        Where they come from.
    scenario
        What happens, from the change on.
    course
        When.
    seed
        Equal seeds give equal steps.
    """

    def __init__(self, predictions: PredictionSource, scenario: Scenario, course: Course, seed: int) -> None:
        self._predictions = predictions
        self._scenario = scenario
        self._course = course
        self._rng = np.random.default_rng([seed, *scenario.name.encode()])
        self._to_ms = 0
        self._shift = _shift(predictions, scenario)
        periods = course.end_ms // course.horizon_ms + 1
        spread = scenario.size if scenario.name == "shocks" else 0.0
        self._shocks = spread * self._rng.standard_normal(periods)

    @property
    def to_ms(self) -> int:
        """Up to when steps were drawn."""
        return self._to_ms

    def draw(self, hours: int) -> Mapping[str, Steps]:
        """Draw the steps of some hours, but no further than to the change or to the end: segment -> steps."""
        course, name, size, rng = self._course, self._scenario.name, self._scenario.size, self._rng
        begin_ms = self._to_ms
        changed = begin_ms >= course.change_ms
        self._to_ms = min(begin_ms + hours * HOUR_MS, course.end_ms if changed else course.change_ms)
        start_ms = np.arange(begin_ms, self._to_ms, course.pane_ms)
        volume = np.ones(start_ms.size)
        season = np.sin(2.0 * math.pi * start_ms / DAY_MS) if name == "seasonality" else None
        if season is not None:
            volume += 0.5 * season
        counts, cell = self._predictions.draw(begin_ms, course.pane_ms, volume, rng)
        if season is not None:
            cell = grid.locate(expit(cell_logits()[cell] + np.repeat(size * season, counts)))
        if changed and name == "prevalence":
            counts, cell = self._with_more_positives(counts, cell)
        share = np.full(start_ms.size, float(changed))
        if name == "ramp":
            share = np.clip((start_ms - course.change_ms) / (RAMP_DAYS * DAY_MS), 0.0, 1.0)
        missing = self._missing(start_ms) if changed else np.zeros(start_ms.size)
        concerned = (rng.random(cell.size) < SEGMENT_SHARE).astype(np.float64) if name == "segment" else _NONE
        key = draw_labels(
            counts,
            cell,
            cell_logits(),
            self._shift,
            share,
            self._shocks[start_ms // course.horizon_ms],
            missing,
            NEGATIVE if course.implied_negative else UNLABELLED,
            concerned,
            rng.random(cell.size),
            rng.random(cell.size) if missing.any() else _NONE,
        )
        end_ms = start_ms + course.pane_ms
        series = {ALL: key}
        if concerned.size:
            series |= {CONCERNED: key[concerned > 0.0], OTHERS: key[concerned == 0.0]}
        return {segment: _steps(of_segment, end_ms) for segment, of_segment in series.items()}

    def _with_more_positives(self, counts: Ints, cell: Ints) -> tuple[Ints, Ints]:
        """Draw predictions again as they are where the odds of a positive are higher (a label shift)."""
        quantiles, odds = self._predictions.quantiles, self._scenario.size
        p, before = cell_middles(), float(cell_middles()[quantiles].mean())
        after = odds * before / (1.0 - before + odds * before)
        weight = after / before * p + (1.0 - after) / (1.0 - before) * (1.0 - p)
        times = self._rng.poisson(weight[cell])
        pane = np.repeat(np.repeat(np.arange(counts.size), counts), times)
        return np.bincount(pane, minlength=counts.size), np.repeat(cell, times)

    def _missing(self, start_ms: Ints) -> Floats:
        """The probability of each pane that a label is missing."""
        if self._scenario.name == "delayed":
            return np.full(start_ms.size, self._scenario.size)
        if self._scenario.name == "outage":
            since_ms = (start_ms - self._course.change_ms) % (OUTAGE_DAYS * DAY_MS)
            return (since_ms < self._scenario.size * HOUR_MS).astype(np.float64)
        return np.zeros(start_ms.size)


def _shift(predictions: PredictionSource, scenario: Scenario) -> Floats:
    """By how much the true logits of each cell differ once everything has changed, shape (cells,)."""
    name, size, z = scenario.name, scenario.size, cell_logits()
    if name in {"slope", "ramp"}:
        # Predictions of 0 and 1 stay certain.
        centre = float(np.clip(z, -grid.LOGIT_BOUND, grid.LOGIT_BOUND)[predictions.quantiles].mean())
        return np.where(np.abs(z) < 2.0 * grid.LOGIT_BOUND, (size - 1.0) * (z - centre), 0.0)
    if name in {"offset", "segment"}:
        return np.full_like(z, size)
    if name == "prevalence":
        return np.full_like(z, math.log(size))
    if name == "bump":
        middle, upper = quantile_logits(predictions.quantiles, (0.5, 0.75))
        return np.where((z >= middle) & (z <= upper), size, 0.0)
    return np.zeros_like(z)


def _steps(key: Ints, end_ms: Ints) -> Steps:
    first, cell, values = count_keys(np.sort(key), end_ms.size, _above_anchor())
    return Steps(end_ms, first, cell, values)


def _above_anchor() -> Ints:
    return (cell_middles() * grid.UNITS).astype(np.int64) - grid.anchors()
