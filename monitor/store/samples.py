"""Closed samples in the database."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from monitor.store.base import PaneKey, SampledSpan
from monitor.store.closed_samples import ClosedSample, merge
from monitor.store.database import Database, chunks
from monitor.store.recalibrations import Sample
from monitor.store.schema import CLOSED_SAMPLES

MAX_PARTS: Final = 8
"""Parts of a span; when one more comes, they are merged into one."""

MERGED_BYTES: Final = 1 << 21
"""A save merges about this much, or twice what it adds if that is more: it does not take long, and the number of parts
stays small."""

_SPAN: Final = ("model", "slide_ms", "start_ms", "version", "segment")
_SAMPLES_A_FETCH: Final = 8


class EncodedSample(NamedTuple):
    """A part of a span's sample, ready to be written."""

    key: PaneKey
    data: bytes
    merged_until: int = -1
    """Sequence number up to which it contains and replaces the span's parts; -1 for none."""


def encode_closed(database: Database, partition: int, closed: Iterable[SampledSpan]) -> list[EncodedSample]:
    """Encode samples for a save before it takes a lock, and merge the parts of spans that have too many.

    Only the owner of a partition writes its spans, and the save fails if the owner has changed, so the parts that are
    read here cannot change before they are replaced.
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
    """Write parts of different spans under one sequence number, and remove the parts that they contain."""
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


def expire(connection: sa.Connection, partition: int, before_ms: Mapping[tuple[str, int], int]) -> None:
    """Remove the spans of (model, width) that start earlier."""
    if before_ms:
        connection.execute(
            sa.delete(CLOSED_SAMPLES).where(
                CLOSED_SAMPLES.c.partition == partition,
                CLOSED_SAMPLES.c.model == sa.bindparam("expired_model"),
                CLOSED_SAMPLES.c.slide_ms == sa.bindparam("width_ms"),
                CLOSED_SAMPLES.c.start_ms < sa.bindparam("before_ms"),
            ),
            [
                {"expired_model": model, "width_ms": width_ms, "before_ms": start_ms}
                for (model, width_ms), start_ms in before_ms.items()
            ],
        )


def read_sample(
    database: Database, model: str, version: str, *, from_ms: int, to_ms: int | None, limit: int | None
) -> Sample:
    """See :meth:`monitor.store.sql.SqlStore.read_sample`."""
    columns = CLOSED_SAMPLES.c
    span = columns.partition, columns.slide_ms, columns.start_ms
    statement = (
        sa.select(*span, columns.sample)
        .where(columns.model == model, columns.version == version, columns.start_ms + columns.slide_ms > from_ms)
        .order_by(*span, columns.sequence)
    )
    if to_ms is not None:
        statement = statement.where(columns.start_ms < to_ms)
    with database.reading() as connection, database.stream(connection, statement, _SAMPLES_A_FETCH) as result:
        return merge(_whole_spans(result), from_ms=from_ms, to_ms=to_ms, limit=limit)


def span_ends(database: Database, model: str, version: str, *, from_ms: int, to_ms: int) -> list[int]:
    """Return when the sampled spans of a version end that do so after ``from_ms`` and by ``to_ms``."""
    columns = CLOSED_SAMPLES.c
    end_ms = columns.start_ms + columns.slide_ms
    of = columns.model == model, columns.version == version, end_ms > from_ms, end_ms <= to_ms
    return [end_ms for (end_ms,) in database.rows(sa.select(end_ms).where(*of).distinct().order_by(end_ms))]


def _whole_spans(parts: Iterable[Any]) -> Iterator[ClosedSample]:
    """Yield the sum of each span's parts, which are consecutive rows."""
    for _, span_parts in itertools.groupby(parts, key=lambda row: tuple(row[:-1])):
        yield ClosedSample.sum([ClosedSample.from_bytes(row[-1]) for row in span_parts])


def _crowded(connection: sa.Connection, partition: int, keys: Sequence[PaneKey]) -> list[tuple[PaneKey, int]]:
    """Find the spans that have too many parts, the fullest first, and their bytes."""
    columns = [CLOSED_SAMPLES.c[name] for name in _SPAN]
    crowded = []
    by_columns = {_span(key): key for key in keys}
    for spans in chunks(by_columns):
        rows = connection.execute(
            sa.select(*columns, sa.func.count(), sa.func.sum(CLOSED_SAMPLES.c.size))
            .where(CLOSED_SAMPLES.c.partition == partition, sa.tuple_(*columns).in_(spans))
            .group_by(*columns)
            .having(sa.func.count() >= MAX_PARTS)
        )
        crowded += [(count, by_columns[tuple(span)], int(size)) for *span, count, size in rows]
    return [(key, size) for _, key, size in sorted(crowded, reverse=True)]


def _span(key: PaneKey) -> tuple[str, int, int, str, str]:
    return (key.series.model, key.slide_ms, key.start_ms, key.series.version, key.series.segment)


def _of_span(key: PaneKey) -> list[sa.ColumnElement[bool]]:
    return [CLOSED_SAMPLES.c[name] == value for name, value in zip(_SPAN, _span(key), strict=True)]
