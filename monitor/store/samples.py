"""Samples in the database: candidates beside the journal, and the closed samples as a refit reads them."""

from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from monitor.samples.closed import ClosedSample
from monitor.samples.merged import merge
from monitor.store.base import Bucket, CandidateBatch
from monitor.store.database import Database
from monitor.store.recalibrations import Sample
from monitor.store.schema import CLOSED_SAMPLES, SAMPLE_CANDIDATES

_BATCHES_A_FETCH: Final = 8
_SAMPLES_A_FETCH: Final = 8


def append_candidates(
    connection: sa.Connection, partition: int, first_sequence: int, batches: Sequence[CandidateBatch]
) -> None:
    """Store batches under consecutive sequence numbers; one that is whole takes the place of its bucket's others."""
    drop_candidates(connection, partition, [batch.bucket for batch in batches if batch.whole])
    if batches:
        connection.execute(
            sa.insert(SAMPLE_CANDIDATES),
            [
                {
                    "partition": partition,
                    "sequence": sequence,
                    "model": batch.bucket.model,
                    "bucket_ms": batch.bucket.start_ms,
                    "rows": batch.rows,
                }
                for sequence, batch in enumerate(batches, first_sequence)
            ],
        )


def drop_candidates(connection: sa.Connection, partition: int, buckets: Sequence[Bucket]) -> None:
    """Remove the candidates of these buckets."""
    if buckets:
        connection.execute(
            sa.delete(SAMPLE_CANDIDATES).where(
                SAMPLE_CANDIDATES.c.partition == partition,
                SAMPLE_CANDIDATES.c.model == sa.bindparam("dropped_model"),
                SAMPLE_CANDIDATES.c.bucket_ms == sa.bindparam("dropped_ms"),
            ),
            [{"dropped_model": bucket.model, "dropped_ms": bucket.start_ms} for bucket in buckets],
        )


def read_candidates(database: Database, connection: sa.Connection, partition: int) -> Iterator[CandidateBatch]:
    """The batches in the order of their sequence numbers, a few at a time."""
    statement = (
        sa.select(SAMPLE_CANDIDATES.c.model, SAMPLE_CANDIDATES.c.bucket_ms, SAMPLE_CANDIDATES.c.rows)
        .where(SAMPLE_CANDIDATES.c.partition == partition)
        .order_by(SAMPLE_CANDIDATES.c.sequence)
    )
    with database.stream(connection, statement, _BATCHES_A_FETCH) as result:
        for model, start_ms, rows in result:
            yield CandidateBatch(Bucket(model, start_ms), rows)


def read_sample(
    database: Database, model: str, version: str, *, from_ms: int, to_ms: int | None, limit: int | None
) -> Sample:
    """What a :class:`~monitor.store.recalibrations.SampleStore` reads."""
    columns = CLOSED_SAMPLES.c
    statement = (
        sa.select(columns.sample)
        .where(columns.model == model, columns.version == version, columns.start_ms + columns.slide_ms > from_ms)
        .order_by(columns.partition, columns.slide_ms, columns.start_ms)
    )
    if to_ms is not None:
        statement = statement.where(columns.start_ms < to_ms)
    with database.reading() as connection, database.stream(connection, statement, _SAMPLES_A_FETCH) as result:
        merged = merge((ClosedSample.from_bytes(data) for (data,) in result), from_ms=from_ms, to_ms=to_ms, limit=limit)
    return Sample(merged.events, merged.population, merged.left_out)
