"""What was found in a table, on a terminal."""

from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Comparison
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.report import Performance, Report
from monitor.reports.findings import Findings
from monitor.reports.plain import plain
from monitor.reports.report_tables import (
    comparison_sentence,
    differences_table,
    search_sentences,
    segments_sentence,
    segments_table,
)
from monitor.reports.tables import measures_table, reports_table, results_table, share_text, time_text
from monitor.reports.verdict import of_report

_WIDTH = 144
"""Of a table that no terminal bounds."""


def report_console() -> Console:
    """The terminal; into a file or a pipe, a table is not squeezed into the 80 columns of one that is not there."""
    # A value of a column such as "[bold]" or ":new:" is shown as it stands.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDTH
    return console


def print_findings(console: Console, found: Findings) -> None:
    """Say what was found, the most telling thing first."""
    for note in found.notes:
        console.print(Text(f"note: {plain_line(note)}", style="dim"))
    for caution in found.cautions:
        console.print(Text(f"mind: {plain_line(caution)}", style="yellow"))
    if found.many is not None:
        _print_many(console, found, found.many)
    elif found.comparison is not None:
        _print_comparison(console, found, found.comparison)
    elif found.binary is not None:
        _print_one(console, found, found.binary)
    if found.local is not None:
        console.print(Text(f"\nlocal calibration over {', '.join(map(plain, found.local.features))}", style="bold"))
        console.print(Text(found.local.sentence))


def plain_line(text: str) -> str:
    """A sentence with what would steer a terminal spelled out; it is not cut."""
    return "".join(plain(each) for each in text)


def head_lines(report: Report) -> list[str]:
    """What a report is about, in lines."""
    lines = [
        f"{plain(report.model)}: {_predictions(report.predictions)}, {report.n:,} with an outcome",
        f"prevalence {share_text(report.prevalence)}, mean prediction {share_text(report.mean_prediction)}",
    ]
    if report.performance is not None:
        lines.append(_performance(report.performance))
    if report.from_ms is not None and report.to_ms is not None:
        lines.append(f"from {time_text(report.from_ms)} to {time_text(report.to_ms - 1)} UTC")
    return lines


def _performance(scores: Performance) -> str:
    """How good the model is beside its calibration, in a line."""
    rest = ((scores.auc, "AUC"), (scores.average_precision, "average precision"), (scores.log_loss, "log loss"))
    return ", ".join(
        [
            f"accuracy {share_text(scores.accuracy)}",
            *(f"{name} {value:.3f}" for value, name in rest if value is not None),
        ]
    )


def class_head_lines(found: ClassReport) -> list[str]:
    """What a report of many classes is about, in lines."""
    top = found.top_label
    return [
        f"{plain(top.model)}: {_predictions(top.predictions)} of {found.classes} classes, {found.n:,} with an outcome",
        f"accuracy {share_text(found.accuracy)}, mean of the largest probability {share_text(top.mean_prediction)}",
    ]


def _predictions(number: int) -> str:
    return f"{number:,} prediction{'' if number == 1 else 's'}"


def more_line(findings: Findings, results: Mapping[str, object]) -> str:
    """How many measures are not shown, and how to see them; nothing where all are."""
    left = len(results) - len(findings.shown(results))
    return f"and {left} more measure{'' if left == 1 else 's'}, which --all shows" if left else ""


def omitted_lines(findings: Findings, found: Report | ClassReport) -> list[str]:
    """Measures that would be shown and are not there, and why."""
    titles = {name: each.title for name, each in MEASURES.items()}
    titles |= {name: each.title for name, each in CLASS_MEASURES.items()}
    return [f"{titles[name]} is left out: {reason}" for name, reason in findings.shown(found.omitted).items()]


def _print_verdict(console: Console, report: Report) -> None:
    if report.diagnosis is not None:
        verdict = of_report(report)
        words = verdict.value[:1].upper() + verdict.value[1:]
        console.print(Text.assemble((words, verdict.style), ". ", report.diagnosis.sentence))


def _print_measures(console: Console, findings: Findings, report: Report) -> None:
    shown = replace(report, measures=findings.shown(report.measures))
    table = measures_table(shown, console.width)
    if more := more_line(findings, report.measures):
        table.caption = f"{table.caption}\n{more}" if table.caption else more
        table.caption_justify = "left"
    console.print(table)


def _print_one(console: Console, findings: Findings, found: FileReport) -> None:
    whole = found.whole
    _print_verdict(console, whole)
    console.print(Text("\n".join(head_lines(whole))))
    if whole.insufficient is not None:
        console.print(Text(f"no measures: {whole.insufficient}"))
    else:
        _print_measures(console, findings, whole)
    for line in omitted_lines(findings, whole):
        console.print(Text(line, style="dim"))
    if found.segments:
        console.print(segments_table(found.segments, console.width))
        console.print(Text(segments_sentence(found.segments)))
    if found.search is not None:
        if found.search.segments:
            console.print(segments_table(found.search.segments, console.width, "segments that were found, worst first"))
        else:
            console.print()
        for line in search_sentences(found.search):
            console.print(Text(line))


def _print_comparison(console: Console, findings: Findings, found: Comparison) -> None:
    console.print(Text(comparison_sentence(found), style="bold"))
    for report in (found.first, found.second):
        console.print(Text("\n".join(["", *head_lines(report)])))
        if report.insufficient is not None:
            console.print(Text(f"no measures: {report.insufficient}"))
        _print_verdict(console, report)
    if found.differences:
        table = differences_table(found, console.width, findings.shown(found.differences))
        table.caption, table.caption_justify = more_line(findings, found.differences) or None, "left"
        console.print(table)


def _print_many(console: Console, findings: Findings, found: ClassReport) -> None:
    console.print(Text("\n".join(class_head_lines(found))))
    if found.insufficient is not None:
        console.print(Text(f"no measures: {found.insufficient}"))
        return
    vectors = [(CLASS_MEASURES[name].title, each) for name, each in found.measures.items()]
    means = [(f"{MEASURES[name].title}, class-wise", each) for name, each in findings.shown(found.classwise).items()]
    console.print(Text("whole vectors, and means over the classes", style="bold"))
    console.print(results_table([*vectors, *means], console.width))
    console.print(Text("the most probable class", style="bold"))
    _print_verdict(console, found.top_label)
    _print_measures(console, findings, found.top_label)
    for line in omitted_lines(findings, found):
        console.print(Text(line, style="dim"))
    if found.each_class:
        named = zip(findings.class_names, found.each_class, strict=True)
        each_class = [replace(each, segment=plain(name)) for name, each in named]
        table = reports_table(
            each_class, columns=("segment",), width=console.width, title="each class against the rest"
        )
        table.columns[0].header = "class"
        console.print(table)
