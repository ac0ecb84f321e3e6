"""Past predictions of tables that Spark reads."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from monitor.app.backfill import LandedTopics, PastPredictions, declared_policy, of_tables, settled_to_ms
from monitor.app.parts import make_kept_ms
from monitor.app.settings import Settings
from monitor.errors import InputError, NotEnoughData
from monitor.events import event_results
from monitor.events.model import ALL, UNVERSIONED
from monitor.events.times import format_time
from monitor.sources.columns import UNLABELLED
from monitor.sources.tables import Columns
from monitor.spark.join import (
    KIND,
    OUTCOME,
    PREDICTED_MS,
    RESULT,
    TYPES,
    Log,
    LogColumns,
    Rules,
    edges_ms,
    join_logs,
    outcome_rows,
    prediction_rows,
)
from monitor.spark.panes import TIME, pane_tables, since, with_times
from monitor.spark.tables import OUTCOME as LABEL
from monitor.spark.tables import PREDICTION, REASON, REJECTED, count_cells, quoted
from monitor.store.series import DAY_MS

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
    timed = with_times(_table(path), time)
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


class Settled(NamedTuple):
    """Predictions of two landed topics that have settled since a time."""

    to_ms: int
    """Up to when they are settled; -1 if none are."""
    held_back_by: str
    """The partition that is settled no further, in words."""
    counts: Mapping[tuple[str, str], int]
    """(Type, result) -> number of events of these times."""
    not_settled: int
    """Later predictions, which are left out."""
    refused: Mapping[str, int]
    """Reason -> events that are not valid and are left out, of these times and of those that the join reads beside."""
    spans: Iterator[PastPredictions]
    """The predictions, a day at a time (UTC), of days that have some; the last span reaches to the end."""


_NOT_SETTLED: Final = "not settled"
_OF_PREDICTION: Final = (
    event_results.JOINED,
    event_results.CORRECTED,
    event_results.SUPERSEDED,
    event_results.DUPLICATE,
)
"""Results of an outcome that are counted where its prediction is; others where it is itself."""


def settled_by_spark(
    settings: Settings,
    model: str,
    topics: LandedTopics,
    columns: Columns,
    *,
    version: str,
    from_ms: int | None,
    to_ms: int | None,
) -> Settled:
    """Join two landed topics on the cluster, and sum what has settled since a time.

    Parameters
    ----------
    columns
        Columns of predictions and outcomes, ``p`` and ``y`` by default; the time is that of ``topics``.
    version
        Of predictions whose table has no column ``version``.
    from_ms
        Where the backfills of the model end, or None for the oldest prediction.
    to_ms
        Where this one ends; if left out, up to where the logs say that predictions are settled.

    Raises
    ------
    InputError
        A column does not exist, or there are events that are not valid.
    """
    policy, pane_ms = declared_policy(settings, model), min(make_kept_ms(settings))
    rules = Rules(policy.horizon_ms, policy.lateness_ms)
    predictions, names = _series(_of_model(_table(topics.predictions), model), policy.segments, version)
    outcomes = _of_model(_table(topics.outcomes), model)
    places, time = LogColumns(topics.id, topics.time, topics.partition, topics.order), topics.time
    if from_ms is not None:
        # An id is looked for as long as it would wait in the join; what is older makes nothing late.
        predictions = since(predictions, time, from_ms - rules.wait_ms)
        outcomes = since(outcomes, time, from_ms - rules.lateness_ms)
    (prediction,), outcome = columns.prediction or ("p",), columns.outcome or "y"
    read = Log.of(prediction_rows(predictions, places, str(prediction)), rules.wait_ms)
    answers = Log.of(outcome_rows(outcomes, places, str(outcome), columns.positive), rules.lateness_ms)
    refused = {
        reason: read.refused.get(reason, 0) + answers.refused.get(reason, 0)
        for reason in {**read.refused, **answers.refused}
    }
    if refused and not columns.skip_bad_rows:
        reason, count = min(refused.items())
        raise InputError(
            f"{count:,} events cannot be joined: {reason.replace('_', ' ')}; add --skip-bad-rows to leave them out"
        )
    edges = edges_ms(read, answers, rules, pane_ms)
    first, edge_ms = min(edges.items(), key=lambda edge: edge[1], default=(0, -1))
    end_ms = edge_ms if to_ms is None else to_ms - to_ms % pane_ms
    ahead_ms = max(edges.values(), default=-1)
    held = (
        f"partition {first} holds the others back, which are settled to {format_time(ahead_ms)}"
        if ahead_ms - edge_ms > rules.lateness_ms + pane_ms
        else ""
    )
    begin_ms = read.first_ms if from_ms is None else from_ms
    if begin_ms is None:
        raise NotEnoughData("there are no predictions with a time")
    joined = join_logs(read, answers, rules, names).events
    tables = _tables(joined, begin_ms, end_ms, pane_ms).persist(StorageLevel.DISK_ONLY)
    rejected = tables.where(F.col(REASON).isNotNull()).groupBy(REASON).agg(F.sum(REJECTED)).collect()
    results = {str(reason): int(count) for reason, count in rejected}
    not_settled = results.pop(_NOT_SETTLED, 0)
    counts = {_pair(reason): count for reason, count in results.items()}
    whole = tables.where(F.col(REASON).isNull() & (F.col("segment") == ALL))
    accepted = whole.agg(F.sum(F.col("positives") + F.col("negatives") + F.col("unanswered"))).collect()[0][0]
    if accepted:
        counts[event_results.PREDICTION, event_results.ACCEPTED] = int(accepted)
    spans = _spans(settings, model, tables, from_ms, end_ms)
    return Settled(end_ms, held, counts, not_settled, refused, spans)


def _pair(reason: str) -> tuple[str, str]:
    type_, result = reason.split("/")
    return type_, result


def _spans(
    settings: Settings, model: str, tables: DataFrame, from_ms: int | None, end_ms: int
) -> Iterator[PastPredictions]:
    """Collect the tables a day at a time."""
    counted = tables.where(F.col(REASON).isNull())
    day = F.floor(F.col("pane_start_ms") / DAY_MS)
    days = [int(row[0]) for row in counted.select(day).distinct().collect()]
    try:
        for number in sorted(days):
            to_ms = end_ms if number == max(days) else (number + 1) * DAY_MS
            past = of_tables(settings, model, counted.where(day == number).toArrow(), to_ms=to_ms, not_settled=0)
            yield past if from_ms is None else past._replace(from_ms=from_ms)
            from_ms = to_ms
    finally:
        tables.unpersist()


def _tables(joined: DataFrame, from_ms: int, to_ms: int, pane_ms: int) -> DataFrame:
    """Score tables by version, segment and pane of the accepted predictions in [from, to); and of other events a count.

    That is the column ``rejected``, with ``type/result`` as the reason. One pass over the join gives both.
    """
    time_ms, predicted_ms, result = F.col(TIME), F.col(PREDICTED_MS), F.col(RESULT)
    is_prediction = F.col(KIND) == 0
    counted_ms = F.when(~is_prediction & result.isin(*_OF_PREDICTION), predicted_ms).otherwise(time_ms)
    type_ = F.when(is_prediction, TYPES[0]).otherwise(TYPES[1])
    is_accepted = is_prediction & (result == event_results.ACCEPTED)
    reason = F.when(is_accepted & (time_ms >= to_ms), _NOT_SETTLED).when(
        ~is_accepted, F.concat(type_, F.lit("/"), result)
    )
    events = joined.where((counted_ms >= from_ms) & (is_accepted | (counted_ms < to_ms))).withColumn(REASON, reason)
    is_counted = F.col(REASON).isNull()
    start_ms = (F.floor(time_ms / pane_ms) * pane_ms).cast("bigint")
    segments = F.when(is_counted, F.col(_SEGMENTS)).otherwise(F.array(F.lit(ALL)))
    values = events.select(
        F.when(is_counted, F.col(_VERSION)).alias("version"),
        F.explode(segments).alias("segment"),
        F.when(is_counted, start_ms).alias("pane_start_ms"),
        F.when(is_counted, F.col(PREDICTION)).alias(PREDICTION),
        F.coalesce(F.col(OUTCOME), F.lit(UNLABELLED)).alias(LABEL),
        REASON,
    )
    return count_cells(values, ["version", "segment", "pane_start_ms"])


_VERSION: Final = "__version"
_SEGMENTS: Final = "__segments"


def _series(df: DataFrame, segments: tuple[str, ...], version: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Add the version of each prediction, and the segments of its series; returns the names of both columns, too."""
    own = F.lit(version)
    if "version" in df.columns:
        own = F.coalesce(F.nullif(F.col("version").cast("string"), F.lit("")), F.lit(UNVERSIONED))
    values = [F.lit(ALL)]
    for name in segments:
        value = _segment(df, name).cast("string")
        values.append(F.when(value != "", F.concat(F.lit(f"{name}="), value)))
    whole = F.filter(F.array(*values), lambda value: value.isNotNull()) if segments else F.array(*values)
    return df.withColumns({_VERSION: own, _SEGMENTS: whole}), (_VERSION, _SEGMENTS)


def _segment(df: DataFrame, name: str) -> Column:
    """A segment of landed events: a column of its name, or a field of the column ``segments``."""
    if name in df.columns:
        return quoted([name])[0]
    kind = df.schema["segments"].dataType if "segments" in df.columns else None
    if isinstance(kind, T.MapType) or (isinstance(kind, T.StructType) and name in kind.names):
        return F.col("segments").getItem(name)
    raise InputError(f"there is no column {name!r} for the segment; columns are {', '.join(df.columns)}")


def _of_model(df: DataFrame, model: str) -> DataFrame:
    """The events of a model, where the table says of which they are."""
    return df.where(F.col("model") == model) if "model" in df.columns else df


def _table(path: str) -> DataFrame:
    spark = SparkSession.builder.getOrCreate()
    try:
        return spark.table(path) if _OF_FORMAT.fullmatch(path) else spark.read.parquet(path)
    except AnalysisException as error:
        raise InputError(f"Spark cannot read {path}: {str(error).splitlines()[0]}") from error
