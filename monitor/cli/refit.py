"""`monitor refit`: which recalibration method repairs a file best, with no service."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from monitor.cli.options import method_options
from monitor.cli.targets import check_target, write_target
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.evaluation.files import looks_like_event_log, model_of
from monitor.recalibration.comparison import DRAWS
from monitor.recalibration.fitting_task import HELD_OUT
from monitor.reports.progress import rows_progress, stages_progress
from monitor.reports.refit_file import Progress, artifact, choose_methods, labelled_rows, refit_rows
from monitor.reports.refit_page import refit_page, refit_picture
from monitor.reports.refit_table import print_trial
from monitor.reports.refit_trial import Trial
from monitor.reports.refit_words import advice, reasons_of
from monitor.reports.text import report_console
from monitor.scores.arguments import number_text
from monitor.sources.tables import read_table

app = typer.Typer(add_completion=False)

NONE_BETTER: Final = 3
"""Exit status where no method is better than no map: not a failure, and no map is written."""

LEAST_DRAWS: Final = 19

_NONE: list[str] = []


@app.command(
    epilog="Examples: `monitor refit scores.csv --prediction score --outcome label -o map.arrow`; `monitor refit "
    "scores.parquet --feature age --feature income --method beta --method lore --option gamma=0.4 --html refit.html`."
)
def refit(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A table of predictions and outcomes (.csv, .tsv, .parquet, .jsonl, text also .gz)."
        ),
    ],
    *,
    method: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Recalibration method; several are compared. Without it, the usual ones for such rows.",
        ),
    ] = _NONE,
    option: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE", help="Of the methods that have it, such as gamma=0.4. May be given several times."
        ),
    ] = _NONE,
    held_out: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the latest rows, which no fit sees; above 0 and below 1.")
    ] = HELD_OUT,
    since_change: Annotated[
        bool, typer.Option("--since-change", help="Leave out what was before the last change of calibration.")
    ] = False,
    prediction: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="Column with P(y = 1); guessed if left out. For many classes, the column of each class, or one column "
            "of lists.",
        ),
    ] = _NONE,
    outcome: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the outcome, 0 or 1, or the class; guessed if left out."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the time; guessed if left out. Without one, rows are in order."
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that says how much each row counts.")
    ] = None,
    segment: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="Column of groups: for methods by group, and to see who gains. May be given several times.",
        ),
    ] = _NONE,
    feature: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN", help="Column of numbers that say which rows are alike. May be given several times."
        ),
    ] = _NONE,
    draws: Annotated[
        int, typer.Option(min=0, help="Resamples for intervals and levels; 0 leaves both out, and is fast.")
    ] = DRAWS,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the map of the best method, for `monitor apply`."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the whole comparison of each method.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with figures, which needs nothing else.")
    ] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture of before and after.")] = None,
) -> None:
    """Fit recalibration maps on a file, and see on its later rows whether one is better than none.

    The exit status is 0 if a method is better than no map, 3 if none is (no map is written then), 1 for a failure, such
    as too few rows, and 2 for bad use.
    """
    _check(file, held_out, draws, {"--output": output, "--html": html, "--png": png})
    options = method_options(option)
    with rows_progress(f"reading {file.name}") as count:
        table = read_table(
            file,
            prediction=prediction,
            outcome=outcome,
            time=time,
            segments=segment,
            weight=weight,
            features=feature,
            progress=count,
        )
    rows = labelled_rows(table)
    chosen = choose_methods(method, options, rows.events)
    model = model_of(file)
    # Those that were guessed, too: another file may have a column that is guessed first, and is another score.
    columns = {"prediction": list(table.prediction_columns), "features": list(feature)}
    with stages_progress() as progress:
        trial = refit_rows(rows, chosen, held_out=held_out, since_change=since_change, draws=draws, progress=progress)
        written = _write(trial, model, columns, progress, output=output, html=html, png=png)
    if as_json:
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
        raise InputError(f"{file}: no such file; name a CSV, Parquet or JSON lines file that is there")
    if file.is_dir():
        raise InputError(f"{file}: is a directory; name one file in it")
    if looks_like_event_log(file):
        raise InputError(
            f"{file}: holds events of the service, and maps are fitted on tables of predictions and outcomes; "
            "for events, see `monitor recalibrate`"
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
