"""Measure a score table, with intervals and levels under calibration, or say why that is not possible."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Final, NamedTuple

from monitor.errors import NotEnoughData, SettingsError
from monitor.inference import NullLevel, intervals, null_level
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import MeanLoss, Measure
from monitor.progress import Progress, no_progress
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, ScoreResult, performance
from monitor.scores import ScoreTable
from monitor.scores.table import effective_number

WINDOW_DRAWS: Final = 199
"""Resamples for windows, which are renewed continually: enough for p-values down to .005."""

DRAWS: Final = 999
"""Resamples for files and data in memory: p-values down to .001."""

_LEVELS_SHARE: Final = 0.6
"""Share of levels in the time that levels and intervals take."""


class Uncertainty(NamedTuple):
    """The uncertainty of one measure of one table, in a form that later values can reuse.

    The interval is kept as its distances from the value: when new events change the value, the interval shifts with it,
    and the p-value follows from the same draws. Results of resampling are None where nothing was drawn.
    """

    error_bound: float
    """How far the value can lie from that of the raw predictions; for some measures an estimate."""
    below: float | None = None
    """Distance from the 95% interval's lower end to the value."""
    above: float | None = None
    """Distance from the value to the upper end."""
    level: NullLevel | None = None
    largest: float = inf
    """The largest possible value on these predictions."""

    def add_to(self, result: MeasureResult) -> MeasureResult:
        """Add this uncertainty to the result of a measure."""
        return replace(
            result.with_level(self.level),
            lower=None if self.below is None else max(0.0, result.value - self.below),
            upper=None if self.above is None else min(self.largest, result.value + self.above),
            error_bound=self.error_bound,
        )


def uncertainty(
    table: ScoreTable,
    measures: Mapping[str, Measure],
    values: Mapping[str, float],
    *,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress = no_progress,
) -> Mapping[str, Uncertainty]:
    """Error bounds, intervals and levels under calibration.

    Parameters
    ----------
    table
        m rows. Intervals and levels are drawn on its cells where it has more rows than the grid.
    measures
        Measures by name.
    values
        Each measure of the table, by the same names.
    draws
        Number of resamples: 0, or at least 19.
    seed
        Seed of the draws; the table's content if left out.
    progress
        Called with the share of the work done.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small.
    """
    bounds = {name: measure.error_bound(table, values[name]) for name, measure in measures.items()}
    if draws == 0:
        return {name: Uncertainty(bound) for name, bound in bounds.items()}
    by_name = {measure.name: values[name] for name, measure in measures.items()}
    first = partial(null_level, progress=lambda share: progress(_LEVELS_SHARE * share))
    then = partial(intervals, progress=lambda share: progress(_LEVELS_SHARE + (1.0 - _LEVELS_SHARE) * share))
    levels = first(table, measures.values(), draws=draws, seed=seed, values=by_name)
    ends = then(table, measures.values(), draws=draws, seed=seed, values=by_name, levels=levels)
    return {
        name: Uncertainty(
            bounds[name],
            values[name] - ends[measure.name].lower,
            ends[measure.name].upper - values[name],
            levels[measure.name],
            measure.largest(table),
        )
        for name, measure in measures.items()
    }


_ROUNDING: Final = 1e-9
"""Relative rounding error of the worth of equal weights."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """How much data a report needs, because numbers from a few outcomes mislead.

    Attributes
    ----------
    events
        Predictions with an outcome, at least 1.
    positives, negatives
        Those of them with outcome 1, and 0.

    Weighted events count as many as the equal ones they are worth: (sum w)^2 / sum w^2.
    """

    events: int = 100
    positives: int = 5
    negatives: int = 5

    def __post_init__(self) -> None:
        for name, value, limit in (
            ("events", self.events, 1),
            ("positives", self.positives, 0),
            ("negatives", self.negatives, 0),
        ):
            if value < limit:
                raise SettingsError(f"minimum {name} must be at least {limit}, got {value}")

    def shortfall(self, table: ScoreTable) -> str | None:
        """Say what is missing, or return None."""
        if table.weighted:
            return self._weighted_shortfall(table)
        positives, negatives = table.positives.sum(), table.negatives.sum()
        if table.total < self.events:
            return self.shortfall_of_events(table.total)
        for name, value, limit in (("positives", positives, self.positives), ("negatives", negatives, self.negatives)):
            if value < limit:
                counted = f"only {value:g} {name}" if value else f"no {name}"
                return f"{counted.removesuffix('s') if value == 1 else counted}: at least {limit} are needed"
        return None

    def shortfall_of_events(self, n: float) -> str | None:
        """Say how many predictions with an outcome are missing, or return None."""
        if n >= self.events:
            return None
        if n == 0:
            return f"no prediction has an outcome: at least {self.events} are needed"
        return f"only {n:g} of at least {self.events} predictions have an outcome"

    def _weighted_shortfall(self, table: ScoreTable) -> str | None:
        """Count the equal weights that vary as much (Kish): only ratios of weights matter, as in every measure."""
        if table.rows == 0:
            return "no prediction with an outcome has a weight above 0"
        positives, negatives = table.positive_squares.sum(), table.negative_squares.sum()
        for name, weight, squares, limit in (
            ("predictions with an outcome", table.total, positives + negatives, self.events),
            ("positives", table.positives.sum(), positives, self.positives),
            ("negatives", table.negatives.sum(), negatives, self.negatives),
        ):
            worth = float(effective_number(weight, squares))
            if worth * (1.0 + _ROUNDING) < limit:
                return f"the {name} are worth only {worth:.3g} of equal weight: at least {limit} are needed"
        return None


FILE_MINIMUM: Final = Minimum(events=2, positives=0, negatives=0)
"""For a file or data in memory: users judge its size themselves, and each measure has an interval and a level under
calibration. One event alone has no frequency to compare with."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The measures of a table by name, or why there are none, and why some are left out."""

    measures: Mapping[str, MeasureResult] = field(default_factory=dict)
    insufficient: str | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)


