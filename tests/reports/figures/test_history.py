from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from matplotlib.dates import date2num
from matplotlib.patches import Rectangle

from monitor.reports.evaluation.report import MeasureResult, Verdict
from monitor.reports.figures.history import Moment, SignedResult, history_figure
from monitor.reports.figures.output import to_svg
from tests.reports.figures.tables import check_layout, texts

START = datetime(2026, 5, 1, tzinfo=UTC)


def moment(hour: int, smce: float | None, chance: float | None = 0.02) -> Moment:
    results: dict[str, MeasureResult] = {}
    if smce is not None:
        results["TCE"] = MeasureResult(100.0 * smce, "percent", null_q95=10.0)
        results["smCE"] = MeasureResult(smce, "ratio", max(0.0, smce - 0.01), smce + 0.01, 0.01, chance)
    return Moment(START + timedelta(hours=hour), results, 0.4, 0.42)


def test_missing_windows_and_missing_values_are_gaps() -> None:
    moments = [moment(hour, None if hour == 3 else 0.01) for hour in range(10) if hour not in {6, 7}]
    line = next(each for each in history_figure(moments).axes[2].lines if each.get_linestyle() == "-")
    y = np.asarray(line.get_ydata(), np.float64)
    assert np.isnan(y).tolist() == [False] * 3 + [True] + [False] * 2 + [True] + [False] * 2


def test_the_order_of_moments_does_not_matter() -> None:
    moments = [moment(hour, 0.01 + 0.003 * hour) for hour in range(6)]
    assert to_svg(history_figure(moments)) == to_svg(history_figure(moments[::-1]))


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ([0.01, 0.01], "The error was never more than chance (smCE, 2 windows)"),
        ([0.01, 0.03, 0.04], "The error has been more than chance since 2026-05-01 01:00 UTC (smCE, 2 windows)"),
        (
            [0.03, 0.01, 0.03],
            "The error has been more than chance since 2026-05-01 02:00 UTC (smCE, 1 window; 2 of all 3)",
        ),
        ([0.03, 0.01], "The error was more than chance in 1 of 2 windows, but not in the last (smCE)"),
        ([0.03, None, 0.03], "The error has been more than chance since 2026-05-01 00:00 UTC (smCE, 2 windows)"),
        ([None], "1 window: too little is known to compare with chance"),
    ],
)
def test_the_title_says_since_when(values: list[float | None], title: str) -> None:
    figure = history_figure([moment(hour, value) for hour, value in enumerate(values)])
    assert title in texts(figure)
    check_layout(figure)


def test_a_span_is_called_so_and_holds_since_its_start() -> None:
    spans = [replace(moment(24 * day, 0.03), start=START + timedelta(days=day, hours=-12)) for day in range(1, 4)]
    written = texts(history_figure(spans, what="span"))
    assert "The error has been more than chance since 2026-05-01 12:00 UTC (smCE, 3 spans)" in written
    assert any("95% of spans" in each for each in written)


def test_a_measure_with_a_sign_is_beyond_chance_on_either_side_and_in_the_picture() -> None:
    values = [-0.4, 0.0, 0.3]
    results = [SignedResult(value, "nats", value - 0.1, value + 0.1, 0.0, 0.2) for value in values]
    figure = history_figure(
        [Moment(START + timedelta(hours=hour), {"offset": result}) for hour, result in enumerate(results)]
    )
    assert np.asarray(figure.axes[1].lines[-1].get_ydata()).tolist() == [-0.4, 0.3]
    assert figure.axes[1].get_ylim()[0] < -0.5
    check_layout(figure)


@pytest.mark.parametrize("step", [timedelta(seconds=1), timedelta(minutes=14), timedelta(hours=6), timedelta(days=85)])
def test_any_length_of_time_has_its_ticks(step: timedelta) -> None:
    check_layout(history_figure([Moment(START + number * step, prevalence=0.1) for number in range(12)]))


def test_each_measure_has_a_panel_with_its_last_value() -> None:
    figure = history_figure([moment(0, 0.01), moment(1, 0.012)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["", "TCE", "smCE"]
    assert figure.axes[2].get_title(loc="right") == "last 0.0120"


def test_what_is_beyond_chance_is_marked_and_what_is_not_known_is_not() -> None:
    figure = history_figure([moment(0, 0.01), moment(1, 0.03), moment(2, 0.05, None)])
    beyond = figure.axes[2].lines[-1]
    assert np.asarray(beyond.get_ydata()).tolist() == [0.03]


def test_verdicts_are_a_strip_that_changes_where_they_do_and_ends_in_gaps() -> None:
    said = {0: Verdict.CALIBRATED, 1: Verdict.CALIBRATED, 3: Verdict.PRIOR_SHIFT, 7: Verdict.SHAPE}
    moments = [replace(moment(hour, 0.01), verdict=said.get(hour)) for hour in (0, 1, 2, 3, 7)]
    figure = history_figure(moments)
    check_layout(figure)
    (strip,) = figure.axes[0].child_axes
    hours = [
        (round(24 * (bar.get_x() + bar.get_width() - date2num(START))), round(24 * bar.get_width(), 6))
        for bar in strip.patches
        if isinstance(bar, Rectangle)
    ]
    assert hours == [(0, 1.0), (1, 1.0), (3, 1.0), (7, 1.0)]
    assert len({str(bar.get_facecolor()) for bar in strip.patches}) == 3
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][3:] == ["calibrated", "prior shift", "shape miscalibration"]
    assert any("the verdict of each window" in each for each in texts(figure))


def test_without_verdicts_there_is_no_strip() -> None:
    figure = history_figure([moment(0, 0.01)])
    assert figure.axes[0].child_axes == []
    assert not any("verdict" in each for each in texts(figure))


def test_many_moments_have_small_markers() -> None:
    sizes = [
        history_figure([moment(hour, 0.01) for hour in range(n)]).axes[2].lines[-1].get_markersize() for n in (9, 250)
    ]
    assert sizes == [4.5, 1.8]


def test_an_infinite_value_is_a_gap() -> None:
    results = [MeasureResult(value, "nats") for value in (0.5, float("inf"), 0.6)]
    figure = history_figure(
        [Moment(START + timedelta(hours=hour), {"log loss": each}) for hour, each in enumerate(results)]
    )
    check_layout(figure)
    line = next(each for each in figure.axes[1].lines if each.get_linestyle() == "-")
    assert np.isnan(np.asarray(line.get_ydata(), np.float64)).tolist() == [False, True, False]
