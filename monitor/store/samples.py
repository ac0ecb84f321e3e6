"""Samples in the database: candidates beside the journal, and closed samples for refits."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from monitor.store.base import Bucket, CandidateBatch, PaneKey, SampledSpan
from monitor.store.closed_samples import ClosedSample, merge
from monitor.store.database import Database
from monitor.store.recalibrations import Sample
from monitor.store.schema import CLOSED_SAMPLES, SAMPLE_CANDIDATES

MAX_PARTS: Final = 8
"""If a span has more parts, they are merged into one."""

MERGED_BYTES: Final = 1 << 21
"""A save merges about this many bytes of a partition, or twice what it adds if that is more; the next save merges the
rest. So no save takes long, and parts do not accumulate."""

_SPAN: Final = ("model", "slide_ms", "start_ms", "version", "segment")
_KEYS_PER_STATEMENT: Final = 500
_BATCHES_PER_FETCH: Final = 8
_SAMPLES_PER_FETCH: Final = 8


def append_candidates(
    connection: sa.Connection, partition: int, first_sequence: int, batches: Sequence[CandidateBatch]
) -> None:
    """Store batches under consecutive sequence numbers; a whole batch replaces the others of its bucket."""
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
    """Read the batches by sequence number, a few at a time."""
    statement = (
        sa.select(SAMPLE_CANDIDATES.c.model, SAMPLE_CANDIDATES.c.bucket_ms, SAMPLE_CANDIDATES.c.rows)
        .where(SAMPLE_CANDIDATES.c.partition == partition)
        .order_by(SAMPLE_CANDIDATES.c.sequence)
    )
    with database.stream(connection, statement, _BATCHES_PER_FETCH) as result:
        for model, start_ms, rows in result:
            yield CandidateBatch(Bucket(model, start_ms), rows)


class EncodedSample(NamedTuple):
    """An encoded part of a span's sample."""

    key: PaneKey
    data: bytes
    merged_until: int = -1
    """It includes and replaces the span's parts up to this sequence number; -1 for none."""


def encode_closed(database: Database, partition: int, closed: Iterable[SampledSpan]) -> list[EncodedSample]:
    """Encode what a save writes, before it locks anything; spans with too many parts are merged.

    Only the owner of the partition writes its spans, and the save succeeds only if the epoch is still the owner's: so
    what is read here is still current when it is written.
    """
    parts: dict[PaneKey, list[ClosedSample]] = {}
    for key, part in closed:
        parts.setdefault(key, []).append(part)
    if not parts:
        return []
    added = {key: part[0] if len(part) == 1 else ClosedSample.sum(part) for key, part in parts.items()}
    encoded = {key: EncodedSample(key, part.to_bytes()) for key, part in added.items()}
    budget = max(MERGED_BYTES, 2 * sum(len(part.data) for part in encoded.values()))
    with database.reading() as connection:
        for key, size in _crowded(connection, partition, list(parts)):
            columns = CLOSED_SAMPLES.c
            stored = connection.execute(
                sa.select(columns.sequence, columns.sample)
                .where(columns.partition == partition, *_of_span(key))
                .order_by(columns.sequence)
            ).all()
            merged = ClosedSample.sum([*(ClosedSample.from_bytes(data) for _, data in stored), added[key]])
            encoded[key] = EncodedSample(key, merged.to_bytes(), stored[-1].sequence)
            budget -= size
            if budget <= 0:
                break
    return list(encoded.values())


def append_closed(connection: sa.Connection, partition: int, sequence: int, parts: Sequence[EncodedSample]) -> None:
    """Write parts of different spans under one sequence number, and delete the parts that they include."""
    for part in parts:
        if part.merged_until >= 0:
            is_merged = CLOSED_SAMPLES.c.partition == partition, CLOSED_SAMPLES.c.sequence <= part.merged_until
            connection.execute(sa.delete(CLOSED_SAMPLES).where(*is_merged, *_of_span(part.key)))
    if parts:
        connection.execute(
            sa.insert(CLOSED_SAMPLES),
            [
                {
                    "partition": partition,
                    **dict(zip(_SPAN, _span(part.key), strict=True)),
                    "sequence": sequence,
                    "size": len(part.data),
                    "sample": part.data,
                }
                for part in parts
            ],
        )


def read_sample(
    database: Database, model: str, version: str, *, from_ms: int, to_ms: int | None, limit: int | None
) -> Sample:
    """Read the sample of a version: see :class:`~monitor.store.recalibrations.SampleStore`."""
    columns = CLOSED_SAMPLES.c
    span = columns.partition, columns.slide_ms, columns.start_ms
    statement = (
        sa.select(*span, columns.sample)
        .where(columns.model == model, columns.version == version, columns.start_ms + columns.slide_ms > from_ms)
        .order_by(*span, columns.sequence)
    )
    if to_ms is not None:
        statement = statement.where(columns.start_ms < to_ms)
    with database.reading() as connection, database.stream(connection, statement, _SAMPLES_PER_FETCH) as result:
        return merge(_whole_spans(result), from_ms=from_ms, to_ms=to_ms, limit=limit)


def _whole_spans(parts: Iterable[Any]) -> Iterator[ClosedSample]:
    """Sum the parts of each span; rows of a span follow each other."""
    for _, of_span in itertools.groupby(parts, key=lambda row: tuple(row[:-1])):
        yield ClosedSample.sum([ClosedSample.from_bytes(row[-1]) for row in of_span])


def _crowded(connection: sa.Connection, partition: int, keys: Sequence[PaneKey]) -> list[tuple[PaneKey, int]]:
    """Return the spans with the maximum number of parts, those with the most parts first, and their sizes in bytes."""
    columns = [CLOSED_SAMPLES.c[name] for name in _SPAN]
    crowded = []
    by_columns = {_span(key): key for key in keys}
    spans = list(by_columns)
    for at in range(0, len(spans), _KEYS_PER_STATEMENT):
        rows = connection.execute(
            sa.select(*columns, sa.func.count(), sa.func.sum(CLOSED_SAMPLES.c.size))
            .where(
                CLOSED_SAMPLES.c.partition == partition, sa.tuple_(*columns).in_(spans[at : at + _KEYS_PER_STATEMENT])
            )
            .group_by(*columns)
            .having(sa.func.count() >= MAX_PARTS)
        )
        crowded += [(count, by_columns[tuple(span)], int(size)) for *span, count, size in rows]
    return [(key, size) for _, key, size in sorted(crowded, reverse=True)]


def _span(key: PaneKey) -> tuple[str, int, int, str, str]:
    return (key.series.model, key.slide_ms, key.start_ms, key.series.version, key.series.segment)


def _of_span(key: PaneKey) -> list[sa.ColumnElement[bool]]:
    return [CLOSED_SAMPLES.c[name] == value for name, value in zip(_SPAN, _span(key), strict=True)]