def assess(
    table: ScoreTable,
    *,
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    minimum: Minimum | None = None,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress = no_progress,
) -> Assessment:
    """Measure a table, with intervals and levels under calibration.

    Values are exact for raw predictions; intervals and levels come from the cells of the table.

    Parameters
    ----------
    table
        m rows.
    measures
        Measures by name. One that is not defined on this table (TCE on weights, or a value that is not finite) is left
        out of the result, which says why.
    minimum
        How much data is needed; ``Minimum()`` if left out.
    draws
        Resamples for intervals and levels; 0 leaves both out.
    seed
        Seed of the resamples; derived from the table if left out, so that the same table gives the same numbers.
    progress
        Called with the share of the work done.

    Raises
    ------
    InputError
        ``draws`` is neither 0 nor at least 19.
    """
    result = point_values(table, measures=measures, minimum=minimum or Minimum())
    chosen = {name: measures[name] for name in result.measures}
    values = {name: measured.value for name, measured in result.measures.items()}
    if not values:
        return result
    return with_uncertainty(result, uncertainty(table, chosen, values, draws=draws, seed=seed, progress=progress))


def point_values(table: ScoreTable, *, measures: Mapping[str, Measure], minimum: Minimum) -> Assessment:
    """Compute the values alone, without their uncertainty."""
    shortfall = minimum.shortfall(table)
    if shortfall is not None:
        return Assessment(insufficient=shortfall)
    results: dict[str, MeasureResult] = {}
    omitted: dict[str, str] = {}
    for name, measure in measures.items():
        if measure.needs_whole_counts and table.weighted:
            omitted[name] = "needs whole counts, not weights"
            continue
        try:
            value = measure.value(table)
        except NotEnoughData as error:
            omitted[name] = str(error)
            continue
        if not isfinite(value):
            omitted[name] = "not finite on these data"
            continue
        results[name] = (ScoreResult if isinstance(measure, MeanLoss) else MeasureResult)(value, measure.unit)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in omitted.items())
    return Assessment(results, None if results else reasons or "no measure is requested", omitted)


def with_uncertainty(assessment: Assessment, uncertainties: Mapping[str, Uncertainty]) -> Assessment:
    """Add the uncertainties there are to the same values."""
    return replace(
        assessment,
        measures={
            name: uncertainties[name].add_to(result) if name in uncertainties else result
            for name, result in assessment.measures.items()
        },
    )


def build_report(
    key: ReportKey,
    table: ScoreTable,
    assessment: Assessment,
    *,
    from_ms: int | None,
    to_ms: int | None,
    n: int,
    positives: int,
    predictions: int,
    emptiness: str | None = None,
    has_performance: bool = True,
) -> Report:
    """Put a report together, without a diagnosis.

    Parameters
    ----------
    table, assessment
        The labelled predictions and their measures.
    emptiness
        Why there are no predictions, in words; None where there are any.
    has_performance
        Whether accuracy and the like describe the model, which they do not for the top label of many classes.
    """
    return Report(
        *key.series,
        window=key.window,
        from_ms=from_ms,
        to_ms=to_ms,
        n=n,
        positives=positives,
        predictions=predictions,
        prevalence=table.prevalence if table.rows else None,
        mean_prediction=table.mean_prediction if table.rows else None,
        measures=assessment.measures,
        insufficient=emptiness or assessment.insufficient,
        omitted=assessment.omitted,
        performance=performance(table) if assessment.measures and has_performance else None,
    )
