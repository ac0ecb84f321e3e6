"""Pictures of reports, for files and for callers in Python: drawn by matplotlib, which takes a second to load."""

from collections.abc import Mapping
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Difference, ReportComparison
from monitor.reports.evaluation.report import Report, leading_measure
from monitor.reports.figures import comparison
from monitor.reports.figures.groups import groups_figure
from monitor.reports.figures.reliability import draw_diagram, reliability_diagram
from monitor.reports.figures.report import Results, judged, report_sheet
from monitor.reports.figures.style import to_png
from monitor.reports.findings import Findings, GroupFindings
from monitor.reports.formatting import plain
from monitor.reports.report_view import class_head_lines, head_lines, report_view
from monitor.reports.view import View


def report_picture(findings: Findings) -> bytes:
    """Draw a report on one sheet, as PNG."""
    view = report_view(findings)
    return to_png(sheet_of(findings, view.title, sheet_subtitle(findings, view)))


def sheet_subtitle(findings: Findings, view: View) -> str:
    """Write the verdict and what the report is about, below the title of its sheet."""
    result = findings.result
    if isinstance(result, ReportComparison):
        return ""
    lines = class_head_lines(result) if isinstance(result, ClassReport) else head_lines(result.whole)
    return "\n".join([view.lead.sentence, *lines])


def sheet_of(findings: Findings, title: str, subtitle: str) -> Figure:
    """Draw the whole report as one figure."""
    result, report = findings.result, findings.report
    if isinstance(result, ReportComparison) and result.differences:
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


def comparison_of(compared: ReportComparison, differences: Mapping[str, Difference] | None = None) -> Figure:
    """Draw the measures of both, or some of them, with the intervals of their differences."""
    shown = {MEASURES[name].title: difference for name, difference in (differences or compared.differences).items()}
    first, second = (_literal(plain(report.model)) for report in (compared.first, compared.second))
    return comparison.comparison_figure(shown, first, second, less_is_better=not compared.cautions)


def groups_of(findings: GroupFindings) -> Figure:
    """Draw one measure of each group: smCE, or the first one that was measured."""
    groups = {group.name: segment for group, segment in findings.result.groups}
    name = leading_measure(name for segment in groups.values() for name in segment.report.measures)
    return groups_figure({plain(key): segment for key, segment in groups.items()}, name, MEASURES[name].title)


def _results(report: Report) -> Results:
    return {MEASURES[name].title: result for name, result in report.measures.items()}


def _literal(text: str) -> str:
    """Text in which matplotlib reads no formula between dollar signs."""
    return text.replace("$", r"\$")
