"""What figures are drawn from: score tables on cells, sums over bins, and results by title."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.inference import coarsen, null_level
from monitor.measures import MEASURES
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable, grid

Floats = NDArray[np.float64]
Results = Mapping[str, MeasureResult]
"""Results of a report, by the titles of the measures."""

DRAWS = 199
"""Resamples behind a band or a level of a figure."""


def drawn(table: ScoreTable) -> ScoreTable:
    """Put a large table onto the cells of the shared grid: no figure shows the difference.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if not table.counts.any():
        raise NotEnoughData("a figure needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def judged(results: Results, name: str) -> MeasureResult | None:
    """The result of a measure, if it has a level under calibration."""
    result = results.get(MEASURES[name].title)
    return None if result is None or result.null_q95 is None else result


def smce_result(cells: ScoreTable) -> MeasureResult:
    """SmCE and its level under calibration, which decides whether the title of a figure names a finding."""
    measure = MEASURES["smce"]
    value = measure.value(cells)
    level = null_level(cells, [measure], draws=DRAWS, values={measure.name: value})[measure.name]
    return MeasureResult(value, measure.unit, null_mean=level.mean, null_q95=level.q95)


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with a heading (``title``) and a few sentences on how to read it (``explanation``)."""

    name: str
    title: str
    explanation: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over bins of predictions, closed on the left and open on the right but for the last.

    Attributes
    ----------
    counts, positives, prediction_sum, variance
        float64, shape (bins,): events, positives, sum of p and of p (1 - p).
    """

    counts: Floats
    positives: Floats
    prediction_sum: Floats
    variance: Floats

    @classmethod
    def of(cls, table: ScoreTable, edges: Floats) -> Self:
        """The sums between ``edges``, shape (bins + 1,), ascending from 0 to 1."""
        place = np.searchsorted(edges[1:-1], table.score, side="right")

        def sums(weights: Floats) -> Floats:
            return np.asarray(np.bincount(place, weights, minlength=edges.size - 1), np.float64)

        return cls(
            counts=sums(table.counts),
            positives=sums(table.positives),
            prediction_sum=sums(table.positive_sum + table.negative_sum),
            variance=sums(table.counts * table.score * (1.0 - table.score)),
        )

    @property
    def residual(self) -> Floats:
        """Positives less their expected number, shape (bins,)."""
        return self.positives - self.prediction_sum
