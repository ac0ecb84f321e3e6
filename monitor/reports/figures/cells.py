"""Results that decide on the titles of pictures."""

from collections.abc import Mapping

from monitor.inference import null_level
from monitor.measures import MEASURES
from monitor.reports.diagrams.reliability import DRAWS
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable

Results = Mapping[str, MeasureResult]
"""Results of a report, by the titles of the measures."""


def judged(results: Results, name: str) -> MeasureResult | None:
    """Return the result of a measure, if it has a level under calibration."""
    result = results.get(MEASURES[name].title)
    return None if result is None or result.null_q95 is None else result


def smce_result(cells: ScoreTable) -> MeasureResult:
    """Measure smCE with its level under calibration, which decides whether the title of a figure names a fault."""
    measure = MEASURES["smce"]
    value = measure.value(cells)
    levels = null_level(cells, [measure], draws=DRAWS, values={measure.name: value})
    return MeasureResult(value, measure.unit).with_level(levels[measure.name])
