"""What each measure would be if the model were calibrated."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.inference.resampling import generator, percent_point_95, resampled
from monitor.kernels.draws import binomial_draws
from monitor.scores import ScoreTable

_ROUNDING: Final = 1e-9
"""A draw that repeats the outcomes may differ from the value in its last bits; it counts as equal."""


class NamedMeasure(Protocol):
    """What resampling needs of a measure."""

    @property
    def name(self) -> str:
        """Its key in a report."""
        ...

    @property
    def value(self) -> Callable[[ScoreTable], float]:
        """The measure of a table."""
        ...

    @property
    def norms(self) -> Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]] | None:
        """(table, residual (draws, m)) -> (draws,), if the measure less its offset is a semi-norm of the residuals."""
        ...

    @property
    def offset(self) -> Callable[[ScoreTable], float] | None:
        """What the measure adds to its semi-norm, from the predictions alone."""
        ...

    @property
    def draws(self) -> Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]] | None:
        """``value`` of many drawn outcomes, positives (draws, m), at once, if there is a faster way than one by one."""
        ...


@dataclass(frozen=True, slots=True)
class NullLevel:
    """A measure's law for a calibrated model that makes these predictions.

    Attributes
    ----------
    mean
        Mean.
    q95
        95% point: the value lies above it just where the p-value is at most .05.
    p_value
        (1 + number of draws that reach the value) / (1 + number of draws): how often a calibrated model does as badly.
    """

    mean: float
    q95: float
    p_value: float


def null_level(
    table: ScoreTable, measures: Iterable[NamedMeasure], *, draws: int = 199, seed: int | None = None
) -> Mapping[str, NullLevel]:
    """Level, 95% point and p-value of each measure under calibration.

    The outcomes of each row are drawn anew, y* ~ Binomial(events, prediction), and every measure is computed of every
    draw. All measures see the same draws. A table of more rows than the grid has cells is put on the grid first, the
    value that is compared with the draws included.

    Parameters
    ----------
    table
        m rows of whole counts.
    measures
        Which measures.
    draws
        Number of draws, at least 19; 199 serve a dashboard, 999 an alert.
    seed
        Seed of the draws; the table's content if left out, so that equal tables have equal levels.

    Returns
    -------
    Mapping
        By the measure's name.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        The table is weighted, or ``draws`` is too small.
    """
    table = resampled(table, "a null level")
    rng = generator(table, draws, seed)
    counts = table.counts
    positives = binomial_draws(rng, counts.astype(np.int64), table.score, draws)
    residual = positives - counts * table.score
    levels = {}
    for measure in measures:
        if measure.norms is not None:
            null = measure.norms(table, residual) + (0.0 if measure.offset is None else measure.offset(table))
        elif measure.draws is not None:
            null = measure.draws(table, positives)
        else:
            null = np.array([measure.value(with_outcomes(table, drawn)) for drawn in positives])
        reached = int((null >= measure.value(table) * (1.0 - _ROUNDING)).sum())
        levels[measure.name] = NullLevel(
            mean=float(null.mean()), q95=percent_point_95(null), p_value=(1 + reached) / (1 + draws)
        )
    return levels


def with_outcomes(table: ScoreTable, positives: NDArray[np.float64]) -> ScoreTable:
    """The table's predictions with other outcomes, all events of a row at its score; positives (m,)."""
    negatives = table.counts - positives
    return replace(
        table,
        positives=positives,
        negatives=negatives,
        positive_sum=positives * table.score,
        negative_sum=negatives * table.score,
    )
