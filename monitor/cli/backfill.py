"""`monitor backfill`: past predictions into the store."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from monitor.app.backfill import PastPredictions, declared_policy, past_predictions, write
from monitor.app.logs import configure_logs
from monitor.app.parts import open_current_store
from monitor.cli.options import ConfigOption, PositiveOption, SkipBadRowsOption, read_settings
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.events.model import UNVERSIONED
from monitor.events.times import format_time, parse_time
from monitor.reports.progress import rows_progress, stages_progress
from monitor.sources.tables import Columns, read_table

app = typer.Typer(add_completion=False)


@app.command(
    "backfill",
    epilog="Examples: `monitor backfill 2025.parquet --model churn --batch 2025 --config monitor.yaml`; "
    "`monitor backfill s3a://lake/scores --spark --model churn --batch 2025 --prediction p --outcome y --time ts`.",
)
def backfill_command(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A row a prediction, with its outcome and time.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="The model, as in the service's events.")],
    batch: Annotated[
        str,
        typer.Option(
            "--batch", metavar="NAME", help="Name of this backfill. The same name again replaces what it wrote."
        ),
    ],
    version: Annotated[
        str, typer.Option("--version", metavar="NAME", help="The version of the model that all rows are of.")
    ] = UNVERSIONED,
    prediction: Annotated[
        str | None, typer.Option("--prediction", metavar="COLUMN", help="Predictions P(y = 1); guessed by name.")
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="COLUMN", help="Outcomes, empty where there is none; guessed by name."),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Times of the predictions; guessed by name.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TIME",
            help="Leave out predictions from this time on, RFC 3339. By default those that lie less than horizon and "
            "allowed lateness before the newest one: their outcomes may still come.",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Replace what other backfills hold of these times, in place of refusing it."),
    ] = False,
    positive: PositiveOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Read Parquet, or a table such as delta.`s3a://lake/scores`, by Spark, for more rows than fit into "
            "memory; run it by spark-submit.",
        ),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write past predictions into the store, so that windows, history and evidence begin with them.

    They become closings, as if the service had read them, and windows are evaluated at the end of each day for the
    history. Columns that are named as the model's declared segments become its segments. Nothing is counted twice: a
    backfill that overlaps another is refused without --replace, one that overlaps what the service has read always, and
    the service takes earlier predictions that it reads later for late. A running service sees it at once.
    """
    columns = Columns(
        () if prediction is None else (prediction,), outcome, time, positive=positive, skip_bad_rows=skip_bad_rows
    )
    settings = read_settings(config)
    configure_logs("warning", "auto")
    clock = SystemClock()
    to_ms = None if to is None else _time(to)
    policy = declared_policy(settings, model)
    if spark:
        if importlib.util.find_spec("pyspark") is None:
            raise InputError("--spark needs pyspark: pip install 'calibration-monitor[spark]'")
        from monitor.app.spark_backfill import read_by_spark  # noqa: PLC0415 - an extra

        past = read_by_spark(settings, model, file, columns, version=version, to_ms=to_ms)
    else:
        with rows_progress(f"reading {Path(file).name}") as count:
            table = read_table(file, columns._replace(segments=policy.segments), progress=count)
        for note in (*table.notes, *table.cautions):
            typer.echo(note, err=True)
        past = past_predictions(settings, model, table, version=version, to_ms=to_ms)
    store = open_current_store(settings, clock, create=True)
    with store, stages_progress() as progress:

        def show(share: float) -> None:
            progress("evaluating windows", share)

        points = write(store.database, settings, past, batch=batch, clock=clock, replace=replace, progress=show)
    typer.echo(_summary(past, batch, points))


def _summary(past: PastPredictions, batch: str, points: int) -> str:
    left_out = f"; {past.not_settled:,} later ones are left out" if past.not_settled else ""
    span = f"from {format_time(past.from_ms)} to {format_time(past.to_ms)}"
    counted = f"{past.model}: {past.predictions:,} predictions {span} are in the store as {batch!r}"
    return f"{counted}{left_out}; {points:,} points of history"


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise InputError(f"--to must be a time such as 2026-11-01T00:00:00Z, got {text!r}") from error
