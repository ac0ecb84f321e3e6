"""`monitor report`: how calibrated a file is, with no service."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from monitor.app.offline import LogReport, report_log
from monitor.cli.options import ConfigOption, read_settings
from monitor.cli.progress import bytes_progress, rows_progress
from monitor.cli.tables import measures_table, reports_table, share_text, telling, time_text
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.evaluation.files import FileReport, looks_like_event_log, model_of, report_table
from monitor.evaluation.report import Report
from monitor.sources.tables import read_table
from monitor.stream import fates

app = typer.Typer(add_completion=False)

_WIDTH = 140
"""Of a table that no terminal bounds."""


@app.command(
    epilog="Examples: `monitor report predictions.parquet --prediction score --outcome label --segment region`; "
    "`monitor report events.jsonl --json`."
)
def report(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A table of predictions and outcomes (.csv, .tsv, .parquet, .jsonl, text also .gz), or JSON lines of "
            "events as they went through the topic.",
        ),
    ],
    *,
    prediction: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with P(y = 1); guessed if left out.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the outcome, 0 or 1; guessed if left out.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the time; guessed if left out.")
    ] = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Report on each value of this column, too. May be given several times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as REST does.")] = False,
    config: ConfigOption = None,
) -> None:
    """Report on the calibration of a file.

    A table is measured as it stands, exactly. A log of events is joined, windowed and matured with the horizon, the
    windows and the segments of the settings, as the service does it.
    """
    if not file.exists():
        raise InputError(f"{file}: no such file; name a CSV, Parquet or JSON lines file that is there")
    if file.is_dir():
        raise InputError(f"{file}: is a directory; name one file in it")
    named = {"--prediction": prediction, "--outcome": outcome, "--time": time, "--segment": segment}
    if not any(named.values()) and looks_like_event_log(file):
        settings = read_settings(config)
        with bytes_progress(f"reading {file.name}") as progress:
            log = report_log(file, settings, SystemClock(), progress)
        _print_log(file, log, as_json=as_json)
        return
    with rows_progress(f"reading {file.name}") as count:
        table = read_table(
            file, prediction=prediction, outcome=outcome, time=time, segments=segment or (), progress=count
        )
    found = report_table(table, model=model_of(file), seed=0)
    _print_table(found, as_json=as_json)


def _print_table(found: FileReport, *, as_json: bool) -> None:
    if as_json:
        tree = found.whole.to_dict()
        if found.segments:
            tree["segments"] = [each.to_dict() for each in found.segments]
        tree["notes"] = [*found.notes, *found.cautions]
        typer.echo(json.dumps(tree, indent=2))
        return
    console = _console()
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
    for caution in found.cautions:
        console.print(f"mind: {caution}", style="yellow", markup=False)
    _print_head(console, found.whole)
    if found.whole.insufficient is not None:
        console.print(f"no measures: {found.whole.insufficient}", markup=False)
    else:
        console.print(measures_table(found.whole))
    if found.segments:
        title = "segments, worst first"
        console.print(
            reports_table(
                [each.report for each in found.segments], columns=("segment",), width=console.width, title=title
            )
        )


def _print_head(console: Console, whole: Report) -> None:
    lines = [
        f"{whole.model}: {whole.predictions:,} predictions, {whole.n:,} with an outcome",
        f"prevalence {share_text(whole.prevalence)}, mean prediction {share_text(whole.mean_prediction)}",
    ]
    if whole.from_ms is not None and whole.to_ms is not None:
        lines.append(f"from {time_text(whole.from_ms)} to {time_text(whole.to_ms - 1)} UTC")
    console.print("\n".join(lines), markup=False)


def _print_log(file: Path, log: LogReport, *, as_json: bool) -> None:
    snapshot = log.snapshot
    if as_json:
        counts: dict[str, dict[str, int]] = {}
        for (kind, result), number in sorted(log.events.items()):
            if number:
                counts.setdefault(kind, {})[result] = number
        tree = {
            "reports": [report.to_dict() for report in snapshot.reports.values()],
            "failures": [
                {**key.series._asdict(), "window": key.window, "detail": detail}
                for key, detail in snapshot.failures.items()
            ],
            "events": counts,
            "dead_letters": dict(log.dead_letters),
        }
        typer.echo(json.dumps(tree, indent=2))
        return
    console = _console()
    total = sum(log.events.values())
    told = ", ".join(f"{number:,} {kind}s {result}" for (kind, result), number in _by_size(log) if number)
    console.print(f"{file.name}: {total:,} lines: {told or 'none'}".replace("_", " "), markup=False)
    if log.first_dead_letter is not None:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in log.dead_letters.items())
        console.print(f"no valid events: {reasons}; the first is {log.first_dead_letter}", style="yellow", markup=False)
    for model, watermark in snapshot.watermarks_ms.items():
        console.print(f"{model}: newest event at {time_text(watermark)} UTC", markup=False)
    reports = list(snapshot.reports.values())
    if reports:
        console.print(reports_table(reports, columns=telling(reports), width=console.width))
    else:
        console.print("no predictions in any window")
    for report in snapshot.reports.values():
        if report.insufficient is not None:
            where = f"{report.model} {report.version} {report.segment} {report.window}"
            console.print(f"{where}: {report.insufficient}", style="dim", markup=False)


def _by_size(log: LogReport) -> list[tuple[tuple[str, str], int]]:
    valid = [(key, number) for key, number in log.events.items() if key[0] != fates.UNKNOWN]
    return sorted(valid, key=lambda item: (-item[1], item[0]))


def _console() -> Console:
    console = Console()
    # Into a file or a pipe, a table is not squeezed into the 80 columns of a terminal that is not there.
    return console if console.is_terminal else Console(width=_WIDTH)
