"""Which groups are called miscalibrated, and in which order they come."""

import numpy as np
import pytest

from monitor.measures import MEASURES
from monitor.reports.evaluation.files import report_table
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Report, Verdict
from monitor.reports.evaluation.segments import FALSE_DISCOVERY_RATE, p_value, rank_segments, severity
from monitor.sources.tables import EventTable, SegmentColumn
from tests.windows.memory import calibrated


def report(
    segment: str = "all",
    value: float | None = None,
    *,
    lower: float | None = None,
    null_q95: float | None = None,
    p: float | None = None,
    combined: float | None = None,
) -> Report:
    measures = (
        {} if value is None else {"smce": MeasureResult(value, "ratio", lower=lower, null_q95=null_q95, p_value=p)}
    )
    diagnosis = None if combined is None else Diagnosis(Verdict.CALIBRATED, "", p_value=combined)
    return Report("m", "1", segment, "all", None, None, 9, 4, 9, 0.5, 0.5, measures, diagnosis=diagnosis)


def naive_q_values(p: list[float]) -> list[float]:
    """Benjamini and Hochberg: the smallest rate at which the step-up procedure rejects each."""
    ordered = sorted(p)
    m = len(p)
    return [min(m * ordered[rank - 1] / rank for rank in range(ordered.index(each) + 1, m + 1)) for each in p]


def test_p_values_are_corrected_for_their_number() -> None:
    p = [0.001, 0.02, 0.03, 0.04, 0.2, 0.9]
    ranked = rank_segments([report(f"s={number}", 0.1, p=each) for number, each in enumerate(p)])
    by_name = {each.report.segment: each for each in ranked}
    for number, expected in enumerate(naive_q_values(p)):
        found = by_name[f"s={number}"]
        assert found.p_value == p[number]
        assert found.q_value == pytest.approx(expected)
        assert found.significant == (expected <= FALSE_DISCOVERY_RATE)
    # .02 alone would be called miscalibrated; among six groups it is not.
    assert [each.significant for each in ranked] == [True, False, False, False, False, False]


def test_the_combined_tests_go_before_smce() -> None:
    assert p_value(report()) is None
    assert p_value(report(value=0.1, p=0.3)) == 0.3
    assert p_value(report(value=0.1, p=0.3, combined=0.01)) == 0.01


def test_what_is_certain_decides_between_those_that_are_real() -> None:
    ranked = rank_segments(
        [
            report("s=noise", 0.30, lower=0.0, null_q95=0.35, p=0.5),
            report("s=large", 0.02, lower=0.015, null_q95=0.002, p=0.001),
            report("s=harmed", 0.20, lower=0.1, null_q95=0.05, p=0.001),
            report("s=unknown"),
            report("s=quiet", 0.01, lower=0.0, null_q95=0.35, p=0.9),
        ]
    )
    assert [each.report.segment for each in ranked] == ["s=harmed", "s=large", "s=noise", "s=quiet", "s=unknown"]
    assert ranked[-1].to_dict()["q_value"] is None
    assert ranked[0].to_dict()["q_value"] == pytest.approx(0.002)


def test_no_segments_are_no_segments() -> None:
    assert rank_segments([]) == ()


def test_severity_without_levels_is_the_value() -> None:
    assert severity(report()) == -1.0
    assert severity(report(value=0.2)) == 0.2
    assert severity(report(value=0.2, null_q95=0.1)) == 2.0
    assert severity(report(value=0.2, null_q95=0.0)) == float("inf")
    assert severity(report(value=0.0, null_q95=0.0)) == 0.0


@pytest.mark.long
def test_of_many_calibrated_groups_few_are_called_miscalibrated() -> None:
    groups, each = 20, 400
    codes = np.repeat(np.arange(groups, dtype=np.int32), each)
    column = {"g": SegmentColumn(codes, tuple(str(number) for number in range(groups)))}
    wrongly, alone = 0, 0
    for seed in range(20):
        p, y = calibrated(groups * each, seed=seed)
        table = EventTable(p, y, segments=column)
        found = report_table(table, model="m", measures={"smce": MEASURES["smce"]}, draws=499, seed=seed)
        wrongly += any(segment.significant for segment in found.segments)
        alone += any(segment.p_value is not None and segment.p_value <= 0.05 for segment in found.segments)
    # Each file has some group below .05 by chance alone; after the correction one file in twenty does.
    assert alone >= 10
    assert wrongly <= 4
