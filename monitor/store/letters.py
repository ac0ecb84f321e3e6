"""The dead letters in the database: at most so many, the oldest go first."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import sqlalchemy as sa

from monitor.events.model import DeadLetter, Reason
from monitor.store.base import StoredDeadLetter
from monitor.store.database import Database
from monitor.store.schema import DEAD_LETTERS as LETTERS

_headers_from_bytes: Final = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])


def add(database: Database, connection: sa.Connection, letters: Sequence[DeadLetter], stored_ms: int) -> None:
    """Store the letters that are not stored yet."""
    if letters:
        connection.execute(
            database.insert(LETTERS).on_conflict_do_nothing(index_elements=["topic", "partition", "offset"]),
            [
                {
                    **letter._asdict(),
                    "stored_ms": stored_ms,
                    "reason": letter.reason.value,
                    "headers": msgspec.msgpack.encode(letter.headers),
                }
                for letter in letters
            ],
        )


def prune(connection: sa.Connection, limit: int) -> int:
    """Remove the oldest letters beyond the limit; how many."""
    last_to_go = sa.select(LETTERS.c.number).order_by(LETTERS.c.number.desc()).limit(1).offset(limit)
    return connection.execute(sa.delete(LETTERS).where(LETTERS.c.number <= last_to_go.scalar_subquery())).rowcount


def page(connection: sa.Connection, after: int, limit: int, reason: str | None) -> list[StoredDeadLetter]:
    """Letters with a number greater than ``after``, ascending."""
    statement = sa.select(LETTERS).where(LETTERS.c.number > after).order_by(LETTERS.c.number).limit(limit)
    if reason is not None:
        statement = statement.where(LETTERS.c.reason == reason)
    return [
        StoredDeadLetter(
            number=row.number,
            stored_ms=row.stored_ms,
            letter=DeadLetter(
                topic=row.topic,
                partition=row.partition,
                offset=row.offset,
                timestamp_ms=row.timestamp_ms,
                reason=Reason(row.reason),
                detail=row.detail,
                key=row.key,
                value=row.value,
                headers=_headers_from_bytes.decode(row.headers),
            ),
        )
        for row in connection.execute(statement)
    ]


def count(connection: sa.Connection) -> Mapping[str, int]:
    """Number of letters by reason."""
    rows = connection.execute(sa.select(LETTERS.c.reason, sa.func.count()).group_by(LETTERS.c.reason))
    return {reason: letters for reason, letters in rows}  # noqa: C416 - a row is no tuple of two to the type checker


def remove(connection: sa.Connection, numbers: Sequence[int]) -> None:
    """Remove these letters."""
    if numbers:
        connection.execute(
            sa.delete(LETTERS).where(LETTERS.c.number == sa.bindparam("removed")),
            [{"removed": number} for number in numbers],
        )
