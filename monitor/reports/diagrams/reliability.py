"""Reliability: what came true against what was predicted, in bins and as a curve, beside where chance puts both.

And the witness of smCE, which says where the model is too low and where it is too high.
"""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

import numpy as np
from scipy.special import bdtr, bdtrik, ndtri

from monitor.arrays import Floats
from monitor.errors import NotEnoughData
from monitor.inference import coarsen, null_level
from monitor.inference.resampling import outcomes
from monitor.measures import MEASURES
from monitor.measures.proper_scores import corp_curve
from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.evaluation.places import centred_witness
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable, grid
from monitor.scores.table import effective_number, gather_rows

BINS: Final = 10
COLUMNS: Final = 40
DRAWS: Final = 199
"""Resamples behind a band or a level of a diagram."""
MAX_POINTS: Final = 128
"""Points of a curve: the eye sees no more, and their numbers are most of a document."""
_SEED: Final = 0
_NORMAL_975: Final = float(ndtri(0.975))


def on_cells(table: ScoreTable) -> ScoreTable:
    """Put a large table onto the cells of the shared grid: no diagram shows the difference.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    if not table.counts.any():
        raise NotEnoughData("a figure needs at least 1 event, got 0")
    return coarsen(table) if table.rows > grid.cell_count() else table


def on_points(cells: ScoreTable) -> ScoreTable:
    """Merge neighbouring rows to at most ``MAX_POINTS``, of about equal weight and distance in log odds.

    By weight alone, the few predictions at the ends would be one point, and they fill most of an axis in log odds.
    Residuals stay exact. The table itself is returned if it has no more rows.
    """
    if cells.rows <= MAX_POINTS:
        return cells
    held = cells.counts > 0.0
    counts = cells.counts[held]
    axis = ProbabilityAxis.in_log_odds(cells)
    first, last = axis.limits
    # Each part of the sum is at most 1, and the first is below.
    share = (np.cumsum(counts) - counts / 2.0) / cells.total
    place = (axis.place(cells.score[held]) - first) / (last - first)
    return gather_rows(cells, np.floor((share + place) * (MAX_POINTS / 2.0)), held=held)


class RateRange(NamedTuple):
    """Lower and upper ends, shape (bins,) each."""

    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over bins of predictions, closed on the left and open on the right but for the last.

    Attributes
    ----------
    lower, upper
        float64, shape (bins,): edges of the bins.
    counts, positives, prediction_sum, squares, variance
        float64, shape (bins,): events, positives, sum of p, sum of squared weights, and the variance of the positives
        of a calibrated model.
    """

    lower: Floats
    upper: Floats
    counts: Floats
    positives: Floats
    prediction_sum: Floats
    squares: Floats
    variance: Floats

    @classmethod
    def of(cls, table: ScoreTable, edges: Floats) -> Self:
        """Sum up between ``edges``, shape (bins + 1,), ascending from 0 to 1."""
        place = np.searchsorted(edges[1:-1], table.score, side="right")
        columns = (
            table.counts,
            table.positives,
            table.positive_sum + table.negative_sum,
            table.event_squares,
            table.residual_variance,
        )
        sums = (np.bincount(place, column, minlength=edges.size - 1).astype(np.float64) for column in columns)
        return cls(edges[:-1], edges[1:], *sums)

    def filled(self) -> Self:
        """The bins that hold events."""
        return type(self)(*(getattr(self, field.name)[self.counts > 0.0] for field in fields(self)))

    @property
    def predicted(self) -> Floats:
        """Mean prediction, of bins with events."""
        return self.prediction_sum / self.counts

    @property
    def rate(self) -> Floats:
        """How often it came true, of bins with events."""
        return self.positives / self.counts

    @property
    def residual(self) -> Floats:
        """Positives less their expected number, shape (bins,)."""
        return self.positives - self.prediction_sum

    def interval(self) -> RateRange:
        """95% interval (Wilson's) of how often it comes true, of bins with events.

        Weights count as the equal ones that are worth as much.
        """
        rate, z = self.rate, _NORMAL_975
        n = effective_number(self.counts, self.squares)
        middle = (rate + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
        width = z / (1.0 + z**2 / n) * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2))
        # Rounding must not move an end of [0, 1] past a rate that is there.
        return RateRange(np.clip(middle - width, 0.0, rate), np.clip(middle + width, rate, 1.0))

    def chance(self) -> RateRange:
        """The rates that at least 95% of calibrated models show, of bins with events: quantiles of a binomial."""
        n = np.maximum(np.floor(effective_number(self.counts, self.squares) * (1.0 + 1e-9)), 1.0)
        return RateRange(*(_quantile(share, n, self.predicted) / n for share in (0.025, 0.975)))


