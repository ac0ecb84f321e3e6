"""`monitor recalibrate FILE`: compare recalibration methods on a file, without a service."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from monitor.cli.options import check_target, method_options, print_help_line, write_target
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.progress import StageProgress
from monitor.recalibration.apply_file import needed_columns
from monitor.recalibration.compare import Candidate
from monitor.recalibration.refit_figures import before_and_after, refit_page
from monitor.recalibration.refit_file import Trial, artifact, choose_methods, labelled_rows, refit_rows
from monitor.recalibration.refit_view import advice, judge_candidate, print_trial, reasons_of
from monitor.reports.evaluation.files import looks_like_event_log, model_of
from monitor.reports.figures.style import to_png
from monitor.reports.progress import rows_progress, stages_progress
from monitor.reports.view import report_console
from monitor.sources.feature_columns import read_with_words
from monitor.sources.tables import Columns

NONE_BETTER: Final = 3
"""Exit status if no method is better than no map: not a failure, but no map is written."""


def recalibrate_file(
    file: Path,
    columns: Columns,
    *,
    method: Sequence[str],
    option: Sequence[str],
    held_out: float,
    since_change: bool,
    draws: int,
    unguarded: bool,
    targets: Mapping[str, Path | None],
    as_json: bool,
) -> None:
    """Compare the maps of several methods on the later rows of a file, and write the best.

    Parameters
    ----------
    columns
        Columns of the file.
    method, option, held_out, since_change, draws, unguarded, as_json
        Values of the options of these names.
    targets
        Option -> file to write.

    Raises
    ------
    typer.Exit
        No map is better than none, and ``unguarded`` is not set: status 3.
    """
    _check(file, targets)
    if unguarded and (len(method) != 1 or targets["--output"] is None):
        raise InputError("--unguarded writes the map of one method: name it with --method, and the file with --output")
    options = method_options(option)
    with rows_progress(f"reading {file.name}") as count:
        table, columns = read_with_words(file, columns, progress=count)
    rows = labelled_rows(table, columns.segments)
    methods = choose_methods(method, options, rows.events)
    model = model_of(file)
    with stages_progress() as progress:
        trial = refit_rows(rows, methods, held_out=held_out, since_change=since_change, draws=draws, progress=progress)
        chosen = trial.shown if unguarded else trial.best
        needed = needed_columns(table, columns)
        written = _write(trial, chosen, targets, model=model, columns=needed, progress=progress)
    if as_json:
        document = {
            "file": str(file),
            "advice": advice(trial),
            "reasons": reasons_of(trial),
            **trial.to_dict(),
            "written": [str(path) for path in written],
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        print_trial(report_console(), trial, model)
        for path in written:
            typer.echo(f"wrote {path}")
        if chosen is None and targets["--output"] is not None:
            typer.echo(f"{targets['--output']} is not written: no map is better than none (--unguarded writes one)")
        elif chosen is not None and not chosen.better:
            typer.echo(f"mind: {chosen.method.name} is not proven better than no map, and the file says so")
        print_help_line(judge_candidate(candidate, trial.best).value for candidate in trial.candidates)
    if chosen is None:
        raise typer.Exit(NONE_BETTER)


def _check(file: Path, targets: Mapping[str, Path | None]) -> None:
    """Raise InputError for wrong arguments before any work is done."""
    if not file.exists():
        raise InputError(
            f"{file}: no such file; name a CSV, Parquet or JSON lines file that is there "
            "(the ending is that of a file, not of a model's name)"
        )
    if file.is_dir():
        raise InputError(f"{file}: is a directory; name one file in it (for a model of that name, run it elsewhere)")
    if looks_like_event_log(file):
        raise InputError(
            f"{file}: holds events of the service, and maps are fitted on tables of predictions and outcomes; "
            "for events, see `monitor recalibrate MODEL`, which fits one in a running service"
        )
    for option, path in targets.items():
        if path is not None:
            check_target(option, path)


def _write(
    trial: Trial,
    chosen: Candidate | None,
    targets: Mapping[str, Path | None],
    *,
    model: str,
    columns: Mapping[str, Any],
    progress: StageProgress,
) -> list[Path]:
    """Write the requested files; return those that were written."""
    written = []
    for option, path in targets.items():
        if path is None or (option == "--output" and chosen is None):
            continue
        progress(f"{'writing' if option == '--output' else 'drawing'} {path.name}", 1.0)
        if option == "--html":
            content = refit_page(trial, model)
        elif option == "--png":
            content = to_png(before_and_after(trial))
        else:
            content = artifact(
                trial, chosen or trial.shown, model=model, created_ms=SystemClock().now_ms(), columns=columns
            )
        write_target(option, path, content)
        written.append(path)
    return written
