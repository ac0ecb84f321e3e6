"""Simulated streams of predictions whose true probabilities are known."""

import numpy as np
from scipy.special import expit

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.scores.steps import Steps


def steps_of(p: Floats, y: Floats, pane: int, pane_ms: int, start_ms: int = 0) -> Steps:
    """Labelled events in order, so many a pane."""
    cell = grid.locate(p)
    step = np.arange(p.size) // pane
    key, row = np.unique(step * grid.cell_count() + cell, return_inverse=True)
    values = np.zeros((key.size, COLUMNS), np.int64)
    column = np.where(y == 1, 0, 1)
    np.add.at(values, (row, column), 1)
    np.add.at(values, (row, column + 3), grid.to_units(p) - grid.anchors()[cell])
    count = int(step[-1]) + 1
    first = np.searchsorted(key // grid.cell_count(), np.arange(count + 1))
    return Steps(start_ms + np.arange(1, count + 1) * pane_ms, first, key % grid.cell_count(), values)


def logistic(
    rng: np.random.Generator, events: int, slope: float = 1.0, offset: float = 0.0, centre: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions with normal logits of standard deviation 1.5, and outcomes of true logits slope * logit + offset."""
    z = centre + 1.5 * rng.normal(size=events)
    return expit(z), (rng.random(events) < expit(slope * z + offset)).astype(np.float64)
