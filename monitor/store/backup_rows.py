"""Copies a store's tables, row by row, from one database to the other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from monitor.store.database import Database
from monitor.store.schema import METADATA

VERSIONS: Final = "alembic_version"
"""Where the schema revision stands. It is no table of ours."""

OF_THE_STORE: Final = frozenset({VERSIONS, "meta"})
"""Tables that an empty store has rows in, too."""

_ROWS_A_FETCH: Final = 8
"""Of a table with bytes: one row of the journal may have 4 MiB."""
_SMALL_ROWS_A_FETCH: Final = 2000
_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 2000


def our_tables(connection: sa.Connection) -> list[sa.Table]:
    """The tables of a store as they are there, whatever its revision; those that others refer to come first."""
    there = set(sa.inspect(connection).get_table_names()) & set(METADATA.tables)
    found = sa.MetaData()
    found.reflect(connection, only=sorted(there))
    return found.sorted_tables


def count_rows(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, int]:
    """Table -> its rows."""
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables
    }


def copy_rows(
    source: Database, reading: sa.Connection, writing: sa.Connection, tables: Iterable[sa.Table]
) -> dict[str, int]:
    """Copy all rows of these tables of the source into those of the same names, which are empty.

    The values go as they are stored: no type of ours reads or writes them.

    Returns
    -------
    Table -> rows that were copied.
    """
    targets = {table.name: table for table in our_tables(writing)}
    copied: dict[str, int] = {}
    for table in tables:
        insert = sa.insert(targets[table.name])
        copied[table.name] = 0
        for batch in _batches(source, reading, table):
            writing.execute(insert, batch)
            copied[table.name] += len(batch)
    return copied


def last_numbers(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, int]:
    """Table that numbers its rows -> the greatest number that it ever gave: no number is given twice."""
    if connection.dialect.name == "sqlite":
        if not connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").first():
            return {}
        rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence")
        return {name: int(number) for name, number in rows}
    found = {}
    for table, sequence in _sequences(connection, tables).items():
        last, was_given = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {sequence}").one()  # noqa: S608 - PostgreSQL's own name
        if was_given:
            found[table] = int(last)
    return found


def go_on_numbering(connection: sa.Connection, tables: Iterable[sa.Table], last: Mapping[str, int]) -> None:
    """Let each table number its next row by a greater number than these."""
    if connection.dialect.name == "sqlite":
        for name, number in last.items():
            changed = connection.execute(
                sa.text("UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = :name"),
                {"name": name, "number": number},
            )
            if not changed.rowcount:
                connection.execute(
                    sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"),
                    {"name": name, "number": number},
                )
        return
    for table, sequence in _sequences(connection, tables).items():
        if table in last:
            connection.execute(
                sa.text("SELECT setval(CAST(:sequence AS regclass), :number)"),
                {"sequence": sequence, "number": last[table]},
            )


def _sequences(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, str]:
    """Table -> PostgreSQL's sequence that numbers its rows, quoted."""
    found = {}
    for table in tables:
        for column in table.primary_key.columns:
            name = connection.execute(
                sa.text("SELECT pg_get_serial_sequence(:table, :column)"),
                {"table": f'"{table.name}"', "column": column.name},
            ).scalar_one()
            if name is not None:
                found[table.name] = str(name)
    return found


def _batches(source: Database, reading: sa.Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Rows, not too many of them and not too large in memory at a time."""
    has_bytes = any(isinstance(column.type, sa.LargeBinary) for column in table.columns)
    at_once = _ROWS_A_FETCH if has_bytes else _SMALL_ROWS_A_FETCH
    batch: list[dict[str, Any]] = []
    size = 0
    # By its key, so that two backups of one state are alike.
    with source.stream(reading, sa.select(table).order_by(*table.primary_key.columns), at_once) as rows:
        for row in rows:
            batch.append(dict(row._mapping))  # noqa: SLF001 - SQLAlchemy's public way
            size += sum(len(value) for value in row if isinstance(value, bytes | str))
            if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
