"""One word for a measure and for a report."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Report, ScoreResult, Severity, Verdict
from monitor.reports.report_view import distinguishing_columns, judge_measure, judge_report, reports_table
from monitor.reports.view import Word

UNJUDGED = Word("not judged", "dim")
WITHIN_CHANCE = Word("within chance", "green")
BEYOND_CHANCE = Word("beyond chance", "yellow")
BELOW_CHANCE = Word("below chance", "yellow")


def report(window: str = "1h", **measures: MeasureResult) -> Report:
    return Report("churn", "7", "all", window, 0, 1, 900, 90, 1000, 0.1, 0.11, measures)


@pytest.mark.parametrize(
    ("value", "null_q95", "word"),
    [
        (0.01, None, UNJUDGED),
        (0.01, 0.01, WITHIN_CHANCE),
        (0.0, 0.0, WITHIN_CHANCE),
        (0.011, 0.01, BEYOND_CHANCE),
        (0.001, 0.0, BEYOND_CHANCE),
    ],
)
def test_a_value_is_compared_with_its_level(value: float, null_q95: float | None, word: Word) -> None:
    assert judge_measure(MeasureResult(value, "ratio", null_q95=null_q95)) == word


def test_a_report_is_judged_by_its_diagnosis_in_the_one_set_of_words() -> None:
    bad = MeasureResult(0.09, "ratio", null_q95=0.02)
    assert judge_report(report(smce=bad)) == UNJUDGED
    for verdict in Verdict:
        word = judge_report(replace(report(smce=bad), diagnosis=Diagnosis(verdict, "")))
        assert word.value == verdict.words
    assert [verdict.words for verdict in Verdict] == [
        "calibrated",
        "prior shift",
        "shape miscalibration",
        "prior and shape",
        "insufficient data",
    ]


@pytest.mark.parametrize("width", [80, 95, 101, 112, 142])
def test_a_table_fits_its_terminal_and_always_has_the_four_measures(width: int) -> None:
    levels: dict[str, Any] = {"null_q95": 0.0234}
    measures = {name: MeasureResult(0.0123, "ratio", **levels) for name in ("kce", "smce", "intce")}
    measures["tce"] = MeasureResult(12.3, "percent", null_q95=33.3)
    found = Diagnosis(Verdict.SHAPE, "Predictions are too sure of themselves.", severity=Severity.MODERATE)
    reports = [replace(report(window, **measures), diagnosis=found) for window in ("1h", "24h")]
    console = Console(width=width)
    with console.capture() as capture:
        console.print(reports_table(reports, columns=distinguishing_columns(reports), width=width))
    shown = capture.get()
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("churn", "24h", "TCE", "kCE", "smCE", "intCE", "12.3%", ".0123", "moderate shape miscalibration"):
        assert word in shown
    assert ("(.0234)" in shown) is (width >= 112)
    # One row a report: nothing is folded.
    assert len([line for line in shown.splitlines() if "churn" in line]) == 2
    assert len(shown.splitlines()) <= 8


@pytest.mark.parametrize("width", [80, 95, 101, 112, 120, 142, 145])
def test_a_long_verdict_is_broken_into_lines_and_crops_no_number(width: int) -> None:
    values = {"kce": 0.000652, "smce": 0.000561, "intce": 0.0123}
    measures = {name: MeasureResult(value, "ratio", null_q95=0.00442) for name, value in values.items()}
    measures["tce"] = MeasureResult(86.2, "percent", null_q95=33.3)
    found = Diagnosis(Verdict.SHAPE, "", severity=Severity.SEVERE)
    long = replace(
        report("1h", **measures),
        model="overconfident",
        n=34_812,
        prevalence=0.4921,
        diagnosis=found,
    )
    console = Console(width=width)
    with console.capture() as capture:
        console.print(reports_table([long], columns=["model", "window"], width=width))
    shown = capture.get().split()
    for text in ("overconfident", "34,812", "86.2%", ".000652", ".000561", ".0123", "severe", "miscalibration"):
        assert text in shown
    assert ("(.0044)" in shown) is (width >= 112)


@pytest.mark.parametrize(
    ("value", "p_value", "word"),
    [
        (0.20, 0.5, WITHIN_CHANCE),
        (0.23, 0.01, BEYOND_CHANCE),
        (0.17, 0.96, BELOW_CHANCE),
        # Of 199 draws, the tenth least one and the data: 11 in 200 score as low.
        (0.17, 0.95, WITHIN_CHANCE),
        # The least score there is, which a calibrated model has often.
        (0.19, 1.0, WITHIN_CHANCE),
        (0.17, None, WITHIN_CHANCE),
    ],
)
def test_a_proper_score_may_be_too_low(value: float, p_value: float | None, word: Word) -> None:
    level: dict[str, float | None] = {"null_mean": 0.2, "null_q95": 0.22, "p_value": p_value}
    assert judge_measure(ScoreResult(value, "ratio", **level)) == word
    if word == BELOW_CHANCE:
        # An error of calibration cannot be too small.
        assert judge_measure(MeasureResult(value, "ratio", **level)) == WITHIN_CHANCE


def test_a_proper_score_of_too_few_surprises_is_below_chance() -> None:
    def words(p: float, positives: int) -> set[str]:
        y = np.arange(1000) < positives
        report = evaluate(np.full(1000, p), y, measures=("brier", "log_loss"), draws=99)
        return {judge_measure(each).value for each in report.measures.values()}

    assert words(0.35, 350) == {"within chance"}
    assert words(0.35, 286) == {"below chance"}
    assert words(0.35, 400) == {"beyond chance"}
    # Every outcome scores the same.
    assert words(0.5, 400) == {"within chance"}
    # A seventh of calibrated models have no positive either.
    assert words(0.002, 0) == {"within chance"}
