"""The audit trail in the database. Entries are appended; triggers of the database refuse to change them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import sqlalchemy as sa

from monitor.store.database import Database
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import AUDIT

_LOCK: Final = 0x63616C_726566
"""PostgreSQL advisory lock that serializes audited changes, as SQLite does by itself."""

_detail_from_json: Final = msgspec.json.Decoder(dict)


@contextmanager
def changing(database: Database) -> Iterator[sa.Connection]:
    """One transaction that writes; it sees the changes of earlier ones, and its entries are numbered after theirs."""
    with database.writing() as connection:
        wait_for_turn(database, connection)
        yield connection


def wait_for_turn(database: Database, connection: sa.Connection) -> None:
    """Make the transaction see the changes of earlier ones, and others wait for it."""
    if not database.is_sqlite:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def append(connection: sa.Connection, entries: Sequence[AuditEntry]) -> None:
    """Append entries. They get the next numbers; their own are ignored."""
    if entries:
        connection.execute(
            sa.insert(AUDIT),
            [
                {
                    **{name: value for name, value in entry._asdict().items() if name != "number"},
                    "detail": msgspec.json.encode(entry.detail).decode(),
                }
                for entry in entries
            ],
        )


def page(connection: sa.Connection, after: int, limit: int, model: str | None) -> list[AuditEntry]:
    """Entries with a number greater than ``after``, ascending."""
    # The columns are named like the fields.
    columns = [AUDIT.c[name] for name in AuditEntry._fields]
    statement = sa.select(*columns).where(AUDIT.c.number > after).order_by(AUDIT.c.number).limit(limit)
    if model is not None:
        statement = statement.where(AUDIT.c.model == model)
    return [
        AuditEntry._make((*row[:-1], _detail_from_json.decode(row.detail))) for row in connection.execute(statement)
    ]
