"""The report of a window of the service as a page."""

from monitor.events.model import ALL, UNVERSIONED
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.report import Report
from monitor.reports.findings import Findings
from monitor.reports.page import page
from monitor.scores import ScoreTable


def window_page(report: Report, scores: ScoreTable, root: str) -> bytes:
    """Draw the report; ``root`` is the way to where the service begins."""
    name = report.model
    if report.version != UNVERSIONED:
        name += f", version {report.version}"
    if report.segment != ALL:
        name += f", {report.segment}"
    return page(Findings(f"{name}, window {report.window}", scores, (), (), binary=FileReport(report)), root=root)
