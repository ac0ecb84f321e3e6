"""Where the predictions of a simulated model come from: a law, numbers at hand, or the model's own history."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData, OptionError
from monitor.options import Option
from monitor.roots import brentq
from monitor.scores import grid
from monitor.scores.table import check
from monitor.simulation.generator import HOUR_MS, Shape, cell_logits

_HOURS_A_DAY: Final = 24
_QUANTILES: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class DrawnPredictions:
    """Independent predictions at a constant rate: each from the same law.

    Attributes
    ----------
    quantiles
        Cells of the grid of equally probable predictions, ascending, int64.
    per_hour
        Predictions an hour, on average.
    description
        What they are, in a few words.
    """

    quantiles: Ints
    per_hour: float
    description: str

    @classmethod
    def normal(cls, prevalence: float, spread: float, per_hour: float) -> "DrawnPredictions":
        """Predictions with normal logits of this standard deviation, whose mean is the prevalence.

        Raises
        ------
        InputError
            A number is out of its range.
        """
        if not 0.0 < prevalence < 1.0:
            raise OptionError(
                Option.PREVALENCE, f" must be above 0 and below 1, such as 0.05 for 5%, got {prevalence:g}"
            )
        if not 0.0 < spread <= 5.0:
            raise OptionError(Option.SPREAD, f" must be above 0 and at most 5 logits, got {spread:g}")
        _check_rate(per_hour)
        z = spread * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        mean = brentq(lambda mean: float(expit(z + mean).mean()) - prevalence, -60.0, 60.0)
        what = f"predictions with normal logits of standard deviation {spread:g}, {prevalence:.3g} of outcomes positive"
        return cls(grid.locate(expit(z + mean)), per_hour, what)

    @classmethod
    def of(cls, p: ArrayLike, per_hour: float) -> "DrawnPredictions":
        """Predictions that are drawn from these, shape (n,), each in [0, 1].

        Raises
        ------
        InputError
            A prediction is out of its range, or there is none, or none is in doubt.
        """
        values = np.asarray(p, np.float64).ravel()
        if not values.size:
            raise InputError("predictions must hold at least 1 prediction, got 0")
        check(values, (values >= 0.0) & (values <= 1.0), "predictions must be in [0, 1]")
        if not ((values > 0.0) & (values < 1.0)).any():
            raise InputError("predictions must hold some between 0 and 1: those of 0 and 1 admit no doubt")
        _check_rate(per_hour)
        place = ((np.arange(_QUANTILES) + 0.5) / _QUANTILES * values.size).astype(np.int64)
        cells = np.sort(grid.locate(values))[place]
        return cls(cells, per_hour, f"drawn from {values.size:,} predictions")

    def draw(self, begin_ms: int, pane_ms: int, volume: Floats, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw the predictions of consecutive panes; their outcomes are drawn later.

        Parameters
        ----------
        begin_ms
            Where the first pane begins, a whole hour; 0 is midnight.
        pane_ms
            Width of the panes, a divisor of an hour. They end with a whole hour.
        volume
            How many times as many predictions as usual each pane has, shape (panes,).

        Returns
        -------
        int64, shape (panes,), and the cells in the order of the panes, int64.
        """
        del begin_ms  # every hour is like the others
        counts = rng.poisson(self.per_hour * pane_ms / HOUR_MS * volume)
        return counts, self.quantiles[rng.integers(0, self.quantiles.size, int(counts.sum()))]


def _check_rate(per_hour: float) -> None:
    if not 0.0 < per_hour <= 1e7:
        raise OptionError(Option.PER_HOUR, f" must be above 0 and at most 10,000,000, got {per_hour:g}")


class _Hour(NamedTuple):
    """Predictions of one hour of the past: rows of equal ones, int64 each."""

    start_ms: Ints
    """Where the pane of each begins, since the hour began."""
    width_ms: Ints
    """Width of the pane."""
    cell: Ints
    events: Ints


