"""Verdicts on measures and reports in a word or two, with their style on a terminal."""

from typing import Final

from monitor.reports.evaluation.report import MeasureResult, Report, ScoreResult, Severity
from monitor.reports.view import Word

UNJUDGED: Final = Word("not judged", "dim")
"""There is no level under calibration to compare with: not yet, or since draws are 0."""
WITHIN_CHANCE: Final = Word("within chance", "green")
BEYOND_CHANCE: Final = Word("beyond chance", "yellow")
BELOW_CHANCE: Final = Word("below chance", "yellow")
"""A proper score is lower than the model would score were it calibrated."""

_SEVERITY_STYLES: Final = {
    None: "dim",
    Severity.NONE: "green",
    Severity.SLIGHT: "yellow",
    Severity.MODERATE: "bold red",
    Severity.SEVERE: "bold red",
}


def judge_measure(result: MeasureResult) -> Word:
    """Whether a value lies beyond what 95 in 100 perfectly calibrated models show on the same predictions.

    A proper score may also lie below: such a model would score worse.
    """
    if result.null_q95 is None:
        return UNJUDGED
    if isinstance(result, ScoreResult) and result.below_chance:
        return BELOW_CHANCE
    return WITHIN_CHANCE if result.value <= result.null_q95 else BEYOND_CHANCE


def beyond_chance(result: MeasureResult) -> bool | None:
    """Whether a value lies outside the range of calibrated models; None where the range is not known."""
    return None if result.null_q95 is None else judge_measure(result) is not WITHIN_CHANCE


def judge_report(report: Report) -> Word:
    """The verdict of the diagnosis with its severity, in the words of REST and Prometheus."""
    if report.diagnosis is None:
        return UNJUDGED
    return Word(report.diagnosis.words, _SEVERITY_STYLES[report.diagnosis.severity])
