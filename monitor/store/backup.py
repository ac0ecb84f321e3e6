"""Back up a store in SQLite while the service runs.

A backup is the store as one SQLite file, of one moment between two checkpoints; it is read by any SQLite. PostgreSQL
has tools of its own, ``pg_dump`` and ``pg_restore``.
"""

import hashlib
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final, cast

import msgspec
import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import DamagedStore, IncompatibleStore, InputError
from monitor.store.address import SECRET_KEYS, connect_existing, parse_url, sqlite_path
from monitor.store.migrate import check_grid, check_revision, grid_version_of, revision_of
from monitor.store.schema import METADATA, OFFSETS

PATIENCE_SECONDS: Final = 10.0


class SavedOffset(msgspec.Struct, frozen=True):
    """Next offset of one topic partition: the store contains every record before it and none after."""

    topic: str
    partition: int
    offset: int


class BackupContents(msgspec.Struct, frozen=True):
    """Contents of a backup.

    Attributes
    ----------
    schema_revision, grid_version
        Of the store.
    tables
        Table -> number of rows.
    offsets
        Next offsets.
    size, sha256
        Of the file.
    """

    schema_revision: str
    grid_version: str
    tables: dict[str, int]
    offsets: list[SavedOffset]
    size: int
    sha256: str


def sqlite_store(url: str, command: str) -> Path:
    """Return the file of a store in SQLite; raises InputError for PostgreSQL, with the command to use instead."""
    path = sqlite_path(url)
    if path is None:
        of = parse_url(url)
        query = {key: value for key, value in of.query.items() if key not in SECRET_KEYS}
        address = sa.URL.create("postgresql", of.username, None, of.host, of.port, of.database, query)
        raise InputError(f"a store in PostgreSQL is backed up and restored by its own tools: {command} '{address}'")
    return path


def back_up(url: str, target: Path, clock: Clock) -> BackupContents:
    """Write a backup of the store in SQLite at a URL to a new file, all of it or nothing.

    A store of an earlier version of the service is backed up as it is, so that a backup can be made before an upgrade.

    Raises
    ------
    InputError
        The store is in PostgreSQL, or the file exists or cannot be written.
    NoStore, IncompatibleStore, DamagedStore
        There is no store, it belongs to a later version of the service, or it is damaged.
    StoreUnavailable
        The store is locked.
    """
    sqlite_store(url, f"pg_dump --format=custom --file={target}")
    if target.exists():
        raise InputError(f"the backup must be a new file, but {target} exists: name another, or remove it")
    if not target.parent.is_dir():
        raise InputError(f"the backup's folder {target.parent} does not exist; create it first")
    try:
        with (
            closing(connect_existing(url, PATIENCE_SECONDS, clock)) as store,
            tempfile.TemporaryDirectory(prefix=".monitor-backup-", dir=target.parent) as folder,
        ):
            copy = Path(folder) / "store.db"
            # Readable by its owner only: it holds digests of keys and predictions about people.
            copy.touch(mode=0o600)
            try:
                with (
                    store.translated(),
                    closing(store.engine.raw_connection()) as connection,
                    closing(sqlite3.connect(copy)) as file,
                ):
                    cast("sqlite3.Connection", connection.driver_connection).backup(file)
                    # One file, without a write-ahead log.
                    file.execute("PRAGMA journal_mode = DELETE").close()
                check_pages(copy)
            except sqlite3.DatabaseError as error:
                raise DamagedStore(store.damage(f"no backup was made of it: {' '.join(str(error).split())}")) from error
            contents = read_contents(copy, store.shown, clock)
            with copy.open("rb") as written:
                os.fsync(written.fileno())
            copy.rename(target)
    except OSError as error:
        raise InputError(f"the backup {target} cannot be written: {error.strerror or error}") from error
    return contents


def copy_backup(source: Path, path: Path, clock: Clock) -> BackupContents:
    """Copy a backup to a new file, and check it; raises InputError or IncompatibleStore if it cannot be restored."""
    try:
        path.touch(mode=0o600)
        shutil.copyfile(source, path)
    except OSError as error:
        raise InputError(
            f"the backup {source} cannot be read, or copied to {path.parent}: {error.strerror or error}"
        ) from error
    try:
        check_pages(path)
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"{source} is not a backup of this service, or is damaged: {error}; use another backup"
        ) from error
    return read_contents(path, f"the backup {source}", clock)


def check_pages(path: Path) -> None:
    """Let SQLite check every page and index of a file, and its length; raises DatabaseError."""
    with closing(sqlite3.connect(path)) as file:
        (size,) = file.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
        if size != path.stat().st_size:
            raise sqlite3.DatabaseError(f"it has {path.stat().st_size:,} of {size:,} bytes")
        problems = [line for (line,) in file.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise sqlite3.DatabaseError("; ".join(problems))


def read_contents(path: Path, shown: str, clock: Clock) -> BackupContents:
    """Describe a backup; raises IncompatibleStore for that of a later version, of another grid, or a foreign file."""
    url = f"sqlite:///{path}"
    with closing(connect_existing(url, PATIENCE_SECONDS, clock)) as store, store.reading() as connection:
        revision = revision_of(connection)
        if revision is None:
            raise IncompatibleStore(f"{shown} holds no store of this service")
        check_revision(shown, revision)
        grid_version = grid_version_of(connection)
        check_grid(shown, grid_version)
        columns = (OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset)
        offsets = [SavedOffset(*row) for row in connection.execute(sa.select(*columns).order_by(*columns))]
        tables = count_rows(connection)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupContents(revision, grid_version, tables, offsets, path.stat().st_size, digest)


def count_rows(connection: sa.Connection) -> dict[str, int]:
    """Table -> number of rows, of a whole store, whatever its revision."""
    names = sorted(set(sa.inspect(connection).get_table_names()) & set(METADATA.tables))
    count = sa.select(sa.func.count())
    return {name: connection.execute(count.select_from(sa.table(name))).scalar_one() for name in names}
