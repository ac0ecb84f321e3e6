"""Samples of labelled events: drawn by the service's rule from the service's hashes of ids, so they are the same."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from monitor.arrays import grouped
from monitor.errors import InputError
from monitor.events.model import ModelPolicy
from monitor.events.wire import seed_of
from monitor.sources.columns import UNLABELLED
from monitor.spark.panes import TIME
from monitor.spark.tables import OUTCOME, PREDICTION
from monitor.store.bottom_sample_loops import EDGES
from monitor.store.closed_samples import SCHEMA, ClosedSample, numbers
from monitor.stream.journal import bucket_width_ms
from monitor.stream.sampling import SampleSettings

ID: Final = "__id"
FEATURES: Final = "__features"
SEGMENTS: Final = "__segments"

_SPANS: Final = 16
_PENDING_ROWS: Final = 300_000
"""Rows of a task that wait until it is known which of them are in no sample."""
_DRAWN: Final = "bucket_ms bigint, sample binary"


class SamplePlan(NamedTuple):
    """Sizes of a model's samples; how they are drawn is said in :mod:`monitor.stream.sampling`."""

    span_ms: int
    capacity: int
    """Labelled events that a span keeps."""
    bucket_ms: int
    candidates: int
    """Predictions that a bucket keeps, with an outcome or without one, for their span."""

    @classmethod
    def of_service(cls, model: str, policy: ModelPolicy, settings: SampleSettings) -> "SamplePlan":
        """The plan of a service with such settings."""
        return cls(
            settings.span_width_ms(policy),
            settings.capacity(model, policy),
            bucket_width_ms(policy.retention_ms),
            settings.candidates(model, policy),
        )

    @classmethod
    def of_length(cls, size: int, length_ms: int) -> "SamplePlan":
        """A plan for about so many events in all, over a length of time."""
        span_ms, capacity = length_ms // _SPANS + 1, -(-size // _SPANS)
        return cls(span_ms, capacity, span_ms, 2 * capacity)


def features_of(columns: Sequence[Column]) -> Column:
    """Numbers as an array of floats; null if there are none, or one of them is null or not finite."""
    if not columns:
        return F.lit(None).cast("array<float>")
    values = [column.cast("float") for column in columns]
    finite = [F.coalesce(F.abs(value) < float("inf"), F.lit(False)) for value in values]
    return F.when(F.forall(F.array(*finite), lambda is_finite: is_finite), F.array(*values))


def segments_of(columns: dict[str, Column]) -> Column:
    """Segments as the JSON [[key, value], ...]."""
    pairs = [F.array(F.lit(key), F.coalesce(column.cast("string"), F.lit(""))) for key, column in columns.items()]
    return F.to_json(F.array(*pairs)) if pairs else F.lit("[]")


