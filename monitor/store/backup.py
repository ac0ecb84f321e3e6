"""Back up a store while the service runs, and copy tables between databases.

A SQLite file is copied by SQLite's online backup. A PostgreSQL database is read in one REPEATABLE READ transaction into
a SQLite file with the same tables. Both see one state between two checkpoints and block nobody.
"""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import DamagedStore, IncompatibleStore, InputError
from monitor.events.times import format_time
from monitor.store.address import connect, connect_existing
from monitor.store.backup_file import FORMAT, Manifest, Offset, sha256_of, write_backup
from monitor.store.database import Database
from monitor.store.migrate import check_known, grid_version_of, migrating, revision_of, upgrade
from monitor.store.schema import METADATA, OFFSETS
from monitor.version import VERSION

REVISION_TABLE: Final = "alembic_version"
"""Alembic's table of the schema revision."""

NEVER_EMPTY: Final = frozenset({REVISION_TABLE, "meta"})
"""Tables that have rows in an empty store, too."""

PATIENCE_SECONDS: Final = 10.0

_ROWS_A_FETCH: Final = 8
"""For tables with bytes: one row of the journal may have 4 MiB."""
_SMALL_ROWS_A_FETCH: Final = 2000
_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 2000


def back_up(url: str, target: Path, clock: Clock) -> Manifest:
    """Write a backup of the store at a URL to a new file.

    The folder temporarily needs space for the store twice. A store of an earlier version of the service is backed up as
    it is, so that a backup can be made before an upgrade.

    Raises
    ------
    InputError
        The file exists, or cannot be written.
    NoStore, IncompatibleStore, StoreError
        There is no store, it belongs to a later version of the service, or it is damaged.
    StoreUnavailable
        The database does not answer.
    """
    if target.exists():
        raise InputError(f"the backup must be a new file, but {target} exists: name another, or remove it")
    if not target.parent.is_dir():
        raise InputError(f"the backup's folder {target.parent} does not exist; create it first")
    source = connect_existing(url, PATIENCE_SECONDS, clock)
    try:
        with tempfile.TemporaryDirectory(prefix=".monitor-backup-", dir=target.parent) as folder:
            store = Path(folder) / "store.db"
            if source.is_sqlite:
                _copy_sqlite(source, store)
            else:
                _copy_postgresql(source, store, clock)
            _check(source.shown, store)
            manifest = _describe(source, store, clock)
            write_backup(target, store, manifest)
    except OSError as error:
        raise InputError(f"the backup {target} cannot be written: {error.strerror or error}") from error
    finally:
        source.close()
    return manifest


def _copy_sqlite(source: Database, path: Path) -> None:
    with source.translated():
        connection = source.engine.raw_connection()
    try:
        if not isinstance(connection.driver_connection, sqlite3.Connection):
            raise TypeError(f"the driver of SQLite is not Python's sqlite3: {connection.driver_connection}")
        with closing(sqlite3.connect(path)) as copy:
            connection.driver_connection.backup(copy)
    except sqlite3.DatabaseError as error:
        raise DamagedStore(f"{source.shown} cannot be copied: {error}") from error
    finally:
        connection.close()
    _leave_wal(path)


def _copy_postgresql(source: Database, path: Path, clock: Clock) -> None:
    reading = source.snapshot()
    try:
        with source.translated():
            revision = _known_revision(source, reading)
            tables = store_tables(reading)
            copy = connect(f"sqlite:///{path}", PATIENCE_SECONDS, clock)
            try:
                with migrating(copy) as writing:
                    upgrade(writing, revision)
                    copy_rows(source, reading, writing, tables)
                    continue_numbering(writing, tables, last_numbers(reading, tables))
            finally:
                copy.close()
    finally:
        reading.close()
    _leave_wal(path)


