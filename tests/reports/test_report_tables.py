"""Tables of segments and of two files: their words, and that they fit a terminal."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.special import expit

from monitor.reports.evaluation.compare import ReportComparison, compare_tables
from monitor.reports.evaluation.files import FileReport, report_table
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Report, Verdict
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.report_view import (
    classes_table,
    comparison_sentence,
    differences_table,
    judge_difference,
    judge_segment,
    logit_rows,
    measures_table,
    segment_text,
    segments_sentence,
    segments_table,
)
from monitor.reports.view import Table, rich_table
from monitor.sources.tables import EventTable, SegmentColumn


@pytest.fixture(scope="module")
def tables() -> tuple[EventTable, EventTable]:
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 1.2, 3000)
    y = (rng.random(3000) < expit(z)).astype(np.int8)
    column = SegmentColumn(np.repeat(np.arange(3, dtype=np.int32), [1500, 1480, 20]), ("eu", "us", "tiny"))
    overconfident = np.where(column.codes == 1, expit(2.5 * z), expit(z))
    return EventTable(expit(z), y), EventTable(overconfident, y, segments={"region": column})


@pytest.fixture(scope="module")
def found(tables: tuple[EventTable, EventTable]) -> FileReport:
    return report_table(tables[1], model="m", draws=99, seed=0)


@pytest.fixture(scope="module")
def compared(tables: tuple[EventTable, EventTable]) -> ReportComparison:
    return compare_tables(*tables, names=("old", "new"), draws=99, seed=0)


def printed(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(rich_table(table, width))
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [80, 100, 112, 140])
def test_tables_fit_and_nothing_is_cut(found: FileReport, compared: ReportComparison, width: int) -> None:
    for table in (
        measures_table(found.whole.measures),
        segments_table(found.segments),
        differences_table(compared),
    ):
        lines = printed(table, width)
        assert max(map(len, lines)) <= width
        assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    faults = 2 * (width == 140)
    assert len(printed(differences_table(compared), width)) == len(compared.differences) + 2 + faults


def test_a_roomy_terminal_has_more(found: FileReport) -> None:
    assert "if calibrated" in printed(measures_table(found.whole.measures), 140)[0]
    assert "if calibrated" not in printed(measures_table(found.whole.measures), 80)[0]


def test_sentences_say_which_segments_are_real(found: FileReport) -> None:
    assert segments_sentence(found.segments) == (
        "1 of 2 segments is miscalibrated (q <= 0.05: at most one in twenty of those named so is by chance): "
        "region=us. 1 holds too little data to be judged."
    )
    calm = [each for each in found.segments if each.report.segment == "region=eu"]
    assert segments_sentence(calm) == (
        "No segment is miscalibrated beyond what looking at 1 of them gives by chance (q > 0.05)."
    )
    small = [each for each in found.segments if each.report.segment == "region=tiny"]
    assert segments_sentence(small) == "None of 1 segments holds enough outcomes to be judged."
    assert segment_text(small[0]) == "too little data: only 20 of at least 100 predictions have an outcome"


def test_what_is_certain_and_small_is_no_fault_of_shape() -> None:
    def segment(verdict: Verdict, q: float) -> SegmentReport:
        measures = {"smce": MeasureResult(0.01, "ratio", null_q95=0.005)}
        diagnosis = Diagnosis(verdict, "", p_value=q)
        report = Report("m", "1", "s=a", "all", None, None, 9, 4, 9, 0.5, 0.5, measures, diagnosis=diagnosis)
        return SegmentReport(report, q, q)

    assert judge_segment(segment(Verdict.SHAPE, 0.01)).value == "shape miscalibration"
    assert judge_segment(segment(Verdict.CALIBRATED, 0.03)).value == "beyond chance"
    assert judge_segment(segment(Verdict.SHAPE, 0.2)).value == "within chance"


def test_sentences_say_who_is_better(tables: tuple[EventTable, EventTable], compared: ReportComparison) -> None:
    said = comparison_sentence(compared)
    assert said.startswith("old is better calibrated than new: smCE is lower by 0.0")
    turned = comparison_sentence(compare_tables(*tables[::-1], names=("new", "old"), draws=99, seed=0))
    assert turned.startswith("old is better calibrated than new: smCE is lower by 0.0")
    bare = comparison_sentence(compare_tables(*tables, names=("old", "new"), draws=0))
    assert bare.endswith("without draws there is no interval.")
    empty = EventTable(np.zeros(0), np.zeros(0, np.int8))
    assert comparison_sentence(compare_tables(empty, empty)) == (
        "The two cannot be compared: there is too little data."
    )


def test_offset_and_slope_stand_beside_each_other(compared: ReportComparison) -> None:
    (_, offset, other), (_, slope, steeper) = logit_rows(compared)
    first, second = compared.first.diagnosis, compared.second.diagnosis
    assert first is not None
    assert second is not None
    assert offset.startswith(f"{first.offset:.2f} (")
    assert other.startswith(f"{second.offset:.2f} (")
    assert slope.startswith(f"{first.slope:.2f} (")
    assert steeper.startswith(f"{second.slope:.2f} (")
    assert logit_rows(replace(compared, first=replace(compared.first, diagnosis=None))) == []


def test_of_prevalences_apart_nobody_is_better(compared: ReportComparison) -> None:
    apart = replace(compared, cautions=("prevalences differ",))
    said = comparison_sentence(apart)
    assert said.startswith("smCE of old is lower than that of new by 0.0")
    assert said.endswith("which of different prevalences does not say which is better calibrated.")
    (row,) = (line for line in printed(differences_table(apart), 100) if line.strip().startswith("smCE"))
    assert row.endswith("higher")
    assert judge_difference(compared.differences["smce"]).value == "worse"


def test_a_wide_terminal_shows_the_level_of_each_measure_of_a_class() -> None:
    levels = {
        "tce": MeasureResult(43.8, "percent", null_q95=18.2),
        "kce": MeasureResult(0.0148, "ratio", null_q95=0.015),
        "smce": MeasureResult(0.0194, "ratio", 0.0001, 0.0323, null_q95=0.0164),
        "intce": MeasureResult(0.0429, "ratio", null_q95=0.0339),
    }
    table = classes_table(["cat"], [Report("m", "1", "class=cat", "all", 0, 1, 900, 90, 1000, 0.1, 0.11, levels)])
    wide, narrow = "\n".join(printed(table, 144)), "\n".join(printed(table, 120))
    for text in ("43.8% (18.2%)", ".0148 (.0150)", ".0429 (.0339)", "0.0001 to 0.0323", "in parentheses"):
        assert text in wide
    assert "43.8%" not in narrow
    assert "0.0194" in narrow
    assert "0.0164" in narrow
