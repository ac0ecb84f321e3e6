"""Past predictions of tables that Spark reads."""

import re
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from monitor.app.backfill import PastPredictions, declared_policy, of_tables, settled_to_ms
from monitor.app.parts import make_kept_ms
from monitor.app.settings import Settings
from monitor.errors import InputError, NotEnoughData
from monitor.sources.tables import Columns
from monitor.spark.panes import TIME, pane_tables, with_times
from monitor.spark.tables import REASON, REJECTED

_OF_FORMAT: Final = re.compile(r"\w+\.`[^`]+`")
"""A folder and its format, as Spark's SQL names it."""


def read_by_spark(
    settings: Settings,
    model: str,
    path: str,
    columns: Columns,
    *,
    version: str,
    to_ms: int | None,
) -> PastPredictions:
    """Sum the rows of a table on the cluster; the driver gets the sums by series, pane and cell.

    Parameters
    ----------
    path
        What Spark reads as Parquet: a file, a folder or a pattern. Or a table of another format as SQL names it:
        ``delta.`s3a://lake/scores` ``.
    columns
        Columns of predictions, outcomes and times; none is guessed.
    version, to_ms
        As of :func:`monitor.app.backfill.past_predictions`.

    Raises
    ------
    InputError
        A column does not exist, or there are rows that cannot be counted.
    NotEnoughData
        No row is from before the end.
    """
    if missing := [role for role in ("prediction", "outcome", "time") if not getattr(columns, role)]:
        raise InputError(f"--spark guesses no columns: name it with --{missing[0]}")
    (prediction,), outcome, time = columns.prediction, str(columns.outcome), str(columns.time)
    spark = SparkSession.builder.getOrCreate()
    rows_of = spark.table if _OF_FORMAT.fullmatch(path) else spark.read.parquet
    timed = with_times(rows_of(path), time)
    newest_ms, rows, with_time = timed.agg(F.max(TIME), F.count("*"), F.count(TIME)).collect()[0]
    if newest_ms is None:
        raise NotEnoughData("there are no predictions with a time")
    if with_time < rows and not columns.skip_bad_rows:
        raise InputError(f"{rows - with_time:,} rows have no time; correct or remove them, or add --skip-bad-rows")
    pane_ms = min(make_kept_ms(settings))
    end_ms = settled_to_ms(settings, model, newest_ms) if to_ms is None else to_ms - to_ms % pane_ms
    tables = pane_tables(
        timed,
        version=version,
        segments=declared_policy(settings, model).segments,
        pane_ms=pane_ms,
        to_ms=end_ms,
        prediction=prediction,
        outcome=outcome,
        positive=columns.positive,
    ).toArrow()
    refused = tables.filter(tables[REASON].is_valid())
    if refused.num_rows and not columns.skip_bad_rows:
        reason, count = refused[REASON][0].as_py(), sum(refused[REJECTED].to_pylist())
        raise InputError(
            f"{count:,} rows cannot be counted, the first for the reason {reason}; correct or remove them, or add "
            "--skip-bad-rows"
        )
    later = timed.where(F.col(TIME) >= end_ms).count()
    return of_tables(settings, model, tables.filter(tables[REASON].is_null()), to_ms=end_ms, not_settled=later)
