"""Batches of rows by bucket: the journal, whose small batches are merged, and the candidates for samples."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from monitor.store.base import MAX_BATCH_BYTES, Bucket
from monitor.store.database import Database, chunks
from monitor.store.schema import JOURNAL

FULL_BYTES: Final = 1 << 16
"""Batches of this size are not merged any more: larger ones are not read faster."""

MAX_BATCHES: Final = 64
"""Small batches that may follow the last full one of a bucket before they are merged."""

MERGED_BYTES: Final = 1 << 24
"""A save merges about this much, so that it does not take long; the next one continues."""

_BATCHES_A_FETCH: Final = 8


def append(
    connection: sa.Connection,
    table: sa.Table,
    partition: int,
    first_sequence: int,
    batches: Iterable[tuple[Bucket, bytes]],
) -> None:
    """Store batches under consecutive sequence numbers in JOURNAL or SAMPLE_CANDIDATES."""
    values = [
        {
            "partition": partition,
            "sequence": sequence,
            "model": bucket.model,
            "bucket_ms": bucket.start_ms,
            "rows": rows,
        }
        | ({"size": len(rows)} if "size" in table.c else {})
        for sequence, (bucket, rows) in enumerate(batches, first_sequence)
    ]
    if values:
        connection.execute(sa.insert(table), values)


def drop(connection: sa.Connection, table: sa.Table, partition: int, buckets: Sequence[Bucket]) -> None:
    """Remove the batches of these buckets."""
    if buckets:
        connection.execute(
            sa.delete(table).where(
                table.c.partition == partition,
                table.c.model == sa.bindparam("dropped_model"),
                table.c.bucket_ms == sa.bindparam("dropped_ms"),
            ),
            [{"dropped_model": bucket.model, "dropped_ms": bucket.start_ms} for bucket in buckets],
        )


def read(
    database: Database, connection: sa.Connection, table: sa.Table, partition: int
) -> Iterator[tuple[Bucket, bytes]]:
    """Yield the batches in the order of their sequence numbers, a few at a time."""
    statement = (
        sa.select(table.c.model, table.c.bucket_ms, table.c.rows)
        .where(table.c.partition == partition)
        .order_by(table.c.sequence)
    )
    with database.stream(connection, statement, _BATCHES_A_FETCH) as result:
        for model, start_ms, rows in result:
            yield Bucket(model, start_ms), rows


def compact(connection: sa.Connection, partition: int, buckets: Iterable[Bucket]) -> None:
    """Merge the batches of those buckets that have too many small ones.

    A merged batch has the sequence number of its first one, so the order within a bucket stays.
    """
    budget = MERGED_BYTES
    for bucket in _crowded(connection, partition, list(buckets)):
        in_bucket = (
            JOURNAL.c.partition == partition,
            JOURNAL.c.model == bucket.model,
            JOURNAL.c.bucket_ms == bucket.start_ms,
        )
        batches = connection.execute(
            sa.select(JOURNAL.c.sequence, JOURNAL.c.size).where(*in_bucket).order_by(JOURNAL.c.sequence)
        ).all()
        start = merge_from([size for _, size in batches])
        if start == len(batches):
            continue
        merged = (*in_bucket, JOURNAL.c.sequence >= batches[start].sequence)
        rows = connection.execute(sa.select(JOURNAL.c.rows).where(*merged).order_by(JOURNAL.c.sequence)).scalars()
        wholes = [b""]
        for part in rows:
            if len(wholes[-1]) + len(part) > MAX_BATCH_BYTES:
                wholes.append(b"")
            wholes[-1] += part
        connection.execute(sa.delete(JOURNAL).where(*merged))
        # There are fewer than there were batches, so the numbers of these suffice.
        for whole, batch in zip(wholes, batches[start:], strict=False):
            append(connection, JOURNAL, partition, batch.sequence, [(bucket, whole)])
        budget -= sum(map(len, wholes))
        if budget <= 0:
            break


def merge_from(sizes: Sequence[int], most: int = MAX_BATCHES) -> int:
    """Place of the first batch of a bucket that is merged with the ones after it.

    Only batches after the last full one are merged, and an older batch only with newer ones that together are at least
    as large: the batch that holds a row doubles each time, so no row is rewritten more often than log2(FULL_BYTES /
    size of what 64 batches hold), and at most 64 + log2(FULL_BYTES) batches stay behind the last full one.

    Parameters
    ----------
    sizes
        Bytes of the bucket's batches, oldest first.
    most
        Small batches that are left.

    Returns
    -------
    int
        ``len(sizes)`` if there is nothing to do.
    """
    start = len(sizes)
    while start and sizes[start - 1] < FULL_BYTES:
        start -= 1
    if len(sizes) - start <= most:
        return len(sizes)
    newer = sum(sizes[start:])
    while True:
        newer -= sizes[start]
        if sizes[start] <= newer:
            return start
        start += 1


def _crowded(connection: sa.Connection, partition: int, buckets: Sequence[Bucket]) -> list[Bucket]:
    """Find the buckets that have too many small batches, the fullest first."""
    crowded: list[tuple[int, Bucket]] = []
    for some in chunks(buckets):
        small = sa.func.count()
        rows = connection.execute(
            sa.select(JOURNAL.c.model, JOURNAL.c.bucket_ms, small)
            .where(
                JOURNAL.c.partition == partition,
                sa.tuple_(JOURNAL.c.model, JOURNAL.c.bucket_ms).in_(some),
                JOURNAL.c.size < FULL_BYTES,
            )
            .group_by(JOURNAL.c.model, JOURNAL.c.bucket_ms)
            .having(small > MAX_BATCHES)
        )
        crowded += [(count, Bucket(model, start_ms)) for model, start_ms, count in rows]
    return [bucket for _, bucket in sorted(crowded, reverse=True)]
