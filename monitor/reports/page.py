"""Pages, notebook output and pictures of reports: HTML and PNG that load nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.classes import CLASS_MEASURES, gce_family
from monitor.errors import NotEnoughData
from monitor.events.model import ALL, UNVERSIONED
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Comparison, Difference
from monitor.reports.evaluation.diagnosis import offset_interval
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.local import LocalReport
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.evaluation.spans import SPAN_MEASURES, Spans
from monitor.reports.figures import comparison
from monitor.reports.figures.cells import Picture, Results, judged
from monitor.reports.figures.gce_comparison import gce_figure
from monitor.reports.figures.history import Moment, SignedResult, history_figure
from monitor.reports.figures.local_map import local_map_figure
from monitor.reports.figures.output import to_png, to_svg
from monitor.reports.figures.reliability import draw_diagram, reliability_diagram
from monitor.reports.figures.report import report_figures, report_sheet
from monitor.reports.findings import Findings, Plane
from monitor.reports.formatting import plain
from monitor.reports.report_view import class_head_lines, head_lines, report_view, window_view
from monitor.reports.view import Lead, View
from monitor.scores import ScoreTable

_TONES: Final = {
    "green": "well",
    "bold green": "well",
    "yellow": "mind",
    "bold yellow": "mind",
    "bold red": "bad",
    "dim": "dim",
}
"""rich's style of a word -> its class on the page."""

_PAGES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters["tone"] = lambda style: _TONES.get(style, "")


_OVER_TIME: Final = "How it went over time"


def render_page(
    view: View, pictures: Sequence[Picture], missing: Sequence[str] = (), *, root: str | None = None
) -> bytes:
    """Render one HTML file with words, tables and figures.

    ``missing`` says which figures could not be drawn. In a running service ``root`` is the relative path to its start
    page, for links.
    """
    drawn = [(picture, Markup(to_svg(picture.figure))) for picture in pictures]  # noqa: S704 - our own
    return _PAGES.get_template("report.html").render(view=view, pictures=drawn, missing=missing, root=root).encode()


def render_notebook(view: View) -> str:
    """Render the words and tables of a view, for a notebook."""
    return _PAGES.get_template("notebook.html").render(view=view)


def report_page(findings: Findings) -> bytes:
    """Render the page of a report or a comparison."""
    return render_page(report_view(findings), *pictures_of(findings))


def window_page(
    report: Report,
    scores: ScoreTable,
    root: str,
    past: Sequence[Report] = (),
    notes: Sequence[str] = (),
    *,
    lead: Lead | None = None,
) -> bytes:
    """Render the page of a window of the service.

    Parameters
    ----------
    past
        Earlier reports of the same series and window.
    notes
        Up to where its model is settled, when it was evaluated, and what else the reader should know.
    lead
        What the evidence on its version says, for a window of now.
    """
    name = report.model
    if report.version != UNVERSIONED:
        name += f", version {report.version}"
    if report.segment != ALL:
        name += f", {report.segment}"
    findings = Findings(f"{name}, window {report.window}", scores, FileReport(report), notes=tuple(notes))
    pictures, missing = pictures_of(findings)
    if past:
        pictures.insert(0, _past(past))
    return render_page(window_view(findings, lead), pictures, missing, root=root)


def report_picture(findings: Findings) -> bytes:
    """Draw a report on one sheet, as PNG."""
    view = report_view(findings)
    return to_png(sheet_of(findings, view.title, sheet_subtitle(findings, view)))


def sheet_subtitle(findings: Findings, view: View) -> str:
    """Write the verdict and what the report is about, below the title of its sheet."""
    result = findings.result
    if isinstance(result, Comparison):
        return ""
    lines = class_head_lines(result) if isinstance(result, ClassReport) else head_lines(result.whole)
    return "\n".join([view.lead.sentence, *lines])


