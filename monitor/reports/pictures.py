"""What was found in a table, in pictures."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.classes import CLASS_MEASURES, gce_family
from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.reports.evaluation.compare import Comparison
from monitor.reports.evaluation.local import LocalReport
from monitor.reports.evaluation.report import MeasureResult, Report, ScoreResult
from monitor.reports.evaluation.spans import Spans
from monitor.reports.figures import (
    DifferenceRow,
    MeasureRow,
    Moment,
    Picture,
    comparison,
    comparison_figure,
    gce_figure,
    history_figure,
    local_map_figure,
    reliability_diagram,
    report_figures,
    report_sheet,
)
from monitor.reports.figures.cells import judged
from monitor.reports.figures.reliability import draw_diagram
from monitor.reports.findings import Findings, Plane
from monitor.reports.plain import plain
from monitor.reports.verdict import of_measure
from monitor.scores import ScoreTable

_INTERVAL: Final = 1.96
"""Standard errors to either side in a 95% interval."""


def pictures_of(found: Findings) -> tuple[list[Picture], list[str]]:
    """The figures of a page, the most telling first, and why others are not there, a line each."""
    pictures: list[Picture] = []
    missing = list(found.views.missing)
    if found.comparison is not None and found.comparison.differences:
        figure = comparison_of(found.comparison, found.shown(found.comparison.differences))
        pictures.append(
            Picture("comparison", "Which of the two is better calibrated", comparison.CAPTION, figure),
        )
    if found.views.spans is not None:
        pictures.append(_over_time(found.views.spans))
    pictures += _of_scores(found)
    if found.views.classes is not None and found.views.classes.rows:
        pictures.append(
            Picture(
                "gce",
                "How much the choice of a measure decides",
                "The general calibration error comes in 32 forms. These are all of them, for the same predictions.",
                gce_figure(gce_family(found.views.classes)),
            )
        )
    if found.views.plane is not None and found.local is not None:
        try:
            pictures.append(_plane(found.views.plane, found.local, found.scores))
        except NotEnoughData as error:
            missing.append(f"no map of the features: {error}")
    return pictures, missing


def sheet_of(found: Findings, title: str, subtitle: str) -> Figure:
    """One figure that says it all."""
    if found.comparison is not None and found.comparison.differences:
        return comparison_of(found.comparison, found.shown(found.comparison.differences))
    report = _report_of(found)
    # Those that figures judge by are among the main ones.
    measured = [] if report is None else _rows(replace(report, measures=found.shown(report.measures)))
    missing = None if report is None else report.insufficient
    if found.many is None:
        return report_sheet(found.scores, measured, _literal(title), _literal(subtitle), insufficient=missing)
    rows = [_row(CLASS_MEASURES[name].title, each) for name, each in found.many.measures.items()]
    return report_sheet(
        found.scores,
        rows,
        _literal(title),
        _literal(subtitle),
        of_table=measured,
        insufficient=missing,
        about="The most probable class of each prediction",
    )


def reliability_of(found: Findings, axes: Axes | None) -> Figure | Axes:
    """The reliability diagram of a report, as a figure of its own or in somebody's axes."""
    report = _report_of(found)
    if axes is not None:
        draw_diagram(axes, found.scores)
        return axes
    smce = judged(_rows(report), "smce")
    return reliability_diagram(found.scores, smce=smce, insufficient=None if report is None else report.insufficient)


def _of_scores(found: Findings) -> Iterator[Picture]:
    """Those of predictions and outcomes: of two files of the second, of many classes of the most probable one."""
    about = None
    if found.comparison is not None:
        about = plain(found.comparison.second.model)
    elif found.many is not None:
        about = "the most probable class"
    report = _report_of(found)
    missing = None if report is None else report.insufficient
    for each in report_figures(found.scores, _rows(report), insufficient=missing):
        yield each if about is None else replace(each, title=f"{each.title} ({about})")


def _report_of(found: Findings) -> Report | None:
    """The report of what ``found.scores`` holds."""
    if found.many is not None:
        return found.many.top_label
    if found.comparison is not None:
        return found.comparison.second
    return None if found.binary is None else found.binary.whole


def _over_time(spans: Spans) -> Picture:
    return Picture(
        "time",
        "How it went over time",
        f"{spans.sentence} The offset is what would have to be added to the log odds of every prediction.",
        history_figure([_moment(each) for each in spans.reports], what="span"),
    )


def _moment(report: Report) -> Moment:
    # Spans say from when to when they reach.
    first, end = ((each or 0) / 1000.0 for each in (report.from_ms, report.to_ms))
    rows = _rows(report)
    diagnosis = report.diagnosis
    if diagnosis is not None and diagnosis.offset is not None and diagnosis.offset_error is not None:
        offset, reach = diagnosis.offset, _INTERVAL * diagnosis.offset_error
        rows.append(
            MeasureRow(
                "offset (log odds)",
                offset,
                "nats",
                offset - reach,
                offset + reach,
                null_mean=0.0,
                null_lower=-reach,
                null_q95=reach,
            )
        )
    middle, start = (datetime.fromtimestamp(each, UTC) for each in (0.5 * (first + end), first))
    return Moment(middle, rows, report.prevalence, report.mean_prediction, start)


def _plane(plane: Plane, local: LocalReport, scores: ScoreTable) -> Picture:
    x, y = plain(plane.x), plain(plane.y)
    others = " The other features have no part in this map." if len(local.features) > 2 else ""
    largest = local.measures.get("mlce")
    variance = float(scores.counts @ (scores.score * (1.0 - scores.score))) / scores.total
    return Picture(
        "plane",
        f"Where among {x} and {y} the model is too high or too low",
        f"Predictions of like {x} and {y} are compared with what came true of them.{others}",
        local_map_figure(
            plane.map,
            _literal(x),
            _literal(y),
            p_value=None if largest is None else largest.p_value,
            variance=variance,
        ),
    )


def _rows(report: Report | None) -> list[MeasureRow]:
    return [] if report is None else [_row(MEASURES[name].title, each) for name, each in report.measures.items()]


def _row(title: str, result: MeasureResult) -> MeasureRow:
    return MeasureRow(
        title,
        result.value,
        result.unit,
        result.lower,
        result.upper,
        result.null_mean,
        result.null_q95,
        of_measure(result).value,
        _least(result),
    )


def _least(result: MeasureResult) -> float:
    """Where the range of chance begins: at 0, but for a score that is told to be below it."""
    mean, q95 = result.null_mean, result.null_q95
    is_below = isinstance(result, ScoreResult) and result.below_chance
    return 2.0 * mean - q95 if is_below and mean is not None and q95 is not None else 0.0


def comparison_of(found: Comparison, shown: Collection[str] | None = None) -> Figure:
    """The measures of both, or those of these names, with the interval of their difference."""
    rows = [
        DifferenceRow(MEASURES[name].title, each.unit, each.first, each.second, each.lower, each.upper)
        for name, each in found.differences.items()
        if shown is None or name in shown
    ]
    first, second = (_literal(plain(each.model)) for each in (found.first, found.second))
    return comparison_figure(rows, first, second, less_is_better=not found.cautions)


def _literal(text: str) -> str:
    """Somebody's text as it stands: between two dollar signs, figures would read a formula."""
    return text.replace("$", r"\$")