@dataclass(frozen=True, eq=False)
class HistoryPredictions:
    """Whole hours of a model's past, drawn at random, each for the hour of the day that it is of.

    Attributes
    ----------
    quantiles, per_hour, description
        As of :class:`DrawnPredictions`.
    """

    quantiles: Ints
    per_hour: float
    description: str
    _hours: Sequence[Sequence[_Hour]]
    """Predictions by the hour of the day; of the whole day where an hour has none."""

    @classmethod
    def of(cls, start_ms: Ints, width_ms: Ints, cell: Ints, count: Ints) -> "HistoryPredictions":
        """The history of a model: the predictions of its settled panes, whose widths divide an hour.

        The first and the last hour are left out, as they may be incomplete.

        Parameters
        ----------
        start_ms, width_ms
            Of the pane of each row, int64, shape (rows,), in any order.
        cell, count
            Predictions of a cell of the grid, int64, shape (rows,).

        Raises
        ------
        NotEnoughData
            There is no whole hour with a prediction.
        """
        order = np.argsort(start_ms, kind="stable")
        rows = _Hour(*(column[order] for column in (start_ms, width_ms, cell, count)))
        hour = rows.start_ms // HOUR_MS
        numbers = np.arange(hour[0] + 1, hour[-1] + 1) if hour.size else np.zeros(0, np.int64)
        bounds = np.searchsorted(hour, numbers)
        by_hour: list[list[_Hour]] = [[] for _ in range(_HOURS_A_DAY)]
        for number, begin, end in zip(numbers.tolist(), bounds[:-1], bounds[1:], strict=False):
            part = _Hour(*(column[begin:end] for column in rows))
            by_hour[number % _HOURS_A_DAY].append(part._replace(start_ms=part.start_ms - number * HOUR_MS))
        everything = [hour_of for hours in by_hour for hour_of in hours]
        by_cell = sum((np.bincount(one.cell, one.events, grid.cell_count()) for one in everything), np.zeros(1))
        total = int(by_cell.sum())
        if not total:
            raise NotEnoughData("its history needs at least 1 settled prediction with an outcome in whole hours, got 0")
        hours = len(everything)
        quantiles = np.searchsorted(np.cumsum(by_cell), (np.arange(_QUANTILES) + 0.5) / _QUANTILES * total)
        what = f"{hours:,} hours of its history with {total:,} predictions, resampled hour by hour"
        return cls(quantiles, total / hours, what, [hours_of or everything for hours_of in by_hour])

    def draw(self, begin_ms: int, pane_ms: int, volume: Floats, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw the predictions of consecutive panes, as :meth:`DrawnPredictions.draw`. Their volume is as it was."""
        first, panes_an_hour = begin_ms // HOUR_MS, HOUR_MS // pane_ms
        steps, cells = [], []
        for number in range(volume.size // panes_an_hour):
            candidates = self._hours[(first + number) % _HOURS_A_DAY]
            hour = candidates[int(rng.integers(len(candidates)))]
            start_ms, width_ms, cell = (np.repeat(column, hour.events) for column in hour[:3])
            # Anywhere in their pane, which may be wider than a step.
            at = (start_ms + rng.random(cell.size) * width_ms) // pane_ms
            steps.append(number * panes_an_hour + at.astype(np.int64))
            cells.append(cell)
        step = np.concatenate(steps)
        return np.bincount(step, minlength=volume.size), np.concatenate(cells)[np.argsort(step, kind="stable")]


PredictionSource = DrawnPredictions | HistoryPredictions
"""The law that the predictions of a simulated model are drawn from."""


def shape_of(predictions: PredictionSource) -> Shape:
    """Return where the logits of predictions lie."""
    z = np.clip(cell_logits(), -grid.LOGIT_BOUND, grid.LOGIT_BOUND)[predictions.quantiles]
    centre = float(z.mean())
    middle, upper = (float(z[int(share * z.size)]) - centre for share in (0.5, 0.75))
    return Shape(centre, middle, upper)