def pictures_of(findings: Findings) -> tuple[list[Picture], list[str]]:
    """Draw the figures of a page, the most important first; also return why others are missing."""
    pictures: list[Picture] = []
    data, missing = findings.pictures, list(findings.pictures.missing)
    result, report, about = findings.result, findings.report, ""
    if isinstance(result, Comparison):
        about = f" ({plain(result.second.model)})"
        if result.differences:
            figure = comparison_of(result, findings.shown(result.differences))
            pictures.append(Picture("comparison", "Which of the two is better calibrated", comparison.CAPTION, figure))
    elif isinstance(result, ClassReport):
        about = " (the most probable class)"
    if data.spans is not None:
        pictures.append(_over_time(data.spans))
    drawn = report_figures(findings.scores, _results(report), insufficient=report.insufficient)
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
    """Draw the whole report as one figure."""
    result, report = findings.result, findings.report
    if isinstance(result, Comparison) and result.differences:
        return comparison_of(result, findings.shown(result.differences))
    # The measures that decide on titles are among the main ones.
    results = _results(replace(report, measures=findings.shown(report.measures)))
    title, subtitle = _literal(title), _literal(subtitle)
    if not isinstance(result, ClassReport):
        return report_sheet(findings.scores, results, title, subtitle, insufficient=report.insufficient)
    return report_sheet(
        findings.scores,
        {CLASS_MEASURES[name].title: measured for name, measured in result.measures.items()},
        title,
        subtitle,
        of_table=results,
        insufficient=report.insufficient,
        about="The most probable class of each prediction",
    )


def reliability_of(findings: Findings, axes: Axes | None) -> Figure | Axes:
    """Draw the reliability diagram of a report, as a figure of its own or in the given axes."""
    if axes is not None:
        draw_diagram(axes, findings.scores)
        return axes
    smce = judged(_results(findings.report), "smce")
    return reliability_diagram(findings.scores, smce=smce, insufficient=findings.report.insufficient)


def comparison_of(compared: Comparison, differences: Mapping[str, Difference] | None = None) -> Figure:
    """Draw the measures of both, or some of them, with the intervals of their differences."""
    shown = {MEASURES[name].title: difference for name, difference in (differences or compared.differences).items()}
    first, second = (_literal(plain(report.model)) for report in (compared.first, compared.second))
    return comparison.comparison_figure(shown, first, second, less_is_better=not compared.cautions)


def _results(report: Report) -> Results:
    return {MEASURES[name].title: result for name, result in report.measures.items()}


def _over_time(spans: Spans) -> Picture:
    return Picture(
        "time",
        _OVER_TIME,
        f"{spans.sentence} The offset is what would have to be added to the log odds of every prediction.",
        history_figure([_moment(report) for report in spans.reports], what="span"),
    )


def _past(reports: Sequence[Report]) -> Picture:
    """Windows over time, each where it ends."""
    moments = [
        Moment(
            datetime.fromtimestamp((report.to_ms or 0) / 1000.0, UTC),
            {MEASURES[name].title: result for name, result in report.measures.items() if name in SPAN_MEASURES},
            report.prevalence,
            report.mean_prediction,
            verdict=None if report.diagnosis is None else report.diagnosis.verdict,
        )
        for report in reports
    ]
    return Picture("history", _OVER_TIME, "Each point is a window, placed where it ends.", history_figure(moments))


def _moment(report: Report) -> Moment:
    # Reports on spans have both times.
    first, end = ((ms or 0) / 1000.0 for ms in (report.from_ms, report.to_ms))
    results: dict[str, MeasureResult] = dict(_results(report))
    ends = None if report.diagnosis is None else offset_interval(report.diagnosis)
    if ends is not None:
        lower, upper = ends
        results["offset (log odds)"] = SignedResult(
            0.5 * (lower + upper), "nats", lower, upper, null_mean=0.0, null_q95=0.5 * (upper - lower)
        )
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
