"""What each measure would be if the model were calibrated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference.named import NamedMeasure, listed_measures
from monitor.inference.resampling import (
    NULL,
    PAIRS,
    Work,
    coarsen,
    drawn_tables,
    generator,
    outcomes,
    percent_point_95,
    require_draws,
)
from monitor.progress import Progress
from monitor.scores import ScoreTable, grid
from monitor.scores.table import require_table

_ROUNDING: Final = 1e-9
"""A draw that repeats the outcomes may differ from the value in its last bits; it counts as equal."""

_PAIRS: Final = 2
"""Draws of the raw predictions and of their cells that tell what cells do to a measure: the two move together, so that
their difference hardly varies."""


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
    law
        float64, shape (draws,), ascending: the draws themselves, by which other values can be judged.
    """

    mean: float
    q95: float
    p_value: float
    law: NDArray[np.float64] = field(compare=False, repr=False)

    @classmethod
    def of(cls, law: NDArray[np.float64], value: float) -> "NullLevel":
        """The level that draws of a calibrated model's measure make, in any order, and what they say of a value."""
        ascending = np.sort(law)
        return cls(float(law.mean()), percent_point_95(law), _p_value(ascending, value), ascending)

    def p_value_of(self, value: float) -> float:
        """The p-value of another value of the same measure, as after some more events."""
        return _p_value(self.law, value)


def null_level(
    table: ScoreTable,
    measures: Iterable[NamedMeasure],
    *,
    draws: int = 199,
    seed: int | None = None,
    values: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Mapping[str, NullLevel]:
    """Level, 95% point and p-value of each measure under calibration.

    The outcomes of each row are drawn anew, y* ~ Binomial(events, prediction), and every measure is computed of every
    draw. All measures see the same draws. A weighted row is drawn as as many equal events as vary alike.

    A table of more rows than the grid has cells is drawn on the grid, or for TCE on finer rows. What the grid does to
    intCE, say, is then found from a few calibrated draws of the table itself beside those of its cells, and added to
    the level, which so is one of the table's own values.

    Parameters
    ----------
    table
        m rows.
    measures
        Which measures.
    draws
        Number of draws, at least 19; 199 serve a dashboard, 999 an alert. A measure that declares ``max_draws`` sees
        the first so many of them.
    seed
        Seed of the draws; the table's content if left out, so that equal tables have equal levels.
    values
        Each measure of the table by its name, where they are known already.
    progress
        Told the share of the work done, now and then.

    Returns
    -------
    Mapping
        By the measure's name.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small, or the table is weighted and a measure takes no weights.
    """
    require_draws(draws)
    require_table(table, "a null level")
    chosen = listed_measures(measures)
    work = Work(progress, draws * len(chosen))
    laws: dict[str, NDArray[np.float64]] = {}
    for drawn, those in drawn_tables(table, chosen, "a null level"):
        rng = generator(drawn, seed, NULL)
        laws |= laws_of(drawn, drawn.score, those, draws=draws, rng=rng, work=work)
        # A norm moves by far less than it varies, a mean loss too; finer rows were chosen so that this holds.
        if drawn is not table and drawn.rows <= grid.cell_count():
            far = [measure for measure in those if measure.norms is None and measure.losses is None]
            for name, effect in _grid_effects(table, far, generator(drawn, seed, PAIRS)).items():
                laws[name] = laws[name] + effect
    return {
        measure.name: NullLevel.of(laws[measure.name], measure.value(table) if values is None else values[measure.name])
        for measure in chosen
    }


def laws_of(
    table: ScoreTable,
    rate: NDArray[np.float64],
    measures: Sequence[NamedMeasure],
    *,
    draws: int,
    rng: np.random.Generator,
    work: Work,
) -> dict[str, NDArray[np.float64]]:
    """Each measure of drawn outcomes that come true at a rate (m,): by name, (draws,), or of ``max_draws`` of them."""
    parts: dict[str, list[NDArray[np.float64]]] = {measure.name: [] for measure in measures}
    drawn = 0
    expected = table.counts * table.score
    for positives in outcomes(rng, table, rate, draws):
        residual = positives - expected
        for measure in measures:
            left = measure.max_draws - drawn
            if left > 0:
                parts[measure.name].append(of_outcomes(table, measure, positives[:left], residual[:left]))
            work.advance(len(positives))
        drawn += len(positives)
        if all(measure.max_draws <= drawn for measure in measures):
            work.advance(len(measures) * (draws - drawn))
            break
    return {name: np.concatenate(each) for name, each in parts.items()}


def of_outcomes(
    table: ScoreTable,
    measure: NamedMeasure,
    positives: NDArray[np.float64],
    residual: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The measure of each draw of outcomes, all events of a row at its score: positives (draws, m) -> (draws,).

    ``residual``: what they leave of the predictions, (draws, m), where that is known already.
    """
    if measure.norms is not None:
        offset = 0.0 if measure.offset is None else measure.offset(table)
        if residual is None:
            residual = positives - table.counts * table.score
        return measure.norms(table, residual) + offset
    if measure.draws is not None:
        return measure.draws(table, positives)
    return np.array([measure.value(with_outcomes(table, drawn)) for drawn in positives])


def with_outcomes(table: ScoreTable, positives: NDArray[np.float64]) -> ScoreTable:
    """The table's predictions with other outcomes, all events of a row at its score; positives (m,)."""
    counts = table.counts
    negatives = counts - positives
    squares = None
    if table.squares is not None:
        share = np.divide(positives, counts, out=np.zeros(table.rows), where=counts > 0.0)
        squares = table.squares.sum(axis=0) * np.stack([share, 1.0 - share])
    return replace(
        table,
        positives=positives,
        negatives=negatives,
        positive_sum=positives * table.score,
        negative_sum=negatives * table.score,
        squares=squares,
    )


def _grid_effects(table: ScoreTable, measures: Sequence[NamedMeasure], rng: np.random.Generator) -> Mapping[str, float]:
    """By how much a calibrated table's own value lies above that of its cells, by the measure's name."""
    effects = dict.fromkeys((measure.name for measure in measures), 0.0)
    if effects:
        for positives in next(outcomes(rng, table, table.score, _PAIRS)):
            drawn = with_outcomes(table, positives)
            on_cells = coarsen(drawn)
            for measure in measures:
                effects[measure.name] += (measure.value(drawn) - measure.value(on_cells)) / _PAIRS
    return effects


def _p_value(law: NDArray[np.float64], value: float) -> float:
    reached = law.size - int(np.searchsorted(law, value - _ROUNDING * abs(value), side="left"))
    return (1 + reached) / (1 + law.size)