def _quantile(share: float, n: Floats, p: Floats) -> Floats:
    """The smallest k with P(X <= k) >= share, X ~ Binomial(n, p)."""
    certain = (p <= 0.0) | (p >= 1.0)
    inner = np.where(certain, 0.5, p)
    k = np.clip(np.ceil(bdtrik(share, n, inner)), 0.0, n)
    # The inverse is continuous, and may have been rounded up.
    k = np.where((k > 0.0) & (bdtr(k - 1.0, n.astype(np.int64), inner) >= share), k - 1.0, k)
    return np.where(certain, np.rint(n * p), k)


class Curve(NamedTuple):
    """The CORP curve and its consistency band. Each array has shape (points,), points <= 128.

    The bands hold 95% of the curves of calibrated models at each point.
    """

    prediction: Floats
    """Ascending."""
    counts: Floats
    rate: Floats
    """The best estimate of how often it comes true that does not fall: isotonic regression of the outcomes."""
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, cells: ScoreTable) -> Self:
        """The curve of a table with events.

        Notes
        -----
        Source: Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021:
        isotonic regression of the outcomes, with consistency bands by resampling outcomes from the predictions, here
        199 times.
        """
        points = on_points(cells)
        rng = np.random.default_rng(_SEED)
        drawn_positives = np.concatenate([*outcomes(rng, points, points.score, DRAWS)])
        curves = np.sort([corp_curve(points.with_outcomes(positives)) for positives in drawn_positives], axis=0)
        tail = round(0.025 * (DRAWS + 1)) - 1
        return cls(points.score, points.counts, corp_curve(points), curves[tail], curves[-1 - tail])


class HistogramColumns(NamedTuple):
    """Predictions in columns of one width on an axis, shape (columns,) each; those beyond it are in the outermost."""

    centre: Floats
    """Coordinates on the axis."""
    width: Floats
    positives: Floats
    negatives: Floats
    expected: Floats
    """Sum of the predictions: the positives of a calibrated model, on average."""
    chance: Floats
    """Largest difference of the rates from it in 95% of calibrated models."""

    @classmethod
    def of(cls, cells: ScoreTable, axis: ProbabilityAxis, columns: int) -> Self:
        """Sum up the predictions of a table."""
        edges = axis.columns(columns)
        place = axis.place(cells.score)
        weights = (cells.positives, cells.negatives, cells.positive_sum + cells.negative_sum, cells.residual_variance)
        positives, negatives, expected, variance = (
            np.histogram(place, edges, weights=column)[0].astype(np.float64) for column in weights
        )
        chance = _NORMAL_975 * np.sqrt(variance)
        return cls(0.5 * (edges[1:] + edges[:-1]), np.diff(edges), positives, negatives, expected, chance)

    @property
    def counts(self) -> Floats:
        """Predictions, shape (columns,)."""
        return self.positives + self.negatives

    @property
    def surplus(self) -> Floats:
        """Positives beyond what was predicted, shape (columns,)."""
        return self.positives - self.expected


class Witness(NamedTuple):
    """The centred witness; shape (points,) each, points <= 128."""

    prediction: Floats
    """Ascending."""
    value: Floats
    """Above 0 where the model says too little, below where it says too much."""

    @classmethod
    def of(cls, cells: ScoreTable) -> Self:
        """The witness of a table with events."""
        at = on_points(cells).score
        return cls(at, np.interp(at, cells.score, centred_witness(cells)))


def smce_result(cells: ScoreTable) -> MeasureResult:
    """Measure smCE with its level under calibration, which decides whether the title of a figure names a fault."""
    measure = MEASURES["smce"]
    value = measure.value(cells)
    levels = null_level(cells, [measure], draws=DRAWS, values={measure.name: value})
    return MeasureResult(value, measure.unit).with_level(levels[measure.name])
