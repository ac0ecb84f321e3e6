"""What was found in a table, as a page that needs nothing else, and as one sheet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Comparison
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.figures import to_png, to_svg
from monitor.reports.findings import Findings
from monitor.reports.pictures import pictures_of, sheet_of
from monitor.reports.plain import plain
from monitor.reports.report_tables import (
    comparison_sentence,
    fault_rows,
    leading_of,
    of_difference,
    of_segment,
    search_sentences,
    segment_text,
    segments_sentence,
    short_texts,
)
from monitor.reports.tables import interval_text, p_text, share_text, value_text
from monitor.reports.text import class_head_lines, head_lines, more_line, omitted_lines
from monitor.reports.verdict import Word, of_measure, of_report

PAGES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

_TONES: Final = {"green": "well", "yellow": "mind", "bold red": "bad", "dim": "dim"}
"""A terminal's style -> the page's."""


def page(found: Findings, *, root: str | None = None) -> bytes:
    """One HTML file: words, tables and figures, with nothing to be loaded from anywhere.

    Of a running service, ``root`` is the way to where it begins, for links to its other pages.
    """
    return PAGES.get_template("report.html").render(**_page_parts(found), root=root).encode()


def fragment(found: Findings) -> str:
    """What a notebook shows: the words and tables of the page."""
    lead, sections = _words(found)
    return PAGES.get_template("notebook.html").render(
        title=_title(found), lead=lead, sections=sections, cautions=found.cautions
    )


def sheet(found: Findings) -> bytes:
    """One PNG picture."""
    return to_png(sheet_of(found, _title(found), _subtitle(found)))


class _Cell(NamedTuple):
    """One field of a table."""

    text: str
    tone: str = ""
    below: str = ""


class _Section(NamedTuple):
    """A heading, some words, and a table whose first and last columns hold words."""

    title: str
    headings: tuple[str, ...] = ()
    rows: Sequence[tuple[_Cell, ...]] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()


_HEADINGS: Final = ("measure", "value", "95% interval", "if calibrated", "95% of those below", "p", "verdict")


def _page_parts(found: Findings) -> dict[str, Any]:
    """What the template shows."""
    lead, sections = _words(found)
    pictures, missing = pictures_of(found)
    return {
        "title": _title(found),
        "lead": lead,
        "sections": sections,
        "pictures": [
            {"title": each.title, "explanation": each.explanation, "svg": Markup(to_svg(each.figure))}  # noqa: S704 - our own
            for each in pictures
        ],
        "notes": [*found.notes, *missing],
        "cautions": found.cautions,
    }


def _words(found: Findings) -> tuple[_Cell, list[_Section]]:
    if found.many is not None:
        lead, sections = _of_classes(found, found.many)
    elif found.comparison is not None:
        lead, sections = _of_two(found, found.comparison)
    else:
        lead, sections = _of_one(found, found.binary)
    if found.local is not None:
        features = ", ".join(map(plain, found.local.features))
        sections.append(_Section(f"Among events that are alike: {features}", before=[found.local.sentence]))
    return lead, sections


def _of_one(findings: Findings, found: FileReport | None) -> tuple[_Cell, list[_Section]]:
    if found is None:
        return _Cell("Nothing was measured."), []
    whole = found.whole
    after = [*_more(findings, whole.measures), *omitted_lines(findings, whole)]
    sections = [_Section("The measures", _HEADINGS, _results(findings, whole), head_lines(whole), after)]
    if found.segments:
        sections.append(_segments(found.segments, "Segments, worst first", [segments_sentence(found.segments)]))
    if found.search is not None:
        before = search_sentences(found.search)
        sections.append(_segments(found.search.segments, "Segments that were found, worst first", before))
    return _verdict(whole), sections


def _of_two(findings: Findings, found: Comparison) -> tuple[_Cell, list[_Section]]:
    first, second = plain(found.first.model), plain(found.second.model)
    rows: list[tuple[_Cell, ...]] = [
        (
            _Cell(MEASURES[name].title),
            _Cell(value_text(each.first, each.unit)),
            _Cell(value_text(each.second, each.unit)),
            _Cell(value_text(each.difference, each.unit)),
            _Cell(interval_text(each.lower, each.upper, each.unit)),
            _Cell(p_text(each.p_value)),
            _cell(of_difference(each, comparable=not found.cautions)),
        )
        for name, each in findings.shown(found.differences).items()
    ]
    rows += [(*map(_Cell, row), *[_Cell("")] * 4) for row in fault_rows(found)]
    headings = ("measure", first, second, "difference", "95% interval", "p", f"{second} is")
    after = _more(findings, found.differences)
    sections = [_Section("The measures of both", headings, rows, after=after)]
    for report in (found.first, found.second):
        said = [] if report.diagnosis is None else [report.diagnosis.sentence]
        sections.append(_Section(plain(report.model), before=[*head_lines(report), *said]))
    return _Cell(comparison_sentence(found)), sections


def _of_classes(findings: Findings, found: ClassReport) -> tuple[_Cell, list[_Section]]:
    results = [
        *((CLASS_MEASURES[name].title, each) for name, each in found.measures.items()),
        *((f"{MEASURES[name].title}, class-wise", each) for name, each in findings.shown(found.classwise).items()),
    ]
    sections = [
        _Section(
            "Whole vectors, and means over the classes",
            _HEADINGS,
            [_result(title, each) for title, each in results],
            class_head_lines(found),
            omitted_lines(findings, found),
        ),
        _Section(
            "The most probable class",
            _HEADINGS,
            _results(findings, found.top_label),
            head_lines(found.top_label),
            _more(findings, found.top_label.measures),
        ),
    ]
    if found.each_class:
        rows = [
            (
                _Cell(plain(name)),
                _Cell(f"{report.positives:,}"),
                _Cell(share_text(report.prevalence)),
                _Cell(share_text(report.mean_prediction)),
                *_short_result(report, "smce"),
                _cell(of_report(report)),
            )
            for name, report in zip(findings.class_names, found.each_class, strict=True)
        ]
        headings = ("class", "events", "prevalence", "mean p", "smCE", "95% interval", "chance", "verdict")
        sections.append(_Section("Each class against the rest", headings, rows))
    return _verdict(found.top_label), sections


def _more(findings: Findings, results: Mapping[str, object]) -> list[str]:
    line = more_line(findings, results)
    return [f"{line[:1].upper()}{line[1:]}; Python has them in measures."] if line else []


def _segments(segments: Sequence[SegmentReport], title: str, before: Sequence[str]) -> _Section:
    if not segments:
        return _Section(title, before=before)
    name = leading_of(segments)
    rows = [
        (
            _Cell(plain(each.report.segment)),
            _Cell(f"{each.report.n:,}"),
            _Cell(share_text(each.report.prevalence)),
            _Cell(share_text(each.report.mean_prediction)),
            *_short_result(each.report, name),
            _Cell(p_text(each.p_value)),
            _Cell(p_text(each.q_value)),
            _Cell(segment_text(each), _TONES.get(of_segment(each).style, "")),
        )
        for each in segments
    ]
    headings = (
        "segment",
        "n",
        "prevalence",
        "mean p",
        MEASURES[name].title,
        "95% interval",
        "chance",
        "p",
        "q",
        "verdict",
    )
    return _Section(title, headings, rows, before)


def _results(findings: Findings, report: Report) -> list[tuple[_Cell, ...]]:
    return [_result(MEASURES[name].title, each) for name, each in findings.shown(report.measures).items()]


def _result(title: str, result: MeasureResult) -> tuple[_Cell, ...]:
    return (
        _Cell(title),
        _Cell(value_text(result.value, result.unit)),
        _Cell(interval_text(result.lower, result.upper, result.unit)),
        _Cell(value_text(result.null_mean, result.unit)),
        _Cell(value_text(result.null_q95, result.unit)),
        _Cell(p_text(result.p_value)),
        _cell(of_measure(result)),
    )


def _short_result(report: Report, name: str) -> tuple[_Cell, ...]:
    result = report.measures.get(name)
    return tuple(map(_Cell, ("-", "-", "-") if result is None else short_texts(result)))


def _cell(word: Word) -> _Cell:
    return _Cell(word.value, _TONES.get(word.style, ""))


def _verdict(report: Report) -> _Cell:
    if report.diagnosis is None:
        return _Cell(report.insufficient or "")
    word = of_report(report)
    return _Cell(f"{word.value[:1].upper()}{word.value[1:]}. {report.diagnosis.sentence}", _TONES[word.style])


def _subtitle(found: Findings) -> str:
    if found.many is not None:
        verdict = f"The most probable class: {_verdict(found.many.top_label).text}"
        return "\n".join([verdict, *class_head_lines(found.many)])
    if found.binary is None:
        return ""
    whole = found.binary.whole
    return "\n".join([_verdict(whole).text, *head_lines(whole)])


def _title(found: Findings) -> str:
    if found.comparison is not None:
        return f"Calibration of {plain(found.comparison.second.model)} against {plain(found.comparison.first.model)}"
    return f"Calibration of {plain(found.name)}"
