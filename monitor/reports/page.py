"""Pages, notebook output and pictures of reports: HTML and PNG that load nothing from elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup

from monitor.events.model import ALL, UNVERSIONED
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.report import Report
from monitor.reports.figures.cells import Picture
from monitor.reports.figures.output import to_png, to_svg
from monitor.reports.findings import Findings
from monitor.reports.pictures import pictures_of, sheet_of
from monitor.reports.report_view import class_head_lines, head_lines, report_view
from monitor.reports.view import View
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


def render_page(
    view: View, pictures: Sequence[Picture], missing: Sequence[str] = (), *, root: str | None = None
) -> bytes:
    """One HTML file with words, tables and figures.

    ``missing`` says which figures could not be drawn. In a running service ``root`` is the relative path to its start
    page, for links.
    """
    drawn = [(picture, Markup(to_svg(picture.figure))) for picture in pictures]  # noqa: S704 - our own
    return _PAGES.get_template("report.html").render(view=view, pictures=drawn, missing=missing, root=root).encode()


def render_notebook(view: View) -> str:
    """The words and tables of a view, for a notebook."""
    return _PAGES.get_template("notebook.html").render(view=view)


def report_page(findings: Findings, *, root: str | None = None) -> bytes:
    """The page of a report or a comparison."""
    return render_page(report_view(findings), *pictures_of(findings), root=root)


def window_page(report: Report, scores: ScoreTable, root: str) -> bytes:
    """The page of a window of the service."""
    name = report.model
    if report.version != UNVERSIONED:
        name += f", version {report.version}"
    if report.segment != ALL:
        name += f", {report.segment}"
    findings = Findings(f"{name}, window {report.window}", scores, (), (), binary=FileReport(report))
    return report_page(findings, root=root)


def report_picture(findings: Findings) -> bytes:
    """A report on one sheet, as PNG."""
    view = report_view(findings)
    return to_png(sheet_of(findings, view.title, sheet_subtitle(findings, view)))


def sheet_subtitle(findings: Findings, view: View) -> str:
    """The verdict and what the report is about, below the title of its sheet."""
    if findings.many is not None:
        return "\n".join([view.lead.sentence, *class_head_lines(findings.many)])
    return "" if findings.binary is None else "\n".join([view.lead.sentence, *head_lines(findings.binary.whole)])
