"""What figures draw of a table: cells, whatever the number of events, and sums over bins of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.inference import coarsen, null_level
from monitor.measures import MEASURES
from monitor.reports.figures.picture import MeasureRow
from monitor.scores import ScoreTable, grid

Floats = NDArray[np.float64]

DRAWS = 199
"""Resamples behind a band or a level of a figure."""


def drawn(table: ScoreTable) -> ScoreTable:
    """The table, on the cells of the shared grid where it has more rows than that: no figure shows the difference.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if not table.counts.any():
        raise NotEnoughData("a figure needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def judged(rows: Sequence[MeasureRow], name: str) -> MeasureRow | None:
    """The measure of that name among the rows of a report, if it is there with its level."""
    title = MEASURES[name].title
    return next((row for row in rows if row.title == title and row.null_q95 is not None), None)


def smce_row(cells: ScoreTable) -> MeasureRow:
    """SmCE and what chance makes of it, which decides whether a figure's title may speak of a finding."""
    measure = MEASURES["smce"]
    value = measure.value(cells)
    level = null_level(cells, [measure], draws=DRAWS, values={measure.name: value})[measure.name]
    return MeasureRow(measure.title, value, measure.unit, null_mean=level.mean, null_q95=level.q95)


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
