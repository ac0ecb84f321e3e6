"""One word for a measure and for a report."""

from typing import Any

import pytest
from rich.console import Console

from monitor.cli.tables import reports_table, telling
from monitor.cli.verdict import Verdict, of_measure, of_report
from monitor.evaluation.report import MeasureResult, Report


def report(window: str = "1h", **measures: MeasureResult) -> Report:
    return Report("churn", "7", "all", window, 0, 1, 900, 90, 1000, 0.1, 0.11, measures)


@pytest.mark.parametrize(
    ("value", "null_q95", "verdict"),
    [
        (0.01, None, Verdict.UNKNOWN),
        (0.01, 0.01, Verdict.WITHIN_CHANCE),
        (0.0, 0.0, Verdict.WITHIN_CHANCE),
        (0.014, 0.01, Verdict.BORDERLINE),
        (0.016, 0.01, Verdict.MISCALIBRATED),
        (0.001, 0.0, Verdict.BORDERLINE),
    ],
)
def test_a_value_is_compared_with_its_level(value: float, null_q95: float | None, verdict: Verdict) -> None:
    assert of_measure(MeasureResult(value, "ratio", null_q95=null_q95)) is verdict


def test_a_report_is_judged_by_its_smce() -> None:
    fine, bad = MeasureResult(0.01, "ratio", null_q95=0.02), MeasureResult(0.09, "ratio", null_q95=0.02)
    assert of_report(report(tce=bad, smce=fine)) is Verdict.WITHIN_CHANCE
    assert of_report(report(tce=bad)) is Verdict.MISCALIBRATED
    assert of_report(report()) is Verdict.INSUFFICIENT


@pytest.mark.parametrize("width", [80, 95, 110, 140])
def test_a_table_fits_its_terminal_and_always_has_the_four_measures(width: int) -> None:
    levels: dict[str, Any] = {"null_q95": 0.0234}
    measures = {name: MeasureResult(0.0123, "ratio", **levels) for name in ("kce", "smce", "intce")}
    measures["tce"] = MeasureResult(12.3, "percent", null_q95=33.3)
    reports = [report(window, **measures) for window in ("1h", "24h")]
    console = Console(width=width)
    with console.capture() as capture:
        console.print(reports_table(reports, columns=telling(reports), width=width))
    shown = capture.get()
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("churn", "24h", "TCE", "kCE", "smCE", "intCE", "12.3%", ".0123", "within chance"):
        assert word in shown
    assert ("(.0234)" in shown) is (width >= 110)
    # One row a report: nothing is folded.
    assert len([line for line in shown.splitlines() if "churn" in line]) == 2
    assert len(shown.splitlines()) <= 8
