"""Create, migrate or check the tables, and refuse a store that this version of the service does not know.

A new store has the tables of :mod:`monitor.store.schema` and the newest revision. An existing one goes through the
migrations after its own revision.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from monitor.errors import IncompatibleStore, NoStore
from monitor.scores.grid import GRID_VERSION
from monitor.store import schema
from monitor.store.database import Database

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_GRID_VERSION: Final = "grid_version"

_UNRELEASED: Final = re.compile(r"00(0[1-9]|1[0-3])")
"""Revisions before the first version: numbers, where later ones are words."""

_ADVISORY_LOCK: Final = 0x63616C_6D6F6E
"""PostgreSQL advisory lock: one process migrates at a time."""

# Alembic keeps the running migration in module-level names.
_one_at_a_time = threading.Lock()


def migrate(database: Database) -> None:
    """Create the tables, or migrate them to the newest revision. Several processes may do so at once.

    Raises
    ------
    IncompatibleStore
        The store has a revision or a grid that this version does not support.
    StoreUnavailable
        The database does not answer.
    """
    with migrating(database) as connection:
        revision = revision_of(connection)
        if revision is None:
            check_no_foreign_tables(database, connection)
            create(connection)
        else:
            check_revision(database.shown, revision)
            if revision != newest_revision():
                _upgrade(connection)
        _check_grid(database, connection)


def check_current(database: Database) -> None:
    """Refuse a database that this version of the service cannot use as it is.

    Raises
    ------
    NoStore
        It has no tables yet.
    IncompatibleStore
        The store has another revision, earlier or later, or another grid.
    """
    with database.reading() as connection:
        revision = revision_of(connection)
        if revision is None:
            raise NoStore(f"{database.shown} holds no store yet: `monitor serve` makes it at its first start")
        check_newest(database.shown, revision)
        check_grid(database.shown, grid_version_of(connection))


@contextmanager
def migrating(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction that may change the tables, exclusive among processes."""
    with _one_at_a_time, database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        yield connection


def create(connection: sa.Connection) -> None:
    """Create the tables in an empty database, within :func:`migrating`."""
    schema.create_tables(connection)
    schema.VERSION.create(connection)
    connection.execute(schema.VERSION.insert().values(version_num=newest_revision()))


def _upgrade(connection: sa.Connection) -> None:
    from monitor.store.migration_scripts import upgrade  # noqa: PLC0415 - alembic is for migrations alone

    upgrade(connection, MIGRATIONS)


def revision_of(connection: sa.Connection) -> str | None:
    """Schema revision of a store; None if the database is not a store."""
    if not sa.inspect(connection).has_table(schema.VERSION.name):
        return None
    return connection.execute(sa.select(schema.VERSION.c.version_num)).scalar_one_or_none()


def newest_revision() -> str:
    """The schema revision of this version of the service."""
    return schema.REVISION


def check_revision(shown: str, revision: str) -> None:
    """Refuse a revision that this version of the service does not know. Raises IncompatibleStore."""
    if revision == newest_revision():
        return
    from monitor.store.migration_scripts import revisions  # noqa: PLC0415 - alembic is for migrations alone

    if revision in revisions(MIGRATIONS):
        return
    if _UNRELEASED.fullmatch(revision):
        raise IncompatibleStore(
            f"{shown} has schema revision {revision}, of a state of development before the first version, which no"
            " version reads: start with an empty store, for which the log is read again from its beginning, and add"
            " what the log no longer has with `monitor backfill`"
        )
    raise IncompatibleStore(
        f"{shown} has schema revision {revision}, this version knows up to {newest_revision()}:"
        " run the newer version of the service, or name another store"
    )


def check_newest(shown: str, revision: str) -> None:
    """Refuse every revision but the newest. Raises IncompatibleStore."""
    check_revision(shown, revision)
    if revision != newest_revision():
        raise IncompatibleStore(
            f"{shown} has schema revision {revision}, this version needs {newest_revision()}: run the command of the"
            " version that the service has, or start this version of the service, which migrates the store"
        )


def check_no_foreign_tables(database: Database, connection: sa.Connection) -> None:
    """Refuse a database with one of our table names but no schema revision. Raises IncompatibleStore."""
    taken = sorted(set(sa.inspect(connection).get_table_names()) & set(schema.METADATA.tables))
    if taken:
        raise IncompatibleStore(
            f"{database.shown} has a table {taken[0]} that is not this service's: give it a database of its own"
        )


def _check_grid(database: Database, connection: sa.Connection) -> None:
    connection.execute(
        database.insert(schema.META)
        .values(key=_GRID_VERSION, value=str(GRID_VERSION))
        .on_conflict_do_nothing(index_elements=["key"])
    )
    check_grid(database.shown, grid_version_of(connection))


def grid_version_of(connection: sa.Connection) -> str:
    """Version of the grid of a store's score tables; empty if it is not stored."""
    version = connection.execute(sa.select(schema.META.c.value).where(schema.META.c.key == _GRID_VERSION))
    return version.scalar_one_or_none() or ""


def check_grid(shown: str, version: str) -> None:
    """Refuse score tables of another grid. Raises IncompatibleStore."""
    if version != str(GRID_VERSION):
        raise IncompatibleStore(
            f"{shown} holds score tables of grid version {version}, this version needs {GRID_VERSION}:"
            " run the version of the service that wrote them, or begin a new store and read the log again"
        )
