"""Reports as pages of one file, and in notebooks: both show themselves without a server and without a network."""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from monitor.answers import answers_of
from monitor.classes import CLASS_MEASURES, gce_family
from monitor.classes.gce import FAMILY, GceMember
from monitor.clock import Clock, SystemClock
from monitor.errors import NotEnoughData
from monitor.measures import MEASURES
from monitor.measures.base import Unit
from monitor.page.assets import single_file
from monitor.reports.diagrams.document import diagrams_document, number
from monitor.reports.diagrams.plane import map_document
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import ReportComparison
from monitor.reports.evaluation.local import LocalReport
from monitor.reports.evaluation.report import Report, Verdict
from monitor.reports.evaluation.spans import Spans
from monitor.reports.findings import MAX_GROUPS, Findings, GroupFindings, Plane
from monitor.reports.formatting import interval_text, minute_text, plain, value_text
from monitor.reports.report_view import groups_view, judge_difference, report_view, verdicts_of
from monitor.reports.view import Cell, Column, Table, View, ViewSection, row
from monitor.scores import ClassTable, ScoreTable
from monitor.version import VERSION

Figure = dict[str, Any]
"""What a figure of a page shows: ``kind`` names its module below ``monitor/page/static/figures``, the rest are its
properties."""

TONES: Final = {
    "green": "good",
    "bold green": "good",
    "yellow": "warn",
    "bold yellow": "warn",
    "bold red": "bad",
    "dim": "soft",
}
"""rich's style of a word -> its class on the page."""

_CLOCK: Final = SystemClock()
_WORDS: Final = {
    "logit": ("logit", "log odds of a prediction, log(p / (1 - p)): 0 at 50%, 2.2 at 90%, -4.6 at 1%"),
    "prior, offset": (
        "offset",
        "how far all logits are too low (above 0) or too high. If that is all, the prior has shifted",
    ),
    "shape, slope": (
        "slope",
        "below 1 predictions are too sure of themselves, too near to 0% and 100%; above 1 not sure enough. 1 is right",
    ),
}
"""A word of a lead -> what shows that it is said, and its meaning."""

_REFERENCE: Final = re.compile(r" \([^()]*\bdocs/[^()]*\)")
_RELIABILITY: Final = (
    "Of predictions of 70%, 70% should come true. The diagram compares the two for all predictions; the shaded band is "
    "as far as chance alone goes."
)
_DIFFERENCES: Final = (
    "The point is the difference of the two, the line its 95% interval; each row has its own scale. Where the line "
    "does not touch the middle, it is more than chance. "
)
_LESS_IS_BETTER: Final = "For all of these measures, less is better."
_LESS_IS_LESS: Final = "The two differ in prevalence, so a lower value does not say which is better calibrated."
_OFFSET: Final = "The offset is what would have to be added to the log odds of every prediction."
_PLANE: Final = (
    "Drawn is the mean of prediction less outcome of all events near, whatever was predicted for them. The local "
    "calibration error of the report compares only predictions of about the same size, in a wider surrounding, so its "
    "worst place may be another one, and of the other sign."
)
_FAMILY: Final = (
    "The general calibration error comes in 32 forms. These are all of them, for the same predictions. Those with a "
    "name are the usual ones. Values of different fields do not compare: before saying that a model is better, say by "
    "which."
)


def render_page(view: View, figures: Sequence[Figure], missing: Sequence[str] = (), clock: Clock = _CLOCK) -> bytes:
    """Render one HTML file with words, tables and figures, and when it was made.

    ``missing`` says which figures could not be drawn.
    """
    document = {
        "title": view.title,
        "made": f"Made on {minute_text(clock.now_ms())}, by version {VERSION}.",
        "lead": {"text": view.lead.sentence if view.lead.text else "", "tone": TONES.get(view.lead.style, "")},
        "cautions": list(view.cautions),
        "sections": [_section(section) for section in view.sections],
        "figures": list(figures),
        "reading": view.reading,
        "terms": _terms(view),
        "notes": [*view.notes, *missing],
    }
    kinds = dict.fromkeys(f"figures/{figure['kind']}" for figure in figures)
    return single_file([*kinds, "report"], view.title, document).encode()


