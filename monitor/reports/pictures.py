"""The pictures of a report or a comparison."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.classes import CLASS_MEASURES, gce_family
from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.reports.evaluation.compare import Comparison
from monitor.reports.evaluation.difference import Difference
from monitor.reports.evaluation.local import LocalReport
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.evaluation.spans import Spans
from monitor.reports.figures import comparison
from monitor.reports.figures.cells import Picture, Results, judged
from monitor.reports.figures.gce_comparison import gce_figure
from monitor.reports.figures.history import Moment, SignedResult, history_figure
from monitor.reports.figures.local_map import local_map_figure
from monitor.reports.figures.reliability import draw_diagram, reliability_diagram
from monitor.reports.figures.report import report_figures, report_sheet
from monitor.reports.findings import Findings, Plane
from monitor.reports.formatting import plain
from monitor.scores import ScoreTable

_NORMAL_95: Final = 1.96
"""Standard errors to either side in a 95% interval."""


def pictures_of(findings: Findings) -> tuple[list[Picture], list[str]]:
    """The figures of a page, the most important first, and why others are missing."""
    pictures: list[Picture] = []
    data, missing = findings.pictures, list(findings.pictures.missing)
    compared, about = findings.comparison, ""
    if compared is not None and compared.differences:
        figure = comparison_of(compared, findings.shown(compared.differences))
        pictures.append(Picture("comparison", "Which of the two is better calibrated", comparison.CAPTION, figure))
    if data.spans is not None:
        pictures.append(_over_time(data.spans))
    if compared is not None:
        about = f" ({plain(compared.second.model)})"
    elif findings.many is not None:
        about = " (the most probable class)"
    drawn = report_figures(findings.scores, _results(findings.report), insufficient=findings.insufficient)
    pictures += [replace(picture, title=f"{picture.title}{about}") for picture in drawn]
    if data.classes is not None and data.classes.rows:
        pictures.append(
            Picture(
                "gce",
                "How much the choice of a measure decides",
                "The general calibration error comes in 32 forms. These are all of them, for the same predictions.",
                gce_figure(gce_family(data.classes)),
            )
        )
    if data.plane is not None and findings.local is not None:
        try:
            pictures.append(_plane(data.plane, findings.local, findings.scores))
        except NotEnoughData as error:
            missing.append(f"no map of the features: {error}")
    return pictures, missing


def sheet_of(findings: Findings, title: str, subtitle: str) -> Figure:
    """The whole report as one figure."""
    if findings.comparison is not None and findings.comparison.differences:
        return comparison_of(findings.comparison, findings.shown(findings.comparison.differences))
    report = findings.report
    # The measures that decide on titles are among the main ones.
    results = {} if report is None else _results(replace(report, measures=findings.shown(report.measures)))
    title, subtitle = _literal(title), _literal(subtitle)
    if findings.many is None:
        return report_sheet(findings.scores, results, title, subtitle, insufficient=findings.insufficient)
    return report_sheet(
        findings.scores,
        {CLASS_MEASURES[name].title: result for name, result in findings.many.measures.items()},
        title,
        subtitle,
        of_table=results,
        insufficient=findings.insufficient,
        about="The most probable class of each prediction",
    )


def reliability_of(findings: Findings, axes: Axes | None) -> Figure | Axes:
    """The reliability diagram of a report, as a figure of its own or in the given axes."""
    if axes is not None:
        draw_diagram(axes, findings.scores)
        return axes
    smce = judged(_results(findings.report), "smce")
    return reliability_diagram(findings.scores, smce=smce, insufficient=findings.insufficient)


def comparison_of(compared: Comparison, differences: Mapping[str, Difference] | None = None) -> Figure:
    """The measures of both, or some of them, with the intervals of their differences."""
    shown = {MEASURES[name].title: each for name, each in (differences or compared.differences).items()}
    first, second = (_literal(plain(report.model)) for report in (compared.first, compared.second))
    return comparison.comparison_figure(shown, first, second, less_is_better=not compared.cautions)


def _results(report: Report | None) -> Results:
    return {} if report is None else {MEASURES[name].title: result for name, result in report.measures.items()}


def _over_time(spans: Spans) -> Picture:
    return Picture(
        "time",
        "How it went over time",
        f"{spans.sentence} The offset is what would have to be added to the log odds of every prediction.",
        history_figure([_moment(report) for report in spans.reports], what="span"),
    )


def _moment(report: Report) -> Moment:
    # Reports on spans have both times.
    first, end = ((ms or 0) / 1000.0 for ms in (report.from_ms, report.to_ms))
    results: dict[str, MeasureResult] = dict(_results(report))
    diagnosis = report.diagnosis
    if diagnosis is not None and diagnosis.offset is not None and diagnosis.offset_error is not None:
        offset, reach = diagnosis.offset, _NORMAL_95 * diagnosis.offset_error
        results["offset (log odds)"] = SignedResult(offset, "nats", offset - reach, offset + reach, 0.0, reach)
    middle, start = (datetime.fromtimestamp(seconds, UTC) for seconds in (0.5 * (first + end), first))
    return Moment(middle, results, report.prevalence, report.mean_prediction, start)


def _plane(plane: Plane, local: LocalReport, scores: ScoreTable) -> Picture:
    x, y = plain(plane.x), plain(plane.y)
    others = " The other features have no part in this map." if len(local.features) > 2 else ""
    largest = local.measures.get("mlce")
    variance = float(scores.counts @ (scores.score * (1.0 - scores.score))) / scores.total
    p_value = None if largest is None else largest.p_value
    return Picture(
        "plane",
        f"Where among {x} and {y} the model is too high or too low",
        f"Predictions of like {x} and {y} are compared with what came true of them.{others}",
        local_map_figure(plane.map, _literal(x), _literal(y), p_value=p_value, variance=variance),
    )


def _literal(text: str) -> str:
    """Text in which matplotlib reads no formula between dollar signs."""
    return text.replace("$", r"\$")