def _leave_wal(path: Path) -> None:
    """Make it one file, without a write-ahead log."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE").close()


def _known_revision(source: Database, connection: sa.Connection) -> str:
    revision = revision_of(connection)
    if revision is None:
        raise IncompatibleStore(f"{source.shown} holds no store of this service: there is nothing to back up")
    check_known(source.shown, revision)
    return revision


def _check(shown: str, path: Path) -> None:
    """Let SQLite check every page and index. No backup is made of a damaged store."""
    with closing(sqlite3.connect(path)) as file:
        problems = [line for (line,) in file.execute("PRAGMA integrity_check(5)")]
    if problems != ["ok"]:
        raise DamagedStore(
            f"the store {shown} is damaged, so no backup was made of it: {'; '.join(problems)}; restore an earlier one"
        )


def _describe(source: Database, path: Path, clock: Clock) -> Manifest:
    """Describe the copy, not the store, which may have changed since."""
    copy = connect_existing(f"sqlite:///{path}", PATIENCE_SECONDS, clock)
    try:
        with copy.reading() as connection:
            revision = _known_revision(source, connection)
            tables = store_tables(connection)
            return Manifest(
                format=FORMAT,
                created=format_time(clock.now_ms()),
                service_version=VERSION,
                database="sqlite" if source.is_sqlite else "postgresql",
                schema_revision=revision,
                grid_version=grid_version_of(connection),
                tables=count_rows(connection, tables),
                offsets=[
                    Offset(row.topic, row.partition, row.next_offset)
                    for row in connection.execute(sa.select(OFFSETS).order_by(OFFSETS.c.topic, OFFSETS.c.partition))
                ],
                size=path.stat().st_size,
                sha256=sha256_of(path),
            )
    finally:
        copy.close()


def store_tables(connection: sa.Connection) -> list[sa.Table]:
    """The tables of a store, whatever its revision, with referenced tables first."""
    names = set(sa.inspect(connection).get_table_names()) & set(METADATA.tables)
    metadata = sa.MetaData()
    metadata.reflect(connection, only=sorted(names))
    return metadata.sorted_tables


def count_rows(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, int]:
    """Table -> number of rows."""
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables
    }


def copy_rows(
    source: Database, reading: sa.Connection, writing: sa.Connection, tables: Iterable[sa.Table]
) -> dict[str, int]:
    """Copy all rows of these tables into the empty ones of the same names; returns table -> rows copied.

    The values are copied as they are stored, without the conversions of the schema's types.
    """
    targets = {table.name: table for table in store_tables(writing)}
    copied: dict[str, int] = {}
    for table in tables:
        insert = sa.insert(targets[table.name])
        copied[table.name] = 0
        for batch in _batches(source, reading, table):
            writing.execute(insert, batch)
            copied[table.name] += len(batch)
    return copied


def last_numbers(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, int]:
    """Table that numbers its rows -> its greatest number ever, as numbers are not reused."""
    if connection.dialect.name == "sqlite":
        if not connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").first():
            return {}
        rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence")
        return {name: int(number) for name, number in rows}
    numbers = {}
    for table, sequence in _sequences(connection, tables).items():
        last, was_given = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {sequence}").one()  # noqa: S608 - a name from PostgreSQL
        if was_given:
            numbers[table] = int(last)
    return numbers


def continue_numbering(connection: sa.Connection, tables: Iterable[sa.Table], last: Mapping[str, int]) -> None:
    """Make each table number its next row with a greater number than these."""
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
    """Table -> name of the PostgreSQL sequence that numbers its rows, quoted."""
    sequences = {}
    for table in tables:
        for column in table.primary_key.columns:
            name = connection.execute(
                sa.text("SELECT pg_get_serial_sequence(:table, :column)"),
                {"table": f'"{table.name}"', "column": column.name},
            ).scalar_one()
            if name is not None:
                sequences[table.name] = str(name)
    return sequences


def _batches(source: Database, reading: sa.Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in batches of limited number and size."""
    has_bytes = any(isinstance(column.type, sa.LargeBinary) for column in table.columns)
    at_once = _ROWS_A_FETCH if has_bytes else _SMALL_ROWS_A_FETCH
    batch: list[dict[str, Any]] = []
    size = 0
    # Ordered, so that two backups of one state are equal.
    with source.stream(reading, sa.select(table).order_by(*table.primary_key.columns), at_once) as rows:
        for row in rows:
            batch.append(dict(row._mapping))  # noqa: SLF001 - SQLAlchemy's public API
            size += sum(len(value) for value in row if isinstance(value, bytes | str))
            if len(batch) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
