"""What a report or a comparison says: its lead, sentences and tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rich.table import Table as RichTable

from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Difference, ReportComparison
from monitor.reports.evaluation.files import FileReport, SearchReport
from monitor.reports.evaluation.report import (
    MeasureResult,
    Performance,
    Report,
    Severity,
    Verdict,
    leading_measure,
)
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.findings import Findings, GroupFindings
from monitor.reports.formatting import (
    bound_text,
    interval_text,
    p_text,
    plain,
    rounded_share,
    share_text,
    time_text,
    value_text,
)
from monitor.reports.view import (
    WIDE,
    Cell,
    Column,
    Lead,
    Table,
    View,
    ViewSection,
    Word,
    rich_table,
    row,
)

_CHANCE_STYLES: Final = {
    "not judged": "dim",
    "within chance": "green",
    "beyond chance": "yellow",
    "below chance": "yellow",
    "too little data": "dim",
}
_SEVERITY_STYLES: Final = {
    None: "dim",
    Severity.NONE: "green",
    Severity.SLIGHT: "yellow",
    Severity.MODERATE: "bold red",
    Severity.SEVERE: "bold red",
}

_SHOWN: Final = ("tce", "kce", "smce", "intce")
"""The measures of a table with one row per report."""
_MAX_SMALL: Final = 5
"""Segments of too little data that a terminal lists; a column of many values has dozens."""
_MAX_GROUPS: Final = 100
"""Reports by columns and spans of time that a terminal lists."""
_MAX_NAMED: Final = 8
"""Columns that a sentence lists."""
_LOGITS_WIDTH: Final = 132
"""Width from which a terminal shows offsets and slopes of two models with their intervals."""
_LEVELS_WIDTH: Final = 112
_SHARES_WIDTH: Final = 101
_FULL_WIDTH: Final = 142
"""Widths from which a table of reports shows the level of each measure; prevalence and mean prediction; both."""

_READING: Final = (
    '"If calibrated" and "95% of those below" say what a perfectly calibrated model that makes the same predictions '
    "shows by chance alone. A value is to be compared with those, and never with 0. p is how often such a model does "
    "as badly; q is p corrected for the number of segments that were looked at."
)
_CHANCE: Final = "chance: what a perfectly calibrated model stays below in 95% of cases"
_IN_PARENTHESES: Final = "in parentheses: what a perfectly calibrated model stays below in 95% of cases"

_ERROR_BOUND: Final = "error bound"

_MEASURE_COLUMNS: Final = (
    Column("measure", words=True),
    Column("value"),
    Column(_ERROR_BOUND),
    Column("95% interval"),
    Column("if calibrated", min_width=WIDE),
    Column("95% of those below", narrow_heading="chance"),
    Column("p", min_width=WIDE),
    Column("verdict", words=True),
)


def _chance_word(verdict: str) -> Word:
    return Word(verdict, _CHANCE_STYLES[verdict])


def judge_measure(result: MeasureResult) -> Word:
    """Judge whether chance explains a value."""
    return _chance_word(result.verdict)


def judge_report(report: Report) -> Word:
    """Return the verdict of the diagnosis with its severity, in the words of REST and Prometheus."""
    if report.diagnosis is None:
        return _chance_word("not judged")
    return Word(report.diagnosis.words, _SEVERITY_STYLES[report.diagnosis.severity])


def verdicts_of(reports: Iterable[Report]) -> list[Verdict]:
    """Return the verdicts of reports, each once."""
    found = (
        Verdict.INSUFFICIENT if report.diagnosis is None else report.diagnosis.verdict
        for report in reports
        if report.diagnosis is not None or report.insufficient is not None
    )
    return list(dict.fromkeys(found))


def judge_segment(segment: SegmentReport) -> Word:
    """Judge a segment, corrected for the number of segments."""
    if segment.q_value is None:
        return _chance_word("too little data")
    if not segment.significant:
        return _chance_word("within chance")
    diagnosis = segment.report.diagnosis
    # Significant, and too small to matter.
    small = diagnosis is not None and diagnosis.verdict in {Verdict.CALIBRATED, Verdict.INSUFFICIENT}
    return _chance_word("beyond chance") if small or diagnosis is None else judge_report(segment.report)


def judge_difference(difference: Difference, *, comparable: bool = True) -> Word:
    """Judge whether the second model is better by one measure, or only lower where prevalences differ."""
    if not difference.significant:
        return Word("not certain", "dim")
    lower = difference.difference < 0.0
    if not comparable:
        return Word("lower" if lower else "higher", "")
    return Word("better", "green") if lower else Word("worse", "bold red")


def report_view(findings: Findings) -> View:
    """Build the view of a report or a comparison."""
    title = f"Calibration of {plain(findings.name)}"
    result, lead = findings.result, _verdict_lead(findings.report)
    if isinstance(result, ClassReport):
        lead = lead._replace(word=f"The most probable class: {lead.word}" if lead.word else "")
        sections = _class_sections(findings, result)
    elif isinstance(result, ReportComparison):
        title = f"Calibration of {plain(result.second.model)} against {plain(result.first.model)}"
        lead = Lead(comparison_sentence(result), "bold")
        sections = _comparison_sections(findings, result)
    else:
        sections = _binary_sections(findings, result)
        lead = _with_worst_segment(lead, result)
    if findings.local is not None:
        features = ", ".join(map(plain, findings.local.features))
        sections.append(ViewSection(f"Among events that are alike: {features}", [findings.local.sentence]))
    return View(title, lead, sections, findings.notes, findings.cautions, _READING)


def _verdict_lead(report: Report) -> Lead:
    """Lead with the verdict on a report and what it means, or why there is none."""
    if report.diagnosis is None:
        return Lead(report.insufficient or "")
    word = judge_report(report)
    return Lead(report.diagnosis.sentence, word.style, f"{word.value[:1].upper()}{word.value[1:]}")


def _with_worst_segment(lead: Lead, report: FileReport) -> Lead:
    """Name the segment that is significantly and more severely off than the whole: who is hurt comes first."""
    segments = [*report.segments, *(() if report.search is None else report.search.segments)]
    worst = max((segment for segment in segments if segment.significant), key=_rank_of, default=None)
    if worst is None or _rank_of(worst) <= _severity_rank(report.whole):
        return lead
    of, word = worst.report, judge_segment(worst)
    means = f"{rounded_share(of.mean_prediction)} predicted, {rounded_share(of.prevalence)} came true"
    return lead._replace(text=f"{lead.text} Worse for {plain(of.segment)}: {word.value}, {means}.", style=word.style)


def _rank_of(segment: SegmentReport) -> int:
    return _severity_rank(segment.report)


def _severity_rank(report: Report) -> int:
    severity = None if report.diagnosis is None else report.diagnosis.severity
    return 0 if severity is None else severity.rank


def head_lines(report: Report) -> list[str]:
    """Describe what a report is about."""
    lines = [
        f"{plain(report.model)}: {_predictions(report.predictions)}, {report.n:,} with an outcome",
        f"prevalence {share_text(report.prevalence)}, mean prediction {share_text(report.mean_prediction)}",
    ]
    if report.performance is not None:
        lines.append(_performance(report.performance))
    if report.from_ms is not None and report.to_ms is not None:
        lines.append(f"from {time_text(report.from_ms)} to {time_text(report.to_ms - 1)} UTC")
    return lines


def class_head_lines(report: ClassReport) -> list[str]:
    """Describe what a report of many classes is about."""
    top = report.top_label
    number = f"{_predictions(top.predictions)} of {report.classes} classes"
    return [
        f"{plain(top.model)}: {number}, {report.n:,} with an outcome",
        f"accuracy {share_text(report.accuracy)}, mean of the largest probability {share_text(top.mean_prediction)}",
    ]


def _predictions(number: int) -> str:
    return f"{number:,} prediction{'' if number == 1 else 's'}"


def _performance(scores: Performance) -> str:
    """Describe how well the model tells outcomes apart, besides its calibration."""
    rest = ((scores.auc, "AUC"), (scores.average_precision, "average precision"), (scores.log_loss, "log loss"))
    others = (f"{name} {value:.3f}" for value, name in rest if value is not None)
    return ", ".join([f"accuracy {share_text(scores.accuracy)}", *others])


def _binary_sections(findings: Findings, report: FileReport) -> list[ViewSection]:
    whole = report.whole
    omitted, hidden = _omitted(findings, whole), _hidden(findings, whole.measures)
    sections = [
        ViewSection("The measures", head_lines(whole), _measures(findings, whole), omitted, implied=True, hints=hidden)
    ]
    if report.segments:
        lines = [segments_sentence(report.segments)]
        sections.append(ViewSection("Segments, worst first", lines, segments_table(report.segments)))
    if report.search is not None:
        groups = report.search.segments
        table = segments_table(groups) if groups else None
        sections.append(ViewSection("Segments that were found, worst first", search_sentences(report.search), table))
    return sections


def _class_sections(findings: Findings, report: ClassReport) -> list[ViewSection]:
    top = report.top_label
    means = findings.shown(report.classwise)
    results: dict[str, MeasureResult] = {CLASS_MEASURES[name].title: result for name, result in report.measures.items()}
    results |= {f"{MEASURES[name].title}, class-wise": result for name, result in means.items()}
    whole = "Whole vectors, and means over the classes"
    sections = [
        ViewSection(whole, class_head_lines(report), measures_table(results), _omitted(findings, report)),
        ViewSection(
            "The most probable class", head_lines(top), _measures(findings, top), hints=_hidden(findings, top.measures)
        ),
    ]
    if report.each_class:
        sections.append(
            ViewSection("Each class against the rest", table=classes_table(findings.class_names, report.each_class))
        )
    return sections


def _comparison_sections(findings: Findings, comparison: ReportComparison) -> list[ViewSection]:
    table = differences_table(comparison, findings.shown(comparison.differences)) if comparison.differences else None
    hidden = _hidden(findings, comparison.differences)
    sections = [ViewSection("The measures of both", (), table, implied=True, hints=hidden)]
    for report in (comparison.first, comparison.second):
        lead = _verdict_lead(report).sentence
        sections.append(ViewSection(plain(report.model), [*head_lines(report), *([lead] if lead else [])]))
    return sections


def _hidden(findings: Findings, results: Mapping[str, object]) -> list[str]:
    """Say how many measures are not shown, and how to see them."""
    number = len(results) - len(findings.shown(results))
    if not number:
        return []
    return [f"And {number} more measure{'' if number == 1 else 's'}, which --all shows; Python has them in measures."]


def _omitted(findings: Findings, report: Report | ClassReport) -> list[str]:
    """Measures that would be shown and could not be computed, and why."""
    titles = {name: measure.title for measures in (MEASURES, CLASS_MEASURES) for name, measure in measures.items()}
    return [f"{titles[name]} is left out: {reason}" for name, reason in findings.shown(report.omitted).items()]


def _measures(findings: Findings, report: Report) -> Table | None:
    shown = findings.shown(report.measures)
    return measures_table({MEASURES[name].title: result for name, result in shown.items()}) if shown else None


def measures_table(results: Mapping[str, MeasureResult]) -> Table:
    """List results by title, one row per measure; with error bounds where values are of cells, not of raw rows."""
    on_cells = any(result.error_bound for result in results.values())
    rows = [
        row(
            title,
            value_text(result.value, result.unit),
            *([bound_text(result.error_bound, result.unit)] if on_cells else []),
            interval_text(result.lower, result.upper, result.unit),
            value_text(result.null_mean, result.unit),
            value_text(result.null_q95, result.unit),
            p_text(result.p_value),
            judge_measure(result),
        )
        for title, result in results.items()
    ]
    columns = [column for column in _MEASURE_COLUMNS if on_cells or column.heading != _ERROR_BOUND]
    return Table(columns, rows, narrow_caption=_CHANCE)


def _short(result: MeasureResult | None) -> tuple[str, str, str]:
    """Format a measure, its interval, and what chance gives."""
    if result is None:
        return "-", "-", "-"
    unit = result.unit
    interval = interval_text(result.lower, result.upper, unit)
    return value_text(result.value, unit), interval, value_text(result.null_q95, unit)


def groups_view(findings: GroupFindings) -> View:
    """Build the view of reports by columns and spans of time."""
    reports = [report for _, report in findings.result.groups]
    by = " and ".join(map(plain, findings.result.by))
    table = segments_table(reports)
    more = max(0, len(reports) - _MAX_GROUPS)
    caption = f"and {more:,} more, which --json, --html and --output list" if more else ""
    table = table._replace(caption=caption, max_rows=len(reports) - more)
    lead = Lead(segments_sentence(reports) if reports else "There are no rows.")
    section = ViewSection(f"Reports by {by}", table=table if reports else None)
    return View(
        f"Calibration of {plain(findings.name)} by {by}", lead, [section], findings.notes, findings.cautions, _READING
    )


def segments_table(segments: Sequence[SegmentReport]) -> Table:
    """List segments, worst first, those of too little data last."""
    name = leading_measure(name for segment in segments for name in segment.report.measures)
    columns = (
        Column("segment", words=True, folds=True),
        Column("n"),
        Column("prevalence", min_width=WIDE),
        Column("mean p", min_width=WIDE),
        Column(MEASURES[name].title),
        Column("95% interval"),
        Column("chance", min_width=WIDE),
        Column("p", min_width=WIDE),
        Column("q"),
        Column("verdict", words=True, folds=True),
    )
    rows = [
        row(
            plain(segment.report.segment),
            f"{segment.report.n:,}",
            share_text(segment.report.prevalence),
            share_text(segment.report.mean_prediction),
            *_short(segment.report.measures.get(name)),
            p_text(segment.p_value),
            p_text(segment.q_value),
            Cell(segment_text(segment), judge_segment(segment).style),
        )
        for segment in segments
    ]
    small = sum(segment.q_value is None for segment in segments)
    more = max(0, small - _MAX_SMALL)
    caption = f"and {more} more of too little data, which --json lists" if more else ""
    return Table(columns, rows, caption, dense=True, max_rows=len(rows) - more)


def segment_text(segment: SegmentReport) -> str:
    """Return the verdict on a segment, with the reason where there is none."""
    word, reason = judge_segment(segment).value, segment.report.insufficient
    return word if reason is None or segment.q_value is not None else f"{word}: {reason}"


def classes_table(names: Sequence[str], reports: Sequence[Report]) -> Table:
    """List the reports of classes, one row each; a wide terminal also shows TCE, kCE and intCE with their levels."""
    name = leading_measure(name for report in reports for name in report.measures)
    others = [other for other in _SHOWN if other != name and any(other in report.measures for report in reports)]
    columns = (
        Column("class", words=True, folds=True),
        Column("events"),
        Column("prevalence", min_width=WIDE),
        Column("mean p", min_width=WIDE),
        *(Column(MEASURES[other].title, min_width=_FULL_WIDTH) for other in others),
        Column(MEASURES[name].title),
        Column("95% interval"),
        Column("chance"),
        Column("verdict", words=True, folds=True),
    )
    rows = [
        row(
            plain(class_name),
            f"{report.positives:,}",
            share_text(report.prevalence),
            share_text(report.mean_prediction),
            *(_measure_cell(report.measures.get(other), level=True) for other in others),
            *_short(report.measures.get(name)),
            judge_report(report),
        )
        for class_name, report in zip(names, reports, strict=True)
    ]
    return Table(columns, rows, _IN_PARENTHESES if others else "", narrow_caption=_CHANCE, dense=True)


def differences_table(comparison: ReportComparison, shown: Mapping[str, Difference] | None = None) -> Table:
    """List the measures of two reports, and the offset and slope of their logits."""
    first, second = plain(comparison.first.model), plain(comparison.second.model)
    columns = (
        Column("measure", words=True),
        Column(first, folds=True),
        Column(second, folds=True),
        Column("difference", min_width=WIDE),
        Column("95% interval", narrow_heading="95% of difference"),
        Column("p", min_width=WIDE),
        Column(f"{second} is", words=True, folds=True),
    )
    rows = [
        row(
            MEASURES[name].title,
            value_text(difference.first, difference.unit),
            value_text(difference.second, difference.unit),
            value_text(difference.difference, difference.unit),
            interval_text(difference.lower, difference.upper, difference.unit),
            p_text(difference.p_value),
            judge_difference(difference, comparable=not comparison.cautions),
        )
        for name, difference in (comparison.differences if shown is None else shown).items()
    ]
    logits = [row(*texts, "", "", "", "") for texts in logit_rows(comparison)]
    return Table(columns, [*rows, *logits], max_rows=len(rows), full_width=_LOGITS_WIDTH)


def logit_rows(comparison: ReportComparison) -> list[tuple[str, ...]]:
    """Offset and slope of the logits of both, with 95% intervals: they compare models of different prevalences."""
    diagnoses = [report.diagnosis for report in (comparison.first, comparison.second) if report.diagnosis is not None]
    if len(diagnoses) < 2:
        return []
    offsets = [_logit_text(diagnosis.offset, diagnosis.offset_interval) for diagnosis in diagnoses]
    slopes = [_logit_text(diagnosis.slope, diagnosis.slope_interval) for diagnosis in diagnoses]
    rows = (("offset of the logits", *offsets), ("slope of the logits", *slopes))
    return [texts for texts in rows if texts[1:] != ("-", "-")]


def _logit_text(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def segments_sentence(segments: Sequence[SegmentReport]) -> str:
    """Say which segments are miscalibrated."""
    tested = [segment for segment in segments if segment.q_value is not None]
    miscalibrated = [segment for segment in tested if segment.significant]
    if not tested and any(segment.report.measures for segment in segments):
        return "Segments are not judged: without draws there are no verdicts."
    if not tested:
        return f"None of {len(segments)} segments holds enough outcomes to be judged."
    small = len(segments) - len(tested)
    rest = f" {small} {'holds' if small == 1 else 'hold'} too little data to be judged." if small else ""
    if not miscalibrated:
        chance = f"what looking at {len(tested)} of them gives by chance (q > 0.05)"
        return f"No segment is miscalibrated beyond {chance}.{rest}"
    be = "is" if len(miscalibrated) == 1 else "are"
    return (
        f"{len(miscalibrated)} of {len(tested)} segments {be} miscalibrated (q <= 0.05: at most one in twenty of those "
        f"named so is by chance): {_named(miscalibrated)}.{rest}"
    )


def _named(segments: Sequence[SegmentReport]) -> str:
    # The name of a segment of two columns has a comma in it.
    return "; ".join(plain(segment.report.segment) for segment in segments[:5]) + (
        "; and others" if len(segments) > 5 else ""
    )


def search_sentences(search: SearchReport) -> list[str]:
    """Describe the result of a search for segments."""
    columns = ", ".join(map(plain, search.columns[:_MAX_NAMED])) + (", ..." if len(search.columns) > _MAX_NAMED else "")
    if not search.groups:
        return [f"No segment could be looked for: no column has groups of enough outcomes ({columns or 'none'})."]
    groups = f"{search.groups:,} group{'' if search.groups == 1 else 's'} of one and two columns ({columns})"
    if search.segments:
        are, their = ("is", "its") if len(search.segments) == 1 else ("are", "their")
        sentence = (
            f"Of {groups}, {len(search.segments)} {are} off in a way of {their} own, beyond what is wrong with the "
            "whole and with each other (q <= 0.05: where nothing is wrong, one search in twenty names a group): "
            f"{_named(search.segments)}."
        )
    else:
        sentence = (
            f"None of {groups} is off in a way of its own, beyond what is wrong with the whole and what looking at so "
            "many gives by chance (q > 0.05)."
        )
    if search.closest is None:
        return [sentence]
    return [sentence, f"Next would be {plain(search.closest[0])} (q = {p_text(search.closest[1])})."]


def comparison_sentence(comparison: ReportComparison) -> str:
    """Say which of two models is better calibrated, by smCE or the first measure both have."""
    if not comparison.differences:
        return "The two cannot be compared: there is too little data."
    name = leading_measure(comparison.differences)
    result, title = comparison.differences[name], MEASURES[name].title
    first, second = plain(comparison.first.model), plain(comparison.second.model)
    if result.lower is None or result.upper is None:
        one, two = value_text(result.first, result.unit), value_text(result.second, result.unit)
        return f"{title} is {one} for {first} and {two} for {second}; without draws there is no interval."
    if not result.significant:
        return (
            f"Neither is better calibrated for certain: {title} of {second} less that of {first} is "
            f"{value_text(result.difference, result.unit)} "
            f"(95% {interval_text(result.lower, result.upper, result.unit)})."
        )
    better, worse = (second, first) if result.difference < 0.0 else (first, second)
    low, high = sorted((abs(result.lower), abs(result.upper)))
    size, interval = value_text(abs(result.difference), result.unit), interval_text(low, high, result.unit)
    if comparison.cautions:
        return (
            f"{title} of {better} is lower than that of {worse} by {size} (95% {interval}), which of different "
            "prevalences does not say which is better calibrated."
        )
    return f"{better} is better calibrated than {worse}: {title} is lower by {size} (95% {interval})."


def reports_table(
    reports: Sequence[Report], *, columns: Sequence[str], width: int, evidence: Callable[[Report], Word] | None = None
) -> RichTable:
    """List reports, for a terminal of ``width`` characters, with their verdicts, or with what the evidence says.

    ``columns`` are those of model, version, segment and window that tell the reports apart. The narrower the terminal,
    the fewer columns stand beside the four measures.
    """
    levels, full = width >= _LEVELS_WIDTH, width >= _FULL_WIDTH
    shares = full or _SHARES_WIDTH <= width < _LEVELS_WIDTH
    numbers = ["n", *(["labelled"] if full else []), *(["prevalence", "mean p"] if shares else [])]
    headings = (
        *(Column(name, words=True, folds=name == "segment") for name in columns),
        *(Column(name) for name in (*numbers, *(MEASURES[name].title for name in _SHOWN))),
        Column("verdict" if evidence is None else "evidence", words=True, folds=True),
    )
    judge = evidence or judge_report
    rows = []
    for report in reports:
        texts = {
            "n": f"{report.n:,}",
            "labelled": share_text(report.label_coverage),
            "prevalence": share_text(report.prevalence),
            "mean p": share_text(report.mean_prediction),
        }
        rows.append(
            row(
                *(getattr(report, name) for name in columns),
                *(texts[name] for name in numbers),
                *(_measure_cell(report.measures.get(name), level=levels) for name in _SHOWN),
                judge(report),
            )
        )
    return rich_table(Table(headings, rows, _IN_PARENTHESES if levels else "", dense=True), width)


def distinguishing_columns(reports: Iterable[Report]) -> list[str]:
    """Model and window, and version and segment where there are several."""
    reports = list(reports)
    return [
        name
        for name in ("model", "version", "segment", "window")
        if name in {"model", "window"} or len({getattr(report, name) for report in reports}) > 1
    ]


def _measure_cell(result: MeasureResult | None, *, level: bool) -> Cell:
    if result is None:
        return Cell("-", "dim")
    note = f" ({_short_value(result.null_q95, result.unit)})" if level else ""
    return Cell(_short_value(result.value, result.unit), judge_measure(result).style, note=note)


def _short_value(value: float | None, unit: str) -> str:
    return value_text(value, unit).removeprefix("0") if unit == "ratio" else value_text(value, unit)