def _terms(view: View) -> list[tuple[str, str]]:
    """Terms of the page, each with its meaning: words of the lead, and measures of the tables."""
    said = " ".join([view.lead.sentence, *(line for section in view.sections for line in section.before)])
    tables = [section.table for section in view.sections if section.table is not None]
    shown = {cells[0].text for table in tables for cells in table.rows} | {
        column.heading for table in tables for column in table.columns
    }
    words = [(name, meaning) for name, (mark, meaning) in _WORDS.items() if mark in said]
    known = [
        *((one.title, one.help) for one in MEASURES.values()),
        *((one.title, one.help) for one in CLASS_MEASURES.values()),
    ]
    return words + [(title, meaning) for title, meaning in known if title in shown]


def _section(section: ViewSection) -> dict[str, Any]:
    table = section.table
    return {
        "title": section.title,
        "before": list(section.before),
        "after": list(section.after),
        "table": table
        and {
            "columns": [{"heading": column.heading, "words": column.words} for column in table.columns],
            "rows": [
                [
                    {"text": cell.text, "tone": TONES.get(cell.style, ""), "below": cell.below, "note": cell.note}
                    for cell in cells
                ]
                for cells in table.rows
            ],
        },
    }


def render_notebook(view: View, drawing: bytes | None = None) -> str:
    """Render the lead, tables and a drawing (PNG) of a view, for a notebook: no script, which not all of them run."""
    lines = [f"<p><b>{escape(view.title)}</b><br>{escape(view.lead.sentence)}</p>"]
    lines += [f"<p>Mind: {escape(caution)}.</p>" for caution in view.cautions]
    for section in view.sections:
        if section.before:
            lines.append(f"<p>{'<br>'.join(map(escape, section.before))}</p>")
        if section.table is not None and section.table.rows:
            # In a narrow notebook the table moves sideways, and its numbers stay whole.
            lines.append(f'<div style="overflow-x:auto">{_notebook_table(section.table)}</div>')
    if drawing is not None:
        lines.append(f'<img alt="{escape(view.title)}" src="data:image/png;base64,{b64encode(drawing).decode()}">')
    return f'<div class="calibration-monitor">{"".join(lines)}</div>'


