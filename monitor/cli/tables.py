"""Reports as tables for people."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from monitor.cli.verdict import of_measure, of_report
from monitor.evaluation.report import MeasureResult, Report
from monitor.measures import MEASURES

SHOWN: Final = ("tce", "kce", "smce", "intce")
"""The measures of a narrow table; a wide one has all."""


def value_text(value: float | None, unit: str) -> str:
    """A measure with its unit: percent as such, ratios with three significant places."""
    if value is None:
        return "-"
    return f"{value:.1f}%" if unit == "percent" else f"{value:.4f}"


def share_text(value: float | None) -> str:
    """A share in percent."""
    if value is None:
        return "-"
    return f"{100 * value:.2f}%" if value < 0.1 else f"{100 * value:.1f}%"


def time_text(milliseconds: int | None) -> str:
    """A time to the second, UTC."""
    if milliseconds is None:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def measures_table(report: Report) -> Table:
    """All measures of one report, a row each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("measure", "value", "95% interval", "if calibrated", "95% of those below", "p", "verdict"):
        table.add_column(name, justify="left" if name in {"measure", "verdict"} else "right", no_wrap=True)
    for name, result in report.measures.items():
        verdict = of_measure(result)
        table.add_row(
            MEASURES[name].title,
            value_text(result.value, result.unit),
            _interval(result),
            value_text(result.null_mean, result.unit),
            value_text(result.null_q95, result.unit),
            "-" if result.p_value is None else f"{result.p_value:.3f}",
            Text(verdict.value, style=verdict.style),
        )
    return table


def reports_table(reports: Iterable[Report], *, columns: Sequence[str], title: str | None = None) -> Table:
    """One row a report.

    Parameters
    ----------
    columns
        Those of model, version, segment and window that tell the reports apart.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    for name in ("n", "labelled", "positives", "mean p"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in SHOWN:
        table.add_column(f"{MEASURES[name].title} (null 95%)", justify="right")
    table.add_column("verdict", no_wrap=True)
    for report in reports:
        verdict = of_report(report)
        table.add_row(
            *(getattr(report, name) for name in columns),
            f"{report.n:,}",
            share_text(report.label_coverage),
            share_text(report.prevalence),
            share_text(report.mean_prediction),
            *(_with_level(report.measures.get(name)) for name in SHOWN),
            Text(verdict.value, style=verdict.style),
        )
    return table


def _with_level(result: MeasureResult | None) -> Text:
    if result is None:
        return Text("-", style="dim")
    text = Text(value_text(result.value, result.unit), style=of_measure(result).style)
    return text.append(f" ({value_text(result.null_q95, result.unit)})", style="dim")


def _interval(result: MeasureResult) -> str:
    if result.lower is None or result.upper is None:
        return "-"
    return f"{value_text(result.lower, result.unit)} to {value_text(result.upper, result.unit)}"
