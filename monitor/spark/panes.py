"""Score tables of panes: what a backfill makes closings of."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from monitor.errors import InputError
from monitor.events.model import ALL
from monitor.spark.tables import quoted, score_tables

TIME: Final = "__time_ms"


def with_times(df: DataFrame, time: str) -> DataFrame:
    """Add the times of predictions, milliseconds since the epoch, as a column :data:`TIME`.

    Parameters
    ----------
    time
        Column of timestamps, with a zone or without one, which is UTC then; of milliseconds since the epoch; or of text
        with an offset, such as ``2026-11-20T10:00:00Z``, null where it is no time.

    Raises
    ------
    InputError
        There is no such column, or it is of another type.
    """
    if time not in df.columns:
        raise InputError(f"there is no column {time!r} for the time; columns are {', '.join(df.columns)}")
    column, kind = quoted([time])[0], df.schema[time].dataType
    if isinstance(kind, T.TimestampType):
        milliseconds: Column = F.unix_millis(column)
    elif isinstance(kind, T.TimestampNTZType):
        epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        milliseconds = F.floor(F.timestamp_diff("MICROSECOND", epoch, column) / 1000)
    elif isinstance(kind, T.IntegralType):
        milliseconds = column.cast("bigint")
    elif isinstance(kind, T.StringType):
        milliseconds = F.unix_millis(column.try_cast("timestamp"))
    else:
        raise InputError(f"time must be a column of timestamps or milliseconds, got one of {kind.simpleString()}")
    return df.withColumn(TIME, milliseconds)


def since(df: DataFrame, time: str, from_ms: int) -> DataFrame:
    """Leave out rows from before a time; the column is as of :func:`with_times`. Rows without a time stay.

    Parquet and Delta skip files by this comparison where the column is of timestamps or milliseconds.
    """
    timed, kind = with_times(df, time), df.schema[time].dataType
    if isinstance(kind, T.TimestampType):
        column, first = quoted([time])[0], F.timestamp_millis(F.lit(from_ms))
    else:
        column, first = F.col(TIME), F.lit(from_ms)
    return timed.where((column >= first) | column.isNull())


def pane_tables(
    df: DataFrame,
    *,
    version: str,
    segments: Sequence[str],
    pane_ms: int,
    to_ms: int,
    prediction: str,
    outcome: str,
    positive: str | None = None,
) -> DataFrame:
    """Score tables of each series and pane, of the predictions before a time.

    Parameters
    ----------
    df
        As from :func:`with_times`.
    version
        Of all predictions.
    segments
        Columns of segments. A null or empty value is in no series of its segment.
    pane_ms
        Width of the panes.
    to_ms
        Predictions from then on are left out.
    prediction, outcome, positive
        As of :func:`~monitor.spark.score_tables`.

    Raises
    ------
    InputError
        A column does not exist.
    """
    if missing := [name for name in segments if name not in df.columns]:
        raise InputError(f"there is no column {missing[0]!r} for the segment; columns are {', '.join(df.columns)}")
    past = df.where(F.col(TIME) < to_ms)
    start = (F.floor(F.col(TIME) / pane_ms) * pane_ms).cast("bigint").alias("pane_start_ms")

    def tables(of: DataFrame, segment: Column) -> DataFrame:
        keys = [F.lit(version).alias("version"), segment.alias("segment"), start]
        return score_tables(of, keys, prediction=prediction, outcome=outcome, positive=positive)

    parts = [tables(past, F.lit(ALL))]
    for name in segments:
        value = quoted([name])[0].cast("string")
        parts.append(tables(past.where(value != ""), F.concat(F.lit(f"{name}="), value)))
    return reduce(DataFrame.union, parts)
