"""Predictions and outcomes that have landed in a lake, joined by the rules of the service in Spark's own SQL.

The rules are those of :mod:`monitor.stream.join_loops`; a test compares every result of an event. They look at the
order of each log alone: an event is late by the newest event of its log that stands before it, the first prediction of
an id counts, and the last of its outcomes in time. So what became of an event is an expression over the events of its
id, and Spark sorts them once: there is no state, and no Python for a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from monitor.arrays import Ints
from monitor.durations import parse_duration, to_ms
from monitor.errors import InputError
from monitor.events import event_results
from monitor.sources.columns import UNLABELLED
from monitor.spark.panes import TIME, with_times
from monitor.spark.tables import PREDICTION, column_of, id_of, number_of, outcome_of, quoted
from monitor.store.settled import partition_edges_ms

OUTCOME: Final = "outcome"
OUTCOME_MS: Final = "outcome_ms"
"""Columns that are added to those of predictions."""

RESULT: Final = "__result"
KIND: Final = "__kind"
PREDICTED_MS: Final = "__predicted_ms"
"""Columns of :attr:`Joined.events`."""

_ID, _PARTITION, _ORDER, _CHUNK, _LATE, _Y, _REASON = (
    *("__id", "__partition", "__order", "__chunk", "__late", "__y", "__reason"),
)
_NEWEST: Final = "__newest_ms"
_PREDICTION, _OUTCOME = 0, 1
TYPES: Final = {_PREDICTION: event_results.PREDICTION, _OUTCOME: event_results.OUTCOME}

_OFFSETS_IN_CHUNK: Final = 4096
_MICROSECONDS_IN_CHUNK: Final = 60_000_000
_NEVER: Final = -1


class LogColumns(NamedTuple):
    """Names of the columns that the tables of both topics have."""

    id: str = "id"
    """What joins the two."""
    time: str = "ts"
    """When the event was: timestamps, milliseconds since the epoch, or text as RFC 3339 has it."""
    partition: str | None = "partition"
    """The partition of the log, integers; None where the log has one. An outcome in another partition than its
    prediction is never joined."""
    order: str = "offset"
    """The order in the partition: the offset, or the time at which the log appended the event."""


LOG_COLUMNS: Final = LogColumns()


class Rules(NamedTuple):
    """How long outcomes are waited for, and how far out of order events may be, in milliseconds."""

    horizon_ms: int
    lateness_ms: int

    @property
    def wait_ms(self) -> int:
        """How long after a prediction it is settled."""
        return self.horizon_ms + self.lateness_ms


@dataclass(frozen=True)
class Log:
    """One landed topic.

    Most events are in order. So the log is divided into chunks of consecutive events, one pass gives the oldest and the
    newest time of each, and only chunks that may hold an event that is late are sorted.

    Attributes
    ----------
    rows
        Its valid events, with the columns of the table.
    allowed_ms
        How far an event may be behind the newest one before it.
    newest_ms
        Partition -> time of the newest event.
    first_ms
        Time of the oldest event; None if there are none.
    refused
        Reason -> events that are not valid, and are left out.
    unclear
        Partition, number and the newest time before it (or null) of each chunk that may hold late events.
    """

    rows: DataFrame
    allowed_ms: int
    newest_ms: Mapping[int, int]
    first_ms: int | None
    refused: Mapping[str, int]
    unclear: pa.Table

    @classmethod
    def of(cls, rows: DataFrame, allowed_ms: int) -> "Log":
        """Read the times of all events. ``rows`` is as from :func:`prediction_rows` or :func:`outcome_rows`."""
        valid = F.col(_REASON).isNull()
        time_ms = F.when(valid, F.col(TIME))
        summed = (
            rows.groupBy(_REASON, _PARTITION, _CHUNK)
            .agg(F.min(time_ms).alias("first"), F.max(time_ms).alias("newest"), F.count("*").alias("events"))
            .toArrow()
        )
        refused: dict[str, int] = {}
        for reason, count in zip(summed[_REASON].to_pylist(), summed["events"].to_pylist(), strict=True):
            if reason is not None:
                refused[reason] = refused.get(reason, 0) + count
        chunks = summed.filter(summed[_REASON].is_null())
        partition, chunk, first, newest = (
            np.asarray(chunks[name].to_numpy(), np.int64) for name in (_PARTITION, _CHUNK, "first", "newest")
        )
        order = np.lexsort((chunk, partition))
        partition, chunk, first, newest = partition[order], chunk[order], first[order], newest[order]
        before = _newest_before(partition, newest)
        unclear = np.flatnonzero(first < np.maximum(before, newest) - allowed_ms)
        of_partition = {int(name): int(newest[partition == name].max()) for name in np.unique(partition)}
        columns = {
            _PARTITION: pa.array(partition[unclear].astype(np.int32)),
            _CHUNK: pa.array(chunk[unclear]),
            _NEWEST: pa.array(before[unclear], mask=before[unclear] == _NEVER),
        }
        return cls(
            rows.where(valid),
            allowed_ms,
            of_partition,
            int(first.min()) if first.size else None,
            refused,
            pa.table(columns),
        )

    def events(self) -> DataFrame:
        """The events, each with whether it is late."""
        if not self.unclear.num_rows:
            return self.rows.withColumn(_LATE, F.lit(False))
        unclear = F.broadcast(self.rows.sparkSession.createDataFrame(self.unclear))
        clear = self.rows.join(unclear, [_PARTITION, _CHUNK], "left_anti").withColumn(_LATE, F.lit(False))
        # Events with one time of appending have no known order, so none of them makes another one late.
        log = Window.partitionBy(_PARTITION, _CHUNK).orderBy(_ORDER, TIME)
        newest = F.greatest(F.col(_NEWEST), F.max(TIME).over(log.rowsBetween(Window.unboundedPreceding, -1)))
        is_late = F.coalesce(F.col(TIME) < newest - self.allowed_ms, F.lit(False))
        judged = self.rows.join(unclear, [_PARTITION, _CHUNK]).withColumn(_LATE, is_late).drop(_NEWEST)
        return clear.unionByName(judged)


def _newest_before(partition: Ints, newest: Ints) -> Ints:
    """The newest time before each chunk of a partition; -1 before the first."""
    before = np.full(newest.size, _NEVER, np.int64)
    for name in np.unique(partition):
        of = np.flatnonzero(partition == name)
        before[of[1:]] = np.maximum.accumulate(newest[of])[:-1]
    return before


@dataclass(frozen=True)
class Joined:
    """Predictions joined with their outcomes.

    Attributes
    ----------
    events
        A row for each event: its type in :data:`KIND`, its :data:`RESULT`, and :data:`PREDICTED_MS`, the time of the
        prediction of its id, or null. Accepted predictions have the columns of :attr:`predictions`.
    predictions_log, outcomes_log
        The two logs.
    rules
        Horizon and lateness.
    """

    events: DataFrame
    predictions_log: Log
    outcomes_log: Log
    rules: Rules
    _names: tuple[str, ...]

    @property
    def predictions(self) -> DataFrame:
        """The accepted predictions, settled or not.

        The columns of the table of predictions, and ``outcome``, 0 or 1, and ``outcome_ms``, its time in milliseconds
        since the epoch; both are null where there is no outcome.
        """
        accepted = self.events.where((F.col(KIND) == _PREDICTION) & (F.col(RESULT) == event_results.ACCEPTED))
        return accepted.select(*quoted([*self._names, OUTCOME, OUTCOME_MS]))

    def counts(self) -> dict[tuple[str, str], int]:
        """(type, result) -> number of events, as ``calibration_events_total`` counts them. Runs the join.

        An outcome without a prediction is ``early`` where the prediction may still land, and else an ``orphan``.
        """
        counted = self.events.groupBy(KIND, RESULT).count().collect()
        refused = sum(sum(log.refused.values()) for log in (self.predictions_log, self.outcomes_log))
        dead = {(event_results.UNKNOWN, event_results.DEAD_LETTER): refused} if refused else {}
        return {(TYPES[kind], result): count for kind, result, count in counted} | dead

    def settled_to_ms(self, pane_ms: int = 1) -> int:
        """The time before which all predictions are settled, whole panes; -1 if none are."""
        return min(self.edges_ms(pane_ms).values(), default=_NEVER)

    def edges_ms(self, pane_ms: int = 1) -> dict[int, int]:
        """Partition -> the time before which its predictions are settled."""
        return edges_ms(self.predictions_log, self.outcomes_log, self.rules, pane_ms)


def edges_ms(predictions: Log, outcomes: Log, rules: Rules, pane_ms: int) -> dict[int, int]:
    """Partition -> the time before which its predictions are settled, as in a service that has read what has landed.

    A partition whose predictions have not landed as far as the others' holds them back: nothing says whether it is idle
    or its sink is behind.
    """
    partitions = sorted(predictions.newest_ms)
    newest = [[log.newest_ms.get(name, _NEVER) for name in partitions] for log in (predictions, outcomes)]
    own_ms = np.array(newest, np.int64).reshape(2, -1)
    edges = partition_edges_ms(
        own_ms,
        np.full_like(own_ms, _NEVER),
        own_ms[0],
        lateness_ms=np.full(len(partitions), rules.lateness_ms),
        wait_ms=np.full(len(partitions), rules.wait_ms),
        pane_ms=pane_ms,
    )
    return dict(zip(partitions, np.maximum(edges, _NEVER).tolist(), strict=True))


def join(
    predictions: DataFrame,
    outcomes: DataFrame,
    *,
    horizon: str | timedelta,
    lateness: str | timedelta,
    prediction: str = "p",
    outcome: str = "y",
    positive: str | None = None,
    columns: LogColumns = LOG_COLUMNS,
) -> Joined:
    """Join the predictions of one model with their outcomes, by the rules of the service.

    Reads the times of both tables at once; the join itself runs when its result is used.

    Parameters
    ----------
    predictions, outcomes
        The two topics as they have landed: a row for each event, in any order. Repeated rows of one offset are
        duplicates.
    horizon
        How long after a prediction its outcome still counts: ``"7d"``, or a timedelta.
    lateness
        How far out of order events may be in their log.
    prediction
        Column of P(y = 1), as of :func:`~monitor.spark.score_tables`.
    outcome
        Column of 0 and 1, as of :func:`~monitor.spark.score_tables`.
    positive
        The value of ``outcome`` that is 1; any other is then 0.
    columns
        Names of the columns that both tables have.

    Raises
    ------
    InputError
        A column does not exist or is of a type that cannot be read, or is called as one of the result.
    """
    rules = Rules(_milliseconds(horizon), _milliseconds(lateness))
    return join_logs(
        Log.of(prediction_rows(predictions, columns, prediction), rules.wait_ms),
        Log.of(outcome_rows(outcomes, columns, outcome, positive), rules.lateness_ms),
        rules,
        tuple(predictions.columns),
    )


def prediction_rows(df: DataFrame, columns: LogColumns, prediction: str) -> DataFrame:
    """The table with the columns that the join reads: place in the log, time, value, and why an event is not valid."""
    if clash := [name for name in (OUTCOME, OUTCOME_MS) if name in df.columns]:
        raise InputError(f"predictions must not have a column {clash[0]!r}, which the result has: leave it out")
    value = number_of(df, prediction, "prediction")
    wrong = (
        F.when(column_of(df, prediction, "prediction").isNull(), "missing_prediction")
        # NaN is larger than any number here.
        .when(~F.coalesce((value >= 0.0) & (value <= 1.0), F.lit(False)), "invalid_prediction")
    )
    return _placed(df, columns, {PREDICTION: value}, wrong)


def outcome_rows(df: DataFrame, columns: LogColumns, outcome: str, positive: str | None = None) -> DataFrame:
    """The events of a table of outcomes with the columns that the join reads, and no others."""
    value = outcome_of(df, outcome, positive)
    wrong = F.when(value.isNull(), "invalid_outcome").when(value == UNLABELLED, "missing_outcome")
    rows = _placed(df, columns, {_Y: value}, wrong)
    return rows.select(_ID, _PARTITION, _ORDER, _CHUNK, TIME, _Y, _REASON)


def _placed(df: DataFrame, columns: LogColumns, values: Mapping[str, Column], wrong: Column) -> DataFrame:
    order = column_of(df, columns.order, "order")
    kind = df.schema[columns.order].dataType
    if isinstance(kind, T.TimestampType):
        order, size = F.unix_micros(order), _MICROSECONDS_IN_CHUNK
    elif isinstance(kind, T.IntegralType):
        order, size = order.cast("bigint"), _OFFSETS_IN_CHUNK
    else:
        raise InputError(f"order must be a column of offsets or timestamps, got one of {kind.simpleString()}")
    partition = F.lit(0) if columns.partition is None else column_of(df, columns.partition, "partition").cast("int")
    placed = {
        _ID: id_of(df, columns.id),
        _PARTITION: partition,
        _ORDER: order,
        _CHUNK: F.floor(order / size),
        **values,
    }
    rows = with_times(df, columns.time).withColumns(placed)
    missing = [(_ID, "id"), (TIME, "time"), (_PARTITION, "partition"), (_ORDER, "order")]
    reasons = [F.when(F.col(name).isNull(), f"missing_{role}") for name, role in missing]
    return rows.withColumn(_REASON, F.coalesce(wrong, *reasons))


def join_logs(predictions: Log, outcomes: Log, rules: Rules, names: tuple[str, ...]) -> Joined:
    """Join two logs; ``names`` are the columns of predictions to keep."""
    kept = predictions.events().select(
        *quoted(names), _ID, _PARTITION, _ORDER, TIME, _LATE, PREDICTION, F.lit(_PREDICTION).alias(KIND)
    )
    events = kept.unionByName(
        outcomes.events().select(_ID, _PARTITION, _ORDER, TIME, _LATE, _Y, F.lit(_OUTCOME).alias(KIND)),
        allowMissingColumns=True,
    )
    of_id = Window.partitionBy(_ID, _PARTITION).orderBy(KIND, _ORDER, TIME, _Y, PREDICTION)
    so_far = of_id.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    earlier = of_id.rowsBetween(Window.unboundedPreceding, -1)
    whole = of_id.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    time_ms, is_late = F.col(TIME), F.col(_LATE)
    # Predictions come first, so outcomes meet the first that is not late.
    in_time = (F.col(KIND) == _PREDICTION) & ~is_late
    met = events.withColumns(
        {
            PREDICTED_MS: F.first(F.when(in_time, time_ms), ignorenulls=True).over(so_far),
            "__place": F.count(F.when(in_time, 1)).over(so_far),
        }
    )
    predicted_ms = F.col(PREDICTED_MS)
    fits = time_ms.between(predicted_ms - rules.lateness_ms, predicted_ms + rules.horizon_ms)
    # The outcome that stands is the last in time, of two at one time the later in the log; so is the one before it.
    answer = F.when((F.col(KIND) == _OUTCOME) & ~is_late & fits, F.struct(TIME, _ORDER, _Y))
    answered = met.withColumns({"__before": F.max(answer).over(earlier), "__last": F.max(answer).over(whole)})
    of_prediction = (
        F.when(is_late, event_results.LATE)
        .when(F.col("__place") == 1, event_results.ACCEPTED)
        .otherwise(event_results.DUPLICATE)
    )
    edge_ms = min(edges_ms(predictions, outcomes, rules, 1).values(), default=_NEVER)
    before_ms, before = F.col(f"__before.{TIME}"), F.col(f"__before.{_Y}")
    of_outcome = (
        F.when(is_late, event_results.LATE)
        .when(predicted_ms.isNull() & (time_ms + rules.lateness_ms < edge_ms), event_results.ORPHAN)
        .when(predicted_ms.isNull(), event_results.EARLY)
        .when(time_ms > predicted_ms + rules.horizon_ms, event_results.AFTER_HORIZON)
        .when(time_ms < predicted_ms - rules.lateness_ms, event_results.BEFORE_PREDICTION)
        .when(before.isNull(), event_results.JOINED)
        .when(before == F.col(_Y), event_results.DUPLICATE)
        .when(time_ms < before_ms, event_results.SUPERSEDED)
        .otherwise(event_results.CORRECTED)
    )
    result = F.when(F.col(KIND) == _PREDICTION, of_prediction).otherwise(of_outcome)
    last = {OUTCOME: F.col(f"__last.{_Y}"), OUTCOME_MS: F.col(f"__last.{TIME}")}
    return Joined(answered.withColumns({RESULT: result, **last}), predictions, outcomes, rules, names)


def _milliseconds(duration: str | timedelta) -> int:
    return to_ms(parse_duration(duration) if isinstance(duration, str) else duration)
