"""The journal in the database: many small batches come in, fewer and larger ones remain."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import sqlalchemy as sa

from monitor.store.base import JOURNAL_ROW, VECTOR, Bucket, JournalBatch
from monitor.store.database import Database
from monitor.store.schema import JOURNAL

FULL_BYTES: Final = 1 << 16
"""A batch of this size is read about as fast as any larger one, so it is not merged any more."""

MOST_BATCHES: Final = 64
"""As many batches of a bucket that are not full may pile up behind its last full one."""

LARGEST_BYTES: Final = (1 << 22) // JOURNAL_ROW.itemsize * JOURNAL_ROW.itemsize
"""No batch is stored larger than this (whole rows of 4 MiB), so that reading it takes little memory."""

MERGED_BYTES: Final = 1 << 24
"""A save merges about this much and leaves the rest to the next, so that no save takes long."""

_BUCKETS_A_STATEMENT: Final = 500
_BATCHES_A_FETCH: Final = 8


def pieces(rows: bytes) -> list[bytes]:
    """Rows of one batch, cut where it is too large to be stored as one; never between a row and its VECTOR rows."""
    if len(rows) % JOURNAL_ROW.itemsize:
        raise ValueError(f"a journal batch is whole rows of {JOURNAL_ROW.itemsize} bytes, got {len(rows)} bytes")
    if len(rows) <= LARGEST_BYTES:
        return [rows] if rows else []
    entry = np.frombuffer(rows, JOURNAL_ROW)["entry"]
    result = []
    start = 0
    while start < entry.size:
        end = min(start + LARGEST_BYTES // JOURNAL_ROW.itemsize, entry.size)
        while start + 1 < end < entry.size and entry[end] == VECTOR:
            end -= 1
        result.append(rows[start * JOURNAL_ROW.itemsize : end * JOURNAL_ROW.itemsize])
        start = end
    return result


def append(
    connection: sa.Connection, partition: int, first_sequence: int, batches: Sequence[tuple[Bucket, bytes]]
) -> None:
    """Store batches under consecutive sequence numbers."""
    _insert(connection, partition, enumerate(batches, first_sequence))


def drop(connection: sa.Connection, partition: int, buckets: Sequence[Bucket]) -> None:
    """Remove the batches of these buckets."""
    if buckets:
        connection.execute(
            sa.delete(JOURNAL).where(
                JOURNAL.c.partition == partition,
                JOURNAL.c.model == sa.bindparam("dropped_model"),
                JOURNAL.c.bucket_ms == sa.bindparam("dropped_ms"),
            ),
            [{"dropped_model": bucket.model, "dropped_ms": bucket.start_ms} for bucket in buckets],
        )


def read(database: Database, connection: sa.Connection, partition: int) -> Iterator[JournalBatch]:
    """The batches in the order of their sequence numbers, a few at a time."""
    statement = (
        sa.select(JOURNAL.c.model, JOURNAL.c.bucket_ms, JOURNAL.c.rows)
        .where(JOURNAL.c.partition == partition)
        .order_by(JOURNAL.c.sequence)
    )
    with database.stream(connection, statement, _BATCHES_A_FETCH) as result:
        for model, start_ms, rows in result:
            yield JournalBatch(Bucket(model, start_ms), rows)


def compact(connection: sa.Connection, partition: int, buckets: Iterable[Bucket]) -> None:
    """Merge batches of those buckets where too many have piled up.

    A merged batch takes the place of its first one: within a bucket, nothing changes its order.
    """
    budget = MERGED_BYTES
    for bucket in _crowded(connection, partition, list(buckets)):
        of_bucket = (
            JOURNAL.c.partition == partition,
            JOURNAL.c.model == bucket.model,
            JOURNAL.c.bucket_ms == bucket.start_ms,
        )
        known = connection.execute(
            sa.select(JOURNAL.c.sequence, JOURNAL.c.size).where(*of_bucket).order_by(JOURNAL.c.sequence)
        ).all()
        start = merge_from([size for _, size in known])
        if start == len(known):
            continue
        merged = (*of_bucket, JOURNAL.c.sequence >= known[start].sequence)
        rows = connection.execute(sa.select(JOURNAL.c.rows).where(*merged).order_by(JOURNAL.c.sequence)).scalars()
        whole = b"".join(rows)
        connection.execute(sa.delete(JOURNAL).where(*merged))
        _insert(
            connection,
            partition,
            # Fewer pieces than there were batches: their numbers suffice.
            ((known[start + i].sequence, (bucket, piece)) for i, piece in enumerate(pieces(whole))),
        )
        budget -= len(whole)
        if budget <= 0:
            break


def merge_from(sizes: Sequence[int]) -> int:
    """From which batch on a bucket's batches are merged into one.

    Only what follows the last full batch is merged, and an older batch only together with newer ones that are at
    least as large as it: what holds it doubles each time, so no row is rewritten more often than log2(FULL_BYTES /
    size of what 64 batches hold), and at most 64 + log2(FULL_BYTES) batches stay behind the last full one.

    Parameters
    ----------
    sizes
        Bytes of the bucket's batches, oldest first.

    Returns
    -------
    int
        Place of the first batch that is merged; ``len(sizes)`` if there is nothing to do.
    """
    start = len(sizes)
    while start and sizes[start - 1] < FULL_BYTES:
        start -= 1
    if len(sizes) - start <= MOST_BATCHES:
        return len(sizes)
    newer = sum(sizes[start:])
    while True:
        newer -= sizes[start]
        if sizes[start] <= newer:
            return start
        start += 1


def _crowded(connection: sa.Connection, partition: int, buckets: Sequence[Bucket]) -> list[Bucket]:
    """Those of the buckets that hold more small batches than they should, the fullest first."""
    found: list[tuple[int, Bucket]] = []
    for at in range(0, len(buckets), _BUCKETS_A_STATEMENT):
        small = sa.func.count()
        rows = connection.execute(
            sa.select(JOURNAL.c.model, JOURNAL.c.bucket_ms, small)
            .where(
                JOURNAL.c.partition == partition,
                sa.tuple_(JOURNAL.c.model, JOURNAL.c.bucket_ms).in_(buckets[at : at + _BUCKETS_A_STATEMENT]),
                JOURNAL.c.size < FULL_BYTES,
            )
            .group_by(JOURNAL.c.model, JOURNAL.c.bucket_ms)
            .having(small > MOST_BATCHES)
        )
        found += [(count, Bucket(model, start_ms)) for model, start_ms, count in rows]
    return [bucket for _, bucket in sorted(found, reverse=True)]


def _insert(connection: sa.Connection, partition: int, batches: Iterable[tuple[int, tuple[Bucket, bytes]]]) -> None:
    values = [
        {
            "partition": partition,
            "sequence": sequence,
            "model": bucket.model,
            "bucket_ms": bucket.start_ms,
            "size": len(rows),
            "rows": rows,
        }
        for sequence, (bucket, rows) in batches
    ]
    if values:
        connection.execute(sa.insert(JOURNAL), values)
