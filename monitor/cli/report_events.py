"""`monitor report` of a file of the service's events, joined and windowed as by the service."""

import json
from collections import Counter
from pathlib import Path

import typer

from monitor.app.offline import report_log
from monitor.cli.options import print_help_line, read_settings
from monitor.clock import SystemClock
from monitor.events import event_results
from monitor.events.model import Reason
from monitor.reports.formatting import time_text
from monitor.reports.progress import bytes_progress
from monitor.reports.report_view import distinguishing_columns, reports_table, verdicts_of
from monitor.reports.view import report_console


def report_events(file: Path, config: Path | None, *, as_json: bool) -> None:
    """Print how many events had which result, and the windows at the end of the log.

    Parameters
    ----------
    config
        The file of the settings, or None for the usual one.
    """
    with bytes_progress(f"reading {file.name}") as progress:
        log = report_log(file, read_settings(config), SystemClock(), progress)
    snapshot = log.snapshot
    refused = [letter for letter in log.dead_letters if letter.reason is Reason.REFUSED_MODEL]
    letters = [letter for letter in log.dead_letters if letter.reason is not Reason.REFUSED_MODEL]
    invalid = Counter(letter.reason.value for letter in letters)
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
            "dead_letters": invalid,
        }
        typer.echo(json.dumps(tree, indent=2))
        return
    console = report_console()
    total = sum(log.events.values())
    valid = [(key, number) for key, number in log.events.items() if number and key[0] != event_results.UNKNOWN]
    valid.sort(key=lambda item: (-item[1], item[0]))
    results = ", ".join(f"{number:,} {kind}s {result}" for (kind, result), number in valid)
    console.print(f"{file.name}: {total:,} lines: {results or 'none'}".replace("_", " "), markup=False)
    if invalid:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in invalid.items())
        first = f"line {letters[0].offset}: {letters[0].detail}"
        console.print(f"no valid events: {reasons}; the first is {first}", style="yellow", markup=False)
    for letter in refused:
        console.print(f"refused from line {letter.offset} on: {letter.detail}", style="yellow", markup=False)
    for name, model in snapshot.models.items():
        console.print(f"{name}: newest event at {time_text(model.watermark_ms)} UTC", markup=False)
    if reports := list(snapshot.reports.values()):
        console.print(reports_table(reports, columns=distinguishing_columns(reports), width=console.width))
    else:
        console.print("no predictions in any window")
    for report in reports:
        if report.insufficient is not None:
            where = f"{report.model} {report.version} {report.segment} {report.window}"
            console.print(f"{where}: {report.insufficient}", style="dim", markup=False)
    print_help_line(verdicts_of(reports))
