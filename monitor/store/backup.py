"""Makes a backup of a store, beside a running service.

A SQLite file is copied by SQLite's own online backup, a PostgreSQL database is read in one REPEATABLE READ transaction
into a SQLite file of the same tables: both see one state between two checkpoints, and keep nobody waiting.
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import DamagedStore, IncompatibleStore, InputError
from monitor.events.times import format_time
from monitor.store.address import connect, connect_existing
from monitor.store.backup_file import FORMAT, Manifest, Offset, sha256_of, write_backup
from monitor.store.backup_rows import copy_rows, count_rows, go_on_numbering, last_numbers, our_tables
from monitor.store.database import Database
from monitor.store.migrate import check_known, grid_version_of, migrating, revision_of, upgrade
from monitor.store.schema import OFFSETS
from monitor.version import VERSION

_PATIENCE_SECONDS: Final = 10.0


def back_up(url: str, target: Path, clock: Clock) -> Manifest:
    """Write a backup of the store at a URL to a file that is not there yet.

    The folder needs room for the store twice over for a while. A store of an earlier version of the service is backed
    up as it is, so that it can be done before an upgrade.

    Raises
    ------
    InputError
        The file is there, or cannot be written.
    NoStore, IncompatibleStore, StoreError
        There is no store, it is of a later version of the service, or it is damaged.
    StoreUnavailable
        The database does not answer.
    """
    if target.exists():
        raise InputError(f"the backup must be a new file, but {target} is there: name another, or remove it")
    if not target.parent.is_dir():
        raise InputError(f"the backup's folder {target.parent} must be there; make it first")
    source = connect_existing(url, _PATIENCE_SECONDS, clock)
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
            raise TypeError(f"the driver of SQLite is not Python's own: {connection.driver_connection}")
        with closing(sqlite3.connect(path)) as copy:
            connection.driver_connection.backup(copy)
    except sqlite3.DatabaseError as error:
        raise DamagedStore(f"{source.shown} cannot be copied: {error}") from error
    finally:
        connection.close()
    # One file, without a log beside it.
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE").close()


def _copy_postgresql(source: Database, path: Path, clock: Clock) -> None:
    reading = source.snapshot()
    try:
        with source.translated():
            revision = _known_revision(source, reading)
            tables = our_tables(reading)
            copy = connect(f"sqlite:///{path}", _PATIENCE_SECONDS, clock)
            try:
                with migrating(copy) as writing:
                    upgrade(writing, revision)
                    copy_rows(source, reading, writing, tables)
                    go_on_numbering(writing, tables, last_numbers(reading, tables))
            finally:
                copy.close()
    finally:
        reading.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE").close()


def _known_revision(source: Database, connection: sa.Connection) -> str:
    revision = revision_of(connection)
    if revision is None:
        raise IncompatibleStore(f"{source.shown} holds no store of this service: there is nothing to back up")
    check_known(source.shown, revision)
    return revision


def _check(shown: str, path: Path) -> None:
    """Let SQLite look at every page and index. A store that is damaged makes no backup that can be relied on."""
    with closing(sqlite3.connect(path)) as file:
        found = [line for (line,) in file.execute("PRAGMA integrity_check(5)")]
    if found != ["ok"]:
        raise DamagedStore(
            f"the store {shown} is damaged, so no backup was made of it: {'; '.join(found)}; restore an earlier one"
        )


def _describe(source: Database, path: Path, clock: Clock) -> Manifest:
    """What the copy holds: it alone, and not the store, which has gone on."""
    copy = connect_existing(f"sqlite:///{path}", _PATIENCE_SECONDS, clock)
    try:
        with copy.reading() as connection:
            revision = _known_revision(source, connection)
            tables = our_tables(connection)
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
