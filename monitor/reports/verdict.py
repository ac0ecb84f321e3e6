"""What a terminal says of a report, and of one measure of it, in a word or two and a colour."""

from typing import Final, NamedTuple

from monitor.reports.evaluation.report import MeasureResult, Report, ScoreResult, Severity


class Word(NamedTuple):
    """What is said, and how a terminal shows it."""

    value: str
    style: str


UNJUDGED: Final = Word("not judged", "dim")
"""Of what has no level to be held against: not yet, or since draws are 0."""

WITHIN_CHANCE: Final = Word("within chance", "green")
BEYOND_CHANCE: Final = Word("beyond chance", "yellow")
BELOW_CHANCE: Final = Word("below chance", "yellow")
"""Of a proper score that is lower than what the model would score were it calibrated."""

_STYLES: Final = {
    None: "dim",
    Severity.NONE: "green",
    Severity.SLIGHT: "yellow",
    Severity.MODERATE: "bold red",
    Severity.SEVERE: "bold red",
}


def of_measure(result: MeasureResult) -> Word:
    """Whether a value lies beyond what 95 in 100 perfectly calibrated models show on the same predictions.

    A proper score may also lie below it: such a model would score worse.
    """
    if result.null_q95 is None:
        return UNJUDGED
    if isinstance(result, ScoreResult) and result.below_chance:
        return BELOW_CHANCE
    return WITHIN_CHANCE if result.value <= result.null_q95 else BEYOND_CHANCE


def of_report(report: Report) -> Word:
    """The verdict of its diagnosis with its severity, in the words of REST and Prometheus."""
    if report.diagnosis is None:
        return UNJUDGED
    return Word(report.diagnosis.words, _STYLES[report.diagnosis.severity])