def _notebook_table(table: Table) -> str:
    sides = ["left" if column.words or not place else "right" for place, column in enumerate(table.columns)]

    # Names and numbers are not broken; words such as verdicts are.
    wraps = ["" if place and column.words else ";white-space:nowrap" for place, column in enumerate(table.columns)]
    styles = [f"text-align:{side};padding:1px 4px{wrap}" for side, wrap in zip(sides, wraps, strict=True)]

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(f'<{tag} style="{style}">{text}</{tag}>' for style, text in zip(styles, texts, strict=True))

    head = cells("th", [escape(column.heading) for column in table.columns])
    rows = (f"<tr>{cells('td', [_notebook_cell(cell) for cell in row])}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _notebook_cell(cell: Cell) -> str:
    text = f"<b>{escape(cell.text)}</b>" if "bold" in cell.style else escape(cell.text)
    return text + escape(cell.note) + (f"<br><small>{escape(cell.below)}</small>" if cell.below else "")


def report_page(findings: Findings) -> bytes:
    """Render the page of a report or a comparison."""
    view = report_view(findings)
    if findings.pictures.classes is not None and findings.pictures.classes.rows:
        view = view._replace(sections=[*view.sections, _family(findings.pictures.classes)])
    view = view._replace(sections=[*view.sections, *_meanings(verdicts_of(findings.reports))])
    return render_page(view, *figures_of(findings))


def _meanings(verdicts: Iterable[Verdict]) -> list[ViewSection]:
    """Say what each verdict means, and what to do; who gets the page may not have the documentation."""
    return [
        ViewSection(f"What \u201c{verdict.words}\u201d means", [_REFERENCE.sub("", answer.text)])
        for verdict in verdicts
        for answer in answers_of(verdict)
        if answer.kind == "Verdict"
    ]


def figures_of(findings: Findings) -> tuple[list[Figure], list[str]]:
    """The figures of a page, the most important first; also why others are missing."""
    figures: list[Figure] = []
    data, missing = findings.pictures, list(findings.pictures.missing)
    result = findings.result
    if isinstance(result, ReportComparison):
        if result.differences:
            figures.append(_differences(result, findings))
        both = (result.first.model, findings.other), (result.second.model, findings.scores)
        figures += reliability("What was predicted, and what came true", both, beside=True)
    else:
        about = "The most probable class" if isinstance(result, ClassReport) else "All predictions"
        figures += reliability(
            "What was predicted, and what came true", [(about, findings.scores), *data.groups.items()]
        )
    if data.spans is not None:
        figures.append(_over_time(data.spans))
    if data.plane is not None and findings.local is not None:
        try:
            figures.append(_plane(data.plane, findings.local, findings.scores))
        except NotEnoughData as error:
            missing.append(f"no map of the features: {error}")
    return figures, missing


def reliability(title: str, tables: Iterable[tuple[str, ScoreTable | None]], *, beside: bool = False) -> list[Figure]:
    """The reliability diagrams of score tables, ``beside`` each other or one to be chosen; none of empty tables."""
    choices = [
        {"name": plain(name), "data": diagrams_document(table)}
        for name, table in tables
        if table is not None and table.counts.any()
    ]
    figure = {"kind": "reliability", "title": title, "text": _RELIABILITY, "choices": choices, "beside": beside}
    return [figure | {"wide": beside}] if choices else []


def _differences(compared: ReportComparison, findings: Findings) -> Figure:
    first, second = (plain(report.model) for report in (compared.first, compared.second))
    less_is_better = not compared.cautions
    rows = []
    for name, each in findings.shown(compared.differences).items():
        word = judge_difference(each, comparable=less_is_better)
        text = interval_text(each.lower, each.upper, each.unit)
        rows.append(
            {
                "cells": [MEASURES[name].title, value_text(each.difference, each.unit), text, word.value],
                "tone": TONES.get(word.style, ""),
                "value": number(each.difference),
                "lower": number(each.lower),
                "upper": number(each.upper),
            }
        )
    columns = ["measure", f"{second} less {first}", "95% interval", f"{second} is"]
    return {
        "kind": "strips",
        "title": "Which of the two is better calibrated",
        "wide": True,
        "text": _DIFFERENCES + (_LESS_IS_BETTER if less_is_better else _LESS_IS_LESS),
        "columns": [{"heading": heading, "words": place == len(columns) - 1} for place, heading in enumerate(columns)],
        "rows": rows,
        "drawn": "lower | higher",
        "own": True,
        "line": 0,
    }


def groups_page(findings: GroupFindings) -> bytes:
    """Render the page of reports by columns and spans of time, with the history of the worst groups."""
    histories = findings.result.histories

    def least_q(name: str) -> float:
        return min((segment.q_value for segment in histories[name] if segment.q_value is not None), default=2.0)

    figures, missing = [], []
    for name in sorted(histories, key=least_q)[:MAX_GROUPS]:
        reports = [segment.report for segment in histories[name]]
        if any(report.measures for report in reports):
            figures.append(_history(plain(name) or "How it went over time", _OFFSET, reports))
    if len(histories) > MAX_GROUPS:
        missing.append(f"figures are of the {MAX_GROUPS} groups with the least q of {len(histories):,}")
    return render_page(groups_view(findings), figures, missing)


def _over_time(spans: Spans) -> Figure:
    return _history("How it went over time", f"{spans.sentence} {_OFFSET}", spans.reports)


def _history(title: str, text: str, reports: Sequence[Report]) -> Figure:
    # Reports on spans have both times.
    ends = [(report.from_ms or 0, report.to_ms or 0) for report in reports]
    names = list(dict.fromkeys(name for report in reports for name in report.measures))
    offsets = [None if report.diagnosis is None else report.diagnosis.offset_interval for report in reports]
    plots = [
        {
            "title": "What was predicted, and what came true",
            "share": True,
            "lines": [
                {"name": "came true", "values": [number(report.prevalence) for report in reports]},
                {"name": "predicted on average", "values": [number(report.mean_prediction) for report in reports]},
            ],
        },
        *(_measure_over_time(name, reports) for name in names),
    ]
    if any(offsets):
        lower, upper = ([None if pair is None else number(pair[end]) for pair in offsets] for end in (0, 1))
        middle = [None if pair is None else number(0.5 * (pair[0] + pair[1])) for pair in offsets]
        lines = [
            {"name": "offset", "values": middle, "lower": lower, "upper": upper},
            {"name": "no offset", "values": [0.0] * len(reports), "level": True},
        ]
        plots.append({"title": "Offset of the log odds", "share": False, "lines": lines})
    return {
        "kind": "time",
        "title": title,
        "text": text,
        "wide": True,
        "times": [(first + last) // 2 for first, last in ends],
        "range": [ends[0][0], ends[-1][1]],
        "plots": plots,
    }


def _measure_over_time(name: str, reports: Sequence[Report]) -> dict[str, Any]:
    results = [report.measures.get(name) for report in reports]

    def column(field: str) -> list[float | None]:
        return [None if result is None else number(getattr(result, field)) for result in results]

    unit: Unit = next(result.unit for result in results if result is not None)
    lines = [
        {"name": MEASURES[name].title, **{key: column(field) for key, field in _INTERVAL.items()}},
        {"name": "95 of 100 calibrated models are below", "values": column("null_q95"), "level": True},
    ]
    title = f"{MEASURES[name].title}, %" if unit == "percent" else MEASURES[name].title
    return {"title": title, "share": False, "least": 0, "lines": lines}


_INTERVAL: Final = {"values": "value", "lower": "lower", "upper": "upper"}


def _family(table: ClassTable) -> ViewSection:
    """All general calibration errors: binning and labels down, threshold and norm across."""
    members = gce_family(table)
    lines = list(dict.fromkeys(member[:3] for member in FAMILY))
    columns = list(dict.fromkeys(member[3:] for member in FAMILY))

    def cell(member: GceMember) -> Cell:
        text = value_text(members[member], "ratio") if member in members else "none above"
        return Cell(text, note=f" {member.name}" if member.name else "")

    rows = [
        row(GceMember(*line, *columns[0]).grouping, *(cell(GceMember(*line, *column)) for column in columns))
        for line in lines
    ]
    headings = [Column("bins, labels, classes", words=True)]
    headings += [Column(GceMember(*lines[0], *column).weighing) for column in columns]
    return ViewSection("How much the choice of a measure decides", [_FAMILY], Table(headings, rows))


def _plane(plane: Plane, local: LocalReport, scores: ScoreTable) -> Figure:
    x, y = plain(plane.x), plain(plane.y)
    others = " The other features have no part in this map." if len(local.features) > 2 else ""
    largest = local.measures.get("mlce")
    variance = float(scores.counts @ (scores.score * (1.0 - scores.score))) / scores.total
    p_value = None if largest is None else largest.p_value
    figure = map_document(plane.map, x, y, p_value=p_value, variance=variance)
    return {
        "title": f"Where among {x} and {y} the model is too high or too low",
        "text": f"{figure.pop('shown')} {_PLANE}{others}",
        **figure,
    }
