"""Reports as tables for people."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from monitor.measures import MEASURES
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.verdict import of_measure, of_report

SHOWN: Final = ("tce", "kce", "smce", "intce")
"""The measures of a table with a row a report."""

ROOMY: Final = 112
"""Characters from which on a table shows everything there is; a narrower one shows what matters most."""

_SHARES: Final = 101
_LEVELS: Final = 112
_EVERYTHING: Final = 142
"""Characters from which on a table has prevalence and mean prediction; instead of these, levels; and all of it."""


def value_text(value: float | None, unit: str) -> str:
    """A measure with its unit: percent as such, others with four places, and more where they are very small."""
    if value is None:
        return "-"
    if unit == "percent":
        return f"{value:.1f}%"
    return f"{value:.{_places(value)}f}"


def _places(value: float) -> int:
    """Digits after the point: more of what is very small, but not of what would be 0 all the same."""
    return 6 if 5e-7 <= abs(value) < 0.001 else 4


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


def measures_table(report: Report, width: int) -> Table:
    """All measures of one report, a row each, in a terminal of so many characters."""
    return results_table(((MEASURES[name].title, result) for name, result in report.measures.items()), width)


def results_table(results: Iterable[tuple[str, MeasureResult]], width: int) -> Table:
    """Measures with their titles, a row each, in a terminal of so many characters."""
    roomy = width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    levels = ("if calibrated", "95% of those below", "p") if roomy else ("chance",)
    for name in ("measure", "value", "95% interval", *levels, "verdict"):
        table.add_column(name, justify="left" if name in {"measure", "verdict"} else "right", no_wrap=True)
    if not roomy:
        table.caption = "chance: what a perfectly calibrated model stays below in 95% of cases"
        table.caption_justify = "left"
    for title, result in results:
        verdict = of_measure(result)
        mean, point = value_text(result.null_mean, result.unit), value_text(result.null_q95, result.unit)
        table.add_row(
            title,
            value_text(result.value, result.unit),
            interval_text(result.lower, result.upper, result.unit),
            *((mean, point, p_text(result.p_value)) if roomy else (point,)),
            Text(verdict.value, style=verdict.style),
        )
    return table


def reports_table(reports: Sequence[Report], *, columns: Sequence[str], width: int, title: str | None = None) -> Table:
    """One row a report.

    Parameters
    ----------
    columns
        Those of model, version, segment and window that tell the reports apart.
    width
        Characters there are. The narrower, the less stands beside the four measures.
    """
    levels, everything = width >= _LEVELS, width >= _EVERYTHING
    shares = everything or _SHARES <= width < _LEVELS
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, no_wrap=name != "segment", overflow="fold")
    numbers = ["n", *(["labelled"] if everything else []), *(["prevalence", "mean p"] if shares else [])]
    for name in (*numbers, *(MEASURES[name].title for name in SHOWN)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if levels:
        table.caption = "in parentheses: what a perfectly calibrated model stays below in 95% of cases"
        table.caption_justify = "left"
    for report in reports:
        verdict = of_report(report)
        told = {
            "n": f"{report.n:,}",
            "labelled": share_text(report.label_coverage),
            "prevalence": share_text(report.prevalence),
            "mean p": share_text(report.mean_prediction),
        }
        table.add_row(
            *(getattr(report, name) for name in columns),
            *(told[name] for name in numbers),
            *(_cell(report.measures.get(name), level=levels) for name in SHOWN),
            Text(verdict.value, style=verdict.style),
        )
    return table


def telling(reports: Iterable[Report]) -> list[str]:
    """The columns that tell reports apart: version and segment only where there are several."""
    held = list(reports)
    return [
        name
        for name in ("model", "version", "segment", "window")
        if name in {"model", "window"} or len({getattr(report, name) for report in held}) > 1
    ]


def _cell(result: MeasureResult | None, *, level: bool) -> Text:
    if result is None:
        return Text("-", style="dim")
    text = Text(_short(result.value, result.unit), style=of_measure(result).style)
    return text.append(f" ({_short(result.null_q95, result.unit)})", style="dim") if level else text


def _short(value: float | None, unit: str) -> str:
    return value_text(value, unit).removeprefix("0") if unit == "ratio" else value_text(value, unit)


def interval_text(lower: float | None, upper: float | None, unit: str) -> str:
    """An interval with its unit, both ends of it to the same place."""
    if lower is None or upper is None:
        return "-"
    if unit == "percent":
        return f"{value_text(lower, unit)} to {value_text(upper, unit)}"
    places = _places(max(abs(lower), abs(upper)))
    return f"{lower:.{places}f} to {upper:.{places}f}"


def p_text(value: float | None) -> str:
    """A p-value or a q-value."""
    return "-" if value is None else "<.0001" if value < 0.0001 else f"{value:.2g}" if value < 0.001 else f"{value:.3f}"
