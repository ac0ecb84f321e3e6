"""Back up a store while the service runs, and copy tables between databases.

A backup is a zip archive of a manifest, and of the whole store as one SQLite file. It does not depend on the kind of
database, so a backup of one is restored into the other. ``unzip -p FILE manifest.json`` shows the manifest, ``unzip
FILE store.db`` extracts the SQLite file.

A SQLite file is copied by SQLite's online backup. A PostgreSQL database is read in one REPEATABLE READ transaction into
a SQLite file with the same tables. Both see one state between two checkpoints and block nobody.
"""

import hashlib
import os
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import DamagedStore, IncompatibleStore, InputError
from monitor.events.times import format_time
from monitor.store.address import connect, connect_existing
from monitor.store.database import Database
from monitor.store.migrate import check_newest, check_revision, create, grid_version_of, migrating, revision_of
from monitor.store.schema import METADATA, OFFSETS
from monitor.version import VERSION

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
STORE: Final = "store.db"

_LEVEL: Final = 1
"""Most of a store is hashes, which do not compress."""
_PIECE_BYTES: Final = 1 << 20
_MAX_MANIFEST_BYTES: Final = 16 << 20
_DAMAGED: Final = (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
"""Errors from reading a damaged archive; zipfile raises the last for a compression that it does not know."""

REVISION_TABLE: Final = "alembic_version"
"""Alembic's table of the schema revision."""

NEVER_EMPTY: Final = frozenset({REVISION_TABLE, "meta", "replicas"})
"""Tables that have rows in an empty store, too: in one on which a service ran and read nothing."""

PATIENCE_SECONDS: Final = 10.0

_ROWS_A_FETCH: Final = 8
"""For tables with bytes: one row of the journal may have 4 MiB."""
_SMALL_ROWS_A_FETCH: Final = 2000
_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 2000


class Offset(msgspec.Struct, frozen=True):
    """Next offset of one topic partition: the store contains every record before it and none after."""

    topic: str
    partition: int
    offset: int


class Manifest(msgspec.Struct, frozen=True):
    """Description of a backup.

    Attributes
    ----------
    format
        Version of this layout.
    created
        Time, RFC 3339.
    service_version
        Version of the service that made it.
    database
        ``sqlite`` or ``postgresql``: database of the store.
    schema_revision, grid_version
        Of the store.
    tables
        Table -> number of rows.
    offsets
        Next offsets.
    size, sha256
        Of the SQLite file.
    """

    format: int
    created: str
    service_version: str
    database: str
    schema_revision: str
    grid_version: str
    tables: dict[str, int]
    offsets: list[Offset]
    size: int
    sha256: str


class _Format(msgspec.Struct):
    """The part that every version of the manifest has."""

    format: int


def write_backup(target: Path, store: Path, manifest: Manifest) -> None:
    """Write a backup, all of it or nothing. Raises InputError if it cannot be written."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        # Readable by its owner only: it holds digests of keys and predictions about people.
        handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
                    archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
                    with store.open("rb") as data, archive.open(STORE, "w", force_zip64=True) as member:
                        shutil.copyfileobj(data, member, _PIECE_BYTES)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"the backup {target} cannot be written: {error.strerror or error}") from error


@contextmanager
def _archive(source: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(source)
    except zipfile.BadZipFile as error:
        raise InputError(f"{source} is not a backup of this service, or only a part of one: {error}") from error
    except OSError as error:
        raise InputError(f"the backup {source} cannot be read: {error.strerror or error}") from error
    with archive:
        yield archive


def read_manifest(source: Path) -> Manifest:
    """Read the manifest of a backup; raises InputError if it is missing, damaged, or of another format."""
    with _archive(source) as archive:
        try:
            with archive.open(MANIFEST) as member:
                text = member.read(_MAX_MANIFEST_BYTES)
            version = msgspec.json.decode(text, type=_Format).format
            if version != FORMAT:
                raise InputError(
                    f"the backup {source} is of format {version}, this version reads {FORMAT}: restore it with the"
                    " version of the service that made it"
                )
            return msgspec.json.decode(text, type=Manifest)
        except (*_DAMAGED, msgspec.MsgspecError) as error:
            raise InputError(
                f"{source} is not a backup of this service: it has no valid {MANIFEST} ({error})"
            ) from error


def extract_store(source: Path, manifest: Manifest, path: Path) -> None:
    """Extract the SQLite file of a backup to a new file; raises InputError if it does not match the manifest."""
    try:
        with _archive(source) as archive, path.open("xb") as file:
            size, sha256 = _extract(archive, file, manifest.size)
    except _DAMAGED as error:
        raise InputError(f"the backup {source} is damaged: {error}; use another backup") from error
    except OSError as error:
        raise InputError(
            f"the store cannot be extracted from the backup {source} into {path.parent}, where it needs"
            f" {manifest.size:,} bytes: {error.strerror or error}"
        ) from error
    if (size, sha256) != (manifest.size, manifest.sha256):
        raise InputError(
            f"the backup {source} is damaged: its store has {size:,} bytes and SHA-256 {sha256}, the"
            f" manifest says {manifest.size:,} and {manifest.sha256}; use another backup"
        )


def _extract(archive: zipfile.ZipFile, file: IO[bytes], max_bytes: int) -> tuple[int, str]:
    """Copy the store; returns its size and SHA-256. Stops when it is too large."""
    digest, size = hashlib.sha256(), 0
    with archive.open(STORE) as member:
        while size <= max_bytes and (piece := member.read(_PIECE_BYTES)):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return size, digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def back_up(url: str, target: Path, clock: Clock) -> Manifest:
    """Write a backup of the store at a URL to a new file.

    The folder temporarily needs space for the store twice. A SQLite store of an earlier version of the service is
    backed up as it is, so that a backup can be made before an upgrade.

    Raises
    ------
    InputError
        The file exists, or cannot be written.
    NoStore, IncompatibleStore, StoreError
        There is no store, it belongs to a later version of the service (in PostgreSQL, to another one), or it is
        damaged.
    StoreUnavailable
        The database does not answer.
    """
    if target.exists():
        raise InputError(f"the backup must be a new file, but {target} exists: name another, or remove it")
    if not target.parent.is_dir():
        raise InputError(f"the backup's folder {target.parent} does not exist; create it first")
    try:
        with (
            closing(connect_existing(url, PATIENCE_SECONDS, clock)) as source,
            tempfile.TemporaryDirectory(prefix=".monitor-backup-", dir=target.parent) as folder,
        ):
            store = Path(folder) / "store.db"
            try:
                if source.is_sqlite:
                    _copy_sqlite(source, store)
                else:
                    _copy_postgresql(source, store, clock)
                _make_one_sound_file(store)
            except sqlite3.DatabaseError as error:
                raise DamagedStore(
                    source.damage(f"no backup was made of it: {' '.join(str(error).split())}")
                ) from error
            manifest = _describe(source, store, clock)
            write_backup(target, store, manifest)
    except OSError as error:
        raise InputError(f"the backup {target} cannot be written: {error.strerror or error}") from error
    return manifest


def _copy_sqlite(source: Database, path: Path) -> None:
    with (
        source.translated(),
        closing(source.engine.raw_connection()) as connection,
        closing(sqlite3.connect(path)) as copy,
    ):
        cast("sqlite3.Connection", connection.driver_connection).backup(copy)


def _copy_postgresql(source: Database, path: Path, clock: Clock) -> None:
    with source.translated(), closing(source.snapshot()) as reading:
        check_newest(source.shown, _known_revision(source, reading))
        with closing(connect(f"sqlite:///{path}", PATIENCE_SECONDS, clock)) as copy, migrating(copy) as writing:
            create(writing)
            copy_store(source, reading, writing)


def _known_revision(source: Database, connection: sa.Connection) -> str:
    revision = revision_of(connection)
    if revision is None:
        raise IncompatibleStore(f"{source.shown} holds no store of this service: there is nothing to back up")
    check_revision(source.shown, revision)
    return revision


def _make_one_sound_file(path: Path) -> None:
    """Remove the write-ahead log, and let SQLite check every page and index. No backup is made of a damaged store."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE").close()
        problems = [line for (line,) in file.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise sqlite3.DatabaseError("; ".join(problems))


def _describe(source: Database, path: Path, clock: Clock) -> Manifest:
    """Describe the copy, not the store, which may have changed since."""
    with (
        closing(connect_existing(f"sqlite:///{path}", PATIENCE_SECONDS, clock)) as copy,
        copy.reading() as connection,
    ):
        offsets = sa.select(OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset)
        return Manifest(
            format=FORMAT,
            created=format_time(clock.now_ms()),
            service_version=VERSION,
            database="sqlite" if source.is_sqlite else "postgresql",
            schema_revision=_known_revision(source, connection),
            grid_version=grid_version_of(connection),
            tables=count_rows(connection),
            offsets=[
                Offset(*row) for row in connection.execute(offsets.order_by(OFFSETS.c.topic, OFFSETS.c.partition))
            ],
            size=path.stat().st_size,
            sha256=sha256_of(path),
        )


def store_tables(connection: sa.Connection) -> list[sa.Table]:
    """The tables of a store, whatever its revision, with referenced tables first."""
    names = set(sa.inspect(connection).get_table_names()) & set(METADATA.tables)
    metadata = sa.MetaData()
    metadata.reflect(connection, only=sorted(names))
    return metadata.sorted_tables


def count_rows(connection: sa.Connection) -> dict[str, int]:
    """Table -> number of rows, of a whole store."""
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for table in store_tables(connection)
    }


def copy_store(source: Database, reading: sa.Connection, writing: sa.Connection) -> None:
    """Copy all rows of a store into the empty tables of another.

    The values are copied as they are stored, without the conversions of the schema's types. Rows that are added later
    are numbered on, also where the newest rows are gone.
    """
    targets = {table.name: table for table in store_tables(writing)}
    tables = store_tables(reading)
    for table in tables:
        insert = sa.insert(targets[table.name])
        for batch in _batches(source, reading, table):
            writing.execute(insert, batch)
    _continue_numbering(writing, tables, _last_numbers(reading, tables))


def _last_numbers(connection: sa.Connection, tables: Iterable[sa.Table]) -> dict[str, int]:
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


def _continue_numbering(connection: sa.Connection, tables: Iterable[sa.Table], last: Mapping[str, int]) -> None:
    """Make each table number its next row with a greater number than these."""
    if connection.dialect.name == "sqlite":
        for name, number in last.items():
            values = {"name": name, "number": number}
            connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), values)
            connection.execute(sa.text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), values)
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
