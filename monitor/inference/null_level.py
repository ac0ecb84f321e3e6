"""Null levels: the law of each measure if the model were calibrated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.inference.resampling import (
    NULL,
    PAIRS,
    Work,
    drawn_tables,
    generator,
    listed_measures,
    outcomes,
    percent_point_95,
    require_draws,
    resampled_p_value,
)
from monitor.measures.base import MeanLoss, Measure, SemiNorm
from monitor.progress import Progress
from monitor.scores import ScoreTable
from monitor.scores.table import require_table

_PAIRS: Final = 2
"""Draws for the effect of fewer rows on a measure, as the difference to that of the table itself: the two move
together, and the difference varies by a tenth of what the measure does."""


@dataclass(frozen=True, slots=True)
class NullLevel:
    """A measure's law for a calibrated model with these predictions.

    Attributes
    ----------
    mean
        Mean.
    q95
        95% point: the value lies above it if and only if the p-value is at most .05.
    p_value
        (1 + number of draws that reach the value) / (1 + number of draws): how often a calibrated model does as badly.
    law
        float64, shape (draws,), ascending: the draws, for p-values of other values.
    """

    mean: float
    q95: float
    p_value: float
    law: Floats = field(compare=False, repr=False)

    @classmethod
    def of(cls, law: Floats, value: float) -> "NullLevel":
        """The null level from draws in any order, with the p-value of a value."""
        return cls(float(law.mean()), percent_point_95(law), resampled_p_value(law, value), np.sort(law))

    def p_value_of(self, value: float) -> float:
        """The p-value of another value of the same measure, for example after more events."""
        return resampled_p_value(self.law, value)


def null_level(
    table: ScoreTable,
    measures: Iterable[Measure],
    *,
    draws: int = 199,
    seed: int | None = None,
    values: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Mapping[str, NullLevel]:
    """Level, 95% point and p-value of each measure under calibration.

    The outcomes of each row are drawn, y* ~ Binomial(events, prediction), and every measure is computed for every draw;
    all measures use the same draws. A weighted row is drawn as the number of equal events with the same variance.

    A table of more rows than the grid has cells is drawn on the grid, or for TCE on finer rows; one of cells on fewer
    rows. The effect of that, on intCE for example, is then estimated from a few calibrated draws of the table itself
    and of its sums, and added to the level, so that it is comparable with the table's own value.

    Parameters
    ----------
    table
        m rows.
    measures
        Which measures.
    draws
        Number of draws, at least 19; 199 are enough for a dashboard, 999 for an alert. A measure uses the first
        ``max_draws`` of them.
    seed
        Seed of the draws; the table's content if left out, so that equal tables have equal levels.
    values
        The value of each measure by its name, if already computed.
    progress
        Called with the share of the work done.

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
    laws: dict[str, Floats] = {}
    for drawn, subset in drawn_tables(table, chosen, "a null level"):
        rng = generator(drawn, seed, NULL)
        laws |= laws_of(drawn, drawn.score, subset, draws=draws, rng=rng, work=work)
        # Cells move a norm or a mean loss by far less than it varies, and finer rows are chosen so that this holds.
        if drawn is not table:
            far = [
                measure
                for measure in subset
                if not isinstance(measure, SemiNorm | MeanLoss) and measure.drawn_rows is None
            ]
            for name, effect in _row_effects(table, drawn, far, generator(drawn, seed, PAIRS)).items():
                laws[name] = laws[name] + effect
    return {
        measure.name: NullLevel.of(laws[measure.name], measure.value(table) if values is None else values[measure.name])
        for measure in chosen
    }


def laws_of(
    table: ScoreTable, rate: Floats, measures: Sequence[Measure], *, draws: int, rng: np.random.Generator, work: Work
) -> dict[str, Floats]:
    """Draws of each measure by name, (draws,) or (max_draws,), with outcomes drawn at a rate (m,)."""
    parts: dict[str, list[Floats]] = {measure.name: [] for measure in measures}
    drawn = 0
    expected = table.counts * table.score
    for positives in outcomes(rng, table, rate, draws):
        # The residuals are the same for all semi-norms.
        residual = positives - expected if any(isinstance(measure, SemiNorm) for measure in measures) else positives
        for measure in measures:
            left = measure.max_draws - drawn
            if left > 0:
                parts[measure.name].append(
                    measure.norms(table, residual[:left]) + measure.smallest(table)
                    if isinstance(measure, SemiNorm)
                    else measure.of_outcomes(table, positives[:left])
                )
            work.advance(len(positives))
        drawn += len(positives)
        if all(measure.max_draws <= drawn for measure in measures):
            work.advance(len(measures) * (draws - drawn))
            break
    return {name: np.concatenate(chunks) for name, chunks in parts.items()}


def _row_effects(
    table: ScoreTable, drawn: ScoreTable, measures: Sequence[Measure], rng: np.random.Generator
) -> Mapping[str, float]:
    """Mean difference of a measure, by its name, between a calibrated table and its sums in fewer rows."""
    if not measures:
        return {}
    positives = next(outcomes(rng, table, table.score, _PAIRS))
    summed = np.add.reduceat(positives, np.searchsorted(table.lower, drawn.lower), axis=1)
    return {
        measure.name: float((measure.of_outcomes(table, positives) - measure.of_outcomes(drawn, summed)).mean())
        for measure in measures
    }
