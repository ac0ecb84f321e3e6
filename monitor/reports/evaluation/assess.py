"""A score table becomes measures with their uncertainty, or the reason why it does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final

from monitor.errors import NotEnoughData, SettingsError
from monitor.inference import Progress
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import MeanLoss, Measure
from monitor.reports.evaluation.report import MeasureResult, ScoreResult
from monitor.reports.evaluation.uncertainty import DRAWS, Uncertainty, uncertainty
from monitor.scores import ScoreTable

_ROUNDING: Final = 1e-9
"""Equal weights are worth their number, but for the last bits."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """How much must be known before anything is said: a number from a handful of outcomes misleads.

    Attributes
    ----------
    events
        Predictions with an outcome, at least 1.
    positives, negatives
        Those of them with outcome 1, and 0.

    Where events have weights w, each is of how many of equal weight they are worth: (sum w)^2 / sum w^2.
    """

    events: int = 100
    positives: int = 5
    negatives: int = 5

    def __post_init__(self) -> None:
        for name, value, least in (
            ("events", self.events, 1),
            ("positives", self.positives, 0),
            ("negatives", self.negatives, 0),
        ):
            if value < least:
                raise SettingsError(f"minimum {name} must be at least {least}, got {value}")

    def shortfall(self, table: ScoreTable) -> str | None:
        """What is missing, in words, or None."""
        if table.weighted:
            return self._weighted_shortfall(table)
        n, positives, negatives = table.total, table.positives.sum(), table.negatives.sum()
        if n < self.events:
            if n == 0:
                return f"no prediction has an outcome: at least {self.events} are needed"
            return f"only {n:g} of at least {self.events} predictions have an outcome"
        for name, value, least in (("positives", positives, self.positives), ("negatives", negatives, self.negatives)):
            if value < least:
                counted = f"only {value:g} {name}" if value else f"no {name}"
                return f"{counted.removesuffix('s') if value == 1 else counted}: at least {least} are needed"
        return None

    def _weighted_shortfall(self, table: ScoreTable) -> str | None:
        """Of weights counts how many equal ones vary alike (Kish): only their ratios matter, as to every measure."""
        if table.rows == 0:
            return "no prediction with an outcome has a weight above 0"
        positives, negatives = table.positive_squares.sum(), table.negative_squares.sum()
        for name, weight, squares, least in (
            ("predictions with an outcome", table.total, positives + negatives, self.events),
            ("positives", table.positives.sum(), positives, self.positives),
            ("negatives", table.negatives.sum(), negatives, self.negatives),
        ):
            worth = weight**2 / squares if squares > 0.0 else 0.0
            if worth * (1.0 + _ROUNDING) < least:
                return f"the {name} are worth only {worth:.3g} of equal weight: at least {least} are needed"
        return None


GIVEN: Final = Minimum(events=2, positives=0, negatives=0)
"""For data that somebody hands over to be measured, a file or two lists: its size is theirs to judge, and each measure
stands beside its interval and its level under calibration. One event alone has no frequency to compare with."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a table says of calibration: measures by name, or why there are none, and why some are left out."""

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
    progress: Progress | None = None,
) -> Assessment:
    """Measure a table, with intervals and levels under calibration.

    Values are of the table as it is, exact for raw predictions; intervals and levels come from its cells.

    Parameters
    ----------
    table
        m rows.
    measures
        Those wanted, by name. One that is not defined on this table (TCE on weights, or a value that is not finite)
        is left out of the result, which says why.
    minimum
        How much must be known; ``Minimum()`` if left out.
    draws
        Resamples for intervals and levels; 0 leaves both out.
    seed
        For the resamples; the table's content if left out, so that the same table gives the same numbers.
    progress
        Told the share of the work done, now and then.

    Raises
    ------
    InputError
        ``draws`` is neither 0 nor at least 19.
    """
    result = point_values(table, measures=measures, minimum=minimum or Minimum())
    chosen = {name: measures[name] for name in result.measures}
    values = {name: each.value for name, each in result.measures.items()}
    if not values:
        return result
    return with_uncertainty(result, uncertainty(table, chosen, values, draws=draws, seed=seed, progress=progress))


def point_values(table: ScoreTable, *, measures: Mapping[str, Measure], minimum: Minimum) -> Assessment:
    """The values alone: what can be had at every evaluation."""
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
    return Assessment(results, None if results else reasons or "no measure is asked for", omitted)


def with_uncertainty(assessment: Assessment, found: Mapping[str, Uncertainty]) -> Assessment:
    """The same values with what is known of their uncertainty."""
    return replace(
        assessment,
        measures={
            name: found[name].about(result) if name in found else result for name, result in assessment.measures.items()
        },
    )
