"""One word for a measure, and for a report: whether it is more than chance."""

from enum import StrEnum
from typing import Final

from monitor.evaluation.report import MeasureResult, Report

CLEAR: Final = 1.5
"""How many times the 95% point under calibration is more than a borderline case."""


class Verdict(StrEnum):
    """What is said, mildest first."""

    INSUFFICIENT = "too little data"
    UNKNOWN = "being measured"
    WITHIN_CHANCE = "within chance"
    BORDERLINE = "borderline"
    MISCALIBRATED = "MISCALIBRATED"

    @property
    def style(self) -> str:
        """How a terminal shows it."""
        return _STYLES[self]


_STYLES: Final = {
    Verdict.INSUFFICIENT: "dim",
    Verdict.UNKNOWN: "dim",
    Verdict.WITHIN_CHANCE: "green",
    Verdict.BORDERLINE: "yellow",
    Verdict.MISCALIBRATED: "bold red",
}


def of_measure(result: MeasureResult) -> Verdict:
    """Compare a value with the 95% point that a perfectly calibrated model would show on the same predictions."""
    if result.null_q95 is None:
        return Verdict.UNKNOWN
    if result.value <= result.null_q95:
        return Verdict.WITHIN_CHANCE
    # A level of 0 has no multiples: a little more than nothing is no clear case.
    if result.null_q95 > 0.0 and result.value > CLEAR * result.null_q95:
        return Verdict.MISCALIBRATED
    return Verdict.BORDERLINE


def of_report(report: Report) -> Verdict:
    """The verdict of smCE, which has no bins to choose; of the first measure where it is missing."""
    result = report.measures.get("smce") or next(iter(report.measures.values()), None)
    return Verdict.INSUFFICIENT if result is None else of_measure(result)
