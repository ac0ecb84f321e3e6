"""`monitor backfill`: past predictions into the store."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from monitor.app.backfill import LandedTopics, PastPredictions, append, declared_policy, past_predictions, write
from monitor.app.logs import configure_logs
from monitor.app.parts import open_current_store
from monitor.app.settings import Settings
from monitor.cli.options import ConfigOption, PositiveOption, SkipBadRowsOption, argument, flag, option, read_settings
from monitor.clock import Clock, SystemClock
from monitor.errors import InputError
from monitor.events.model import UNVERSIONED
from monitor.events.times import format_time, parse_time
from monitor.reports.progress import rows_progress, stages_progress
from monitor.sources.tables import Columns, read_table
from monitor.store import backfill

app = typer.Typer(add_completion=False)


@app.command(
    "backfill",
    epilog="Examples: `monitor backfill 2025.parquet --model churn --batch 2025 --config monitor.yaml`; "
    "`monitor backfill s3a://lake/scores --spark --model churn --batch 2025 --prediction p --outcome y --time ts`; "
    "`monitor backfill --spark --predictions s3a://lake/scores --outcomes s3a://lake/labels --settled --model churn "
    "--batch lake`.",
)
def backfill_command(
    *,
    file: Annotated[str | None, argument("[FILE]", "A row a prediction, with its outcome and time.")] = None,
    model: Annotated[str, option("NAME", "The model, as in the service's events.")],
    batch: Annotated[str, option("NAME", "Name of this backfill. The same name again replaces what it wrote.")],
    version: Annotated[str, option("NAME", "The version of the model that all rows are of.")] = UNVERSIONED,
    prediction: Annotated[str | None, option("COLUMN", "Predictions P(y = 1); guessed by name.")] = None,
    outcome: Annotated[str | None, option("COLUMN", "Outcomes, empty where there is none; guessed by name.")] = None,
    time: Annotated[str | None, option("COLUMN", "Times of the predictions; guessed by name.")] = None,
    to: Annotated[
        str | None,
        option(
            "TIME",
            "Leave out predictions from this time on, RFC 3339. By default those that lie less than horizon and "
            "allowed lateness before the newest one: their outcomes may still come.",
        ),
    ] = None,
    replace: Annotated[
        bool, flag("--replace", "Replace what other backfills hold of these times, in place of refusing it.")
    ] = False,
    positive: PositiveOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    spark: Annotated[
        bool,
        flag(
            "--spark",
            "Read Parquet, or a table such as delta.`s3a://lake/scores`, by Spark, for more rows than fit into "
            "memory; run it by spark-submit.",
        ),
    ] = False,
    predictions: Annotated[
        str | None,
        option("TABLE", "With --spark, in place of FILE: the topic of predictions as it has landed in a lake."),
    ] = None,
    outcomes: Annotated[str | None, option("TABLE", "The topic of outcomes as it has landed.")] = None,
    settled: Annotated[
        bool,
        flag(
            "--settled",
            "Join --predictions and --outcomes, and write what has settled since the model's backfills end: run "
            "it by a schedule.",
        ),
    ] = False,
    id: Annotated[  # noqa: A002 - the option's name
        str, option("COLUMN", "With --settled: what joins the two.")
    ] = "id",
    partition: Annotated[
        str, option("COLUMN", "With --settled: the partition of the log; empty where it has one.")
    ] = "partition",
    order: Annotated[
        str, option("COLUMN", "With --settled: the offset, or the time at which the log appended the event.")
    ] = "offset",
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
    if spark and importlib.util.find_spec("pyspark") is None:
        raise InputError("--spark needs pyspark: pip install 'calibration-monitor[spark]'")
    if settled or predictions is not None or outcomes is not None:
        if file is not None or replace or not (spark and settled and predictions and outcomes):
            raise InputError("--settled needs --spark, --predictions and --outcomes, and neither FILE nor --replace")
        topics = LandedTopics(predictions, outcomes, id, time or "ts", partition or None, order)
        _backfill_settled(settings, model, topics, columns, version=version, to_ms=to_ms, batch=batch, clock=clock)
        return
    if file is None:
        raise InputError("name a FILE, or --predictions and --outcomes with --spark --settled")
    if spark:
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


def _backfill_settled(
    settings: Settings,
    model: str,
    topics: LandedTopics,
    columns: Columns,
    *,
    version: str,
    to_ms: int | None,
    batch: str,
    clock: Clock,
) -> None:
    """Join two topics in a lake, and write what has settled since the model's backfills end."""
    from monitor.app.spark_backfill import settled_by_spark  # noqa: PLC0415 - an extra

    with open_current_store(settings, clock, create=True) as store:
        from_ms = backfill.end_ms(store.database, model)
        joined = settled_by_spark(settings, model, topics, columns, version=version, from_ms=from_ms, to_ms=to_ms)
        for reason, count in sorted(joined.refused.items()):
            typer.echo(f"{count:,} events left out: {reason.replace('_', ' ')}", err=True)
        saved = 0
        for past, points in append(store.database, settings, joined.spans, batch=batch, clock=clock):
            saved += past.predictions
            # Each span is safe in the store from here on.
            typer.echo(_summary(past, batch, points))
    events = "; ".join(
        f"{type_}s: "
        + ", ".join(f"{count:,} {result}" for (of, result), count in sorted(joined.counts.items()) if of == type_)
        for type_ in sorted({of for of, _ in joined.counts})
    )
    if events:
        typer.echo(events)
    if not saved:
        typer.echo(
            f"{model}: no predictions have settled" + ("" if from_ms is None else f" since {format_time(from_ms)}")
        )
    if joined.held_back_by:
        typer.echo(joined.held_back_by)
    if joined.not_settled:
        until = f" from {format_time(joined.to_ms)} on" if joined.to_ms >= 0 else ""
        typer.echo(f"{joined.not_settled:,} predictions{until} are not settled yet and left to the next run")


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
