"""The report on a log of events, on a terminal and as JSON."""

import json
from pathlib import Path

import typer

from monitor.app.offline import LogReport
from monitor.reports.formatting import time_text
from monitor.reports.report_view import distinguishing_columns, reports_table
from monitor.reports.view import report_console
from monitor.stream import event_results


def print_log(file: Path, log: LogReport, *, as_json: bool) -> None:
    """Print the results of the events, and the windows at the end of the log."""
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
    console = report_console()
    total = sum(log.events.values())
    results = ", ".join(f"{number:,} {kind}s {result}" for (kind, result), number in _by_size(log) if number)
    console.print(f"{file.name}: {total:,} lines: {results or 'none'}".replace("_", " "), markup=False)
    if log.first_dead_letter is not None:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in log.dead_letters.items())
        console.print(f"no valid events: {reasons}; the first is {log.first_dead_letter}", style="yellow", markup=False)
    for model, watermark in snapshot.watermarks_ms.items():
        console.print(f"{model}: newest event at {time_text(watermark)} UTC", markup=False)
    reports = list(snapshot.reports.values())
    if reports:
        console.print(reports_table(reports, columns=distinguishing_columns(reports), width=console.width))
    else:
        console.print("no predictions in any window")
    for report in snapshot.reports.values():
        if report.insufficient is not None:
            where = f"{report.model} {report.version} {report.segment} {report.window}"
            console.print(f"{where}: {report.insufficient}", style="dim", markup=False)


def _by_size(log: LogReport) -> list[tuple[tuple[str, str], int]]:
    valid = [(key, number) for key, number in log.events.items() if key[0] != event_results.UNKNOWN]
    return sorted(valid, key=lambda item: (-item[1], item[0]))
