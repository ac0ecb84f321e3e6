"""`monitor recalibrate FILE`: which recalibration method repairs a file best, with no service."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

from monitor.cli.options import method_options
from monitor.cli.targets import check_target, write_target
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.recalibration.comparison import Progress
from monitor.recalibration.refit_file import artifact, choose_methods, labelled_rows, refit_rows
from monitor.recalibration.refit_page import refit_page, refit_picture
from monitor.recalibration.refit_table import print_trial
from monitor.recalibration.refit_trial import Trial
from monitor.recalibration.refit_words import advice, reasons_of
from monitor.reports.evaluation.files import looks_like_event_log, model_of
from monitor.reports.progress import rows_progress, stages_progress
from monitor.reports.text import report_console
from monitor.scores.arguments import number_text
from monitor.sources.tables import read_table

NONE_BETTER: Final = 3
"""Exit status where no method is better than no map: not a failure, and no map is written."""

LEAST_DRAWS: Final = 19


class FileRequest(NamedTuple):
    """What is to be done with a file; a field is named as its option."""

    file: Path
    method: Sequence[str]
    option: Sequence[str]
    held_out: float
    since_change: bool
    prediction: Sequence[str]
    outcome: str | None
    time: str | None
    weight: str | None
    positive: str | None
    logits: bool
    skip_bad_rows: bool
    segment: Sequence[str]
    feature: Sequence[str]
    draws: int
    output: Path | None
    as_json: bool
    html: Path | None
    png: Path | None


def recalibrate_file(request: FileRequest) -> None:
    """Compare the maps of several methods on the later rows of a file, and write the best.

    Raises
    ------
    typer.Exit
        No map is better than none: status 3.
    """
    file, output = request.file, request.output
    _check(file, request.held_out, request.draws, {"--output": output, "--html": request.html, "--png": request.png})
    options = method_options(request.option)
    with rows_progress(f"reading {file.name}") as count:
        table = read_table(
            file,
            prediction=request.prediction,
            outcome=request.outcome,
            time=request.time,
            segments=request.segment,
            weight=request.weight,
            features=request.feature,
            positive=request.positive,
            logits=request.logits,
            skip_bad_rows=request.skip_bad_rows,
            progress=count,
        )
    rows = labelled_rows(table, request.segment)
    chosen = choose_methods(request.method, options, rows.events)
    model = model_of(file)
    # Those that were guessed, too: another file may have a column that is guessed first, and is another score.
    columns: dict[str, Any] = {"prediction": list(table.prediction_columns), "features": list(request.feature)}
    if request.logits:
        columns["logits"] = True
    with stages_progress() as progress:
        trial = refit_rows(
            rows,
            chosen,
            held_out=request.held_out,
            since_change=request.since_change,
            draws=request.draws,
            progress=progress,
        )
        written = _write(trial, model, columns, progress, output=output, html=request.html, png=request.png)
    if request.as_json:
        words = {"file": str(file), "advice": advice(trial), "reasons": reasons_of(trial)}
        typer.echo(json.dumps({**words, **trial.to_dict(), "written": [str(path) for path in written]}, indent=2))
    else:
        print_trial(report_console(), trial, model)
        for path in written:
            typer.echo(f"wrote {path}")
        if trial.best is None and output is not None:
            typer.echo(f"{output} is not written: no map is better than none")
    if trial.best is None:
        raise typer.Exit(NONE_BETTER)


def _check(file: Path, held_out: float, draws: int, targets: Mapping[str, Path | None]) -> None:
    """Raise InputError for what is wrong before any work is done."""
    if not file.exists():
        raise InputError(
            f"{file}: no such file; name a CSV, Parquet or JSON lines file that is there (by its ending it is no model)"
        )
    if file.is_dir():
        raise InputError(f"{file}: is a directory; name one file in it (for a model of that name, run it elsewhere)")
    if looks_like_event_log(file):
        raise InputError(
            f"{file}: holds events of the service, and maps are fitted on tables of predictions and outcomes; "
            "for events, see `monitor recalibrate MODEL`, which fits one in a running service"
        )
    if not 0.0 < held_out < 1.0:
        raise InputError(
            f"--held-out must be above 0 and below 1, got {number_text(held_out)}; 0.3 holds out the latest 30%"
        )
    if 0 < draws < LEAST_DRAWS:
        raise InputError(
            f"--draws must be 0 or at least {LEAST_DRAWS}, got {draws}: with fewer, no p-value is below .05"
        )
    for option, path in targets.items():
        if path is not None:
            check_target(option, path)


def _write(
    trial: Trial,
    model: str,
    columns: Mapping[str, Any],
    progress: Progress,
    *,
    output: Path | None,
    html: Path | None,
    png: Path | None,
) -> list[Path]:
    """The files that were asked for; returns those that were written."""
    written = []
    if output is not None and trial.best is not None:
        progress(f"writing {output.name}", 1.0)
        created_ms = SystemClock().now_ms()
        content = artifact(trial, trial.best, model=model, created_ms=created_ms, columns=columns)
        write_target("--output", output, content)
        written.append(output)
    for option, path, draw in (("--html", html, refit_page), ("--png", png, refit_picture)):
        if path is not None:
            progress(f"drawing {path.name}", 1.0)
            write_target(option, path, draw(trial, model))
            written.append(path)
    return written