def draw_samples(rows: DataFrame, plan: SamplePlan, *, model: str) -> list[ClosedSample]:
    """Draw the samples of all spans.

    Parameters
    ----------
    rows
        Rows that can be counted, with :data:`~monitor.spark.tables.PREDICTION`, :data:`~monitor.spark.tables.OUTCOME`,
        :data:`~monitor.spark.panes.TIME`, :data:`ID` (text), :data:`FEATURES` and :data:`SEGMENTS`.
    model
        Name of the model. The hash of an id depends on it.

    Raises
    ------
    InputError
        Two of the sampled events have the same id.
    """
    time_ms, p = F.col(TIME), F.col(PREDICTION)
    located = rows.select(
        ID,
        (time_ms - F.pmod(time_ms, F.lit(plan.bucket_ms))).alias("bucket_ms"),
        (time_ms - F.pmod(time_ms, F.lit(plan.span_ms))).alias("span_ms"),
        time_ms.alias("time_ms"),
        sum(((p >= edge).cast("int") for edge in EDGES), F.lit(0)).alias("confidence"),
        F.array(p).alias("prediction"),
        F.col(OUTCOME).cast("smallint").alias("outcome"),
        F.col(SEGMENTS).alias("segments"),
        F.col(FEATURES).alias("features"),
    )
    seed, kept = seed_of(model), plan.candidates

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _of_task(batches, seed, kept)

    drawn = located.mapInArrow(of_task, _DRAWN).groupBy("bucket_ms").applyInArrow(_of_bucket, _DRAWN).toArrow()
    parts = [ClosedSample.from_bytes(data).table for data in drawn["sample"].to_pylist()]
    labelled: dict[int, dict[int, int]] = {}
    answered = located.where(F.col("outcome") != UNLABELLED)
    for start_ms, confidence, count in answered.groupBy("span_ms", "confidence").count().collect():
        labelled.setdefault(start_ms, {})[confidence] = count
    table = pa.concat_tables([SCHEMA.empty_table(), *parts])
    _refuse_duplicates(table)
    table = table.filter(pa.array(numbers(table, "outcome") != UNLABELLED))
    at_ms = numbers(table, "time_ms")
    order, cuts = grouped(at_ms - at_ms % plan.span_ms)
    of_spans = {
        int(at_ms[order[start]] // plan.span_ms * plan.span_ms): table.take(pa.array(order[start:end]))
        for start, end in pairwise(cuts)
    }
    return [
        ClosedSample.of(plan.capacity, counts, of_spans.get(start_ms, table.slice(0, 0)))
        for start_ms, counts in sorted(labelled.items())
    ]


def _of_task(batches: Iterable[pa.RecordBatch], seed: int, capacity: int) -> Iterator[pa.RecordBatch]:
    """Sample the rows of a task by bucket."""
    held = pa.schema([*SCHEMA, ("bucket_ms", pa.int64())]).empty_table()
    pending, count = [held], 0
    for batch in batches:
        rows = _hashed(batch, seed)
        pending.append(rows)
        count += rows.num_rows
        if count > _PENDING_ROWS:
            held = _bounded(pa.concat_tables(pending), capacity)
            pending, count = [held], 0
    table = pa.concat_tables(pending).combine_chunks()
    order, cuts = grouped(numbers(table, "bucket_ms"))
    samples = []
    for start, end in pairwise(cuts):
        of_bucket = table.take(pa.array(order[start:end]))
        data = ClosedSample.of(capacity, {}, of_bucket.select(SCHEMA.names)).to_bytes()
        samples.append((of_bucket["bucket_ms"][0].as_py(), data))
    columns = zip(*samples, strict=True) if samples else ((), ())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, (pa.int64(), pa.binary()), strict=True)]
    yield pa.record_batch(arrays, ["bucket_ms", "sample"])


def _of_bucket(parts: pa.Table) -> pa.Table:
    """Merge the samples of a bucket that tasks drew."""
    whole = ClosedSample.sum([ClosedSample.from_bytes(data) for data in parts["sample"].to_pylist()])
    return pa.table({"bucket_ms": parts["bucket_ms"][:1], "sample": pa.array([whole.to_bytes()], pa.binary())})


def _hashed(batch: pa.RecordBatch, seed: int) -> pa.Table:
    """The rows with the hashes of their ids, in columns of SCHEMA and ``bucket_ms``."""
    ids = (text.encode() for text in batch[ID].to_pylist())
    digests = b"".join(xxhash.xxh3_128_digest(encoded, seed) for encoded in ids)
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    table = pa.Table.from_batches([batch])
    for place, name in enumerate(("id_high", "id_low")):
        table = table.append_column(name, pa.array(np.ascontiguousarray(halves[:, place])))
    return table.select([*SCHEMA.names, "bucket_ms"]).cast(pa.schema([*SCHEMA, ("bucket_ms", pa.int64())]))


def _bounded(table: pa.Table, capacity: int) -> pa.Table:
    """Leave out rows that are in no sample, as so many of their bucket and stratum have smaller hashes."""
    keys = [numbers(table, name) for name in ("bucket_ms", "confidence", "id_high", "id_low", "time_ms")]
    _, cuts = grouped(*keys[:2])
    order = np.lexsort(keys[::-1])
    rank = np.arange(order.size) - np.repeat(cuts[:-1], np.diff(cuts))
    return table.take(pa.array(np.sort(order[rank < capacity]))).combine_chunks()


def _refuse_duplicates(table: pa.Table) -> None:
    halves = np.stack([numbers(table, "id_high"), numbers(table, "id_low")], axis=1)
    distinct = np.unique(halves, axis=0)
    if len(distinct) < len(halves):
        raise InputError(
            f"{len(halves) - len(distinct):,} of {len(halves):,} sampled rows have an id of another one: ids must be "
            "unique, so leave repeated predictions out, as by dropDuplicates"
        )
