"""Creates the tables or brings them forward, and refuses a store that is not for this version of the service."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from monitor.errors import IncompatibleStore
from monitor.scores.grid import GRID_VERSION
from monitor.store import schema
from monitor.store.database import Database

_FOLDER: Final = Path(__file__).parent / "migrations"
_GRID_VERSION: Final = "grid_version"

_ADVISORY_LOCK: Final = 0x63616C_6D6F6E
"""Number of the PostgreSQL lock that admits one migrating process at a time."""

# Alembic keeps the migration that runs in module-level names.
_one_at_a_time = threading.Lock()


def migrate(database: Database) -> None:
    """Bring the tables to the newest revision. Any number of processes may do so at once.

    Raises
    ------
    IncompatibleStore
        The store is of a revision or a grid that this version does not know.
    StoreUnavailable
        The database does not answer.
    """
    with migrating(database) as connection:
        found = revision_of(connection)
        if found is None:
            check_free(database, connection)
        else:
            check_known(database.shown, found)
        if found != newest_revision():
            upgrade(connection)
        _check_grid(database, connection)


@contextmanager
def migrating(database: Database) -> Iterator[sa.Connection]:
    """One transaction that may change the tables; no other process changes them meanwhile."""
    with _one_at_a_time, database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        yield connection


def upgrade(connection: sa.Connection, revision: str = "head") -> None:
    """Bring the tables to a revision, from an earlier one or from none, within a block of :func:`migrating`."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def revision_of(connection: sa.Connection) -> str | None:
    """The schema revision that a store is of; None where it is none."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str:
    """The schema revision of this version of the service."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise RuntimeError(f"there are no migrations in {_FOLDER}")
    return head


def check_known(shown: str, revision: str) -> None:
    """Refuse a revision of a newer version of the service.

    Raises
    ------
    IncompatibleStore
        This version does not know it.
    """
    scripts = ScriptDirectory.from_config(_config())
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise IncompatibleStore(
            f"{shown} has schema revision {revision}, this version knows up to {scripts.get_current_head()}:"
            " run the newer version of the service, or name another store"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


def check_free(database: Database, connection: sa.Connection) -> None:
    """Refuse a database in which a table of ours is, and no schema revision. Raises IncompatibleStore."""
    taken = sorted(set(sa.inspect(connection).get_table_names()) & set(schema.METADATA.tables))
    if taken:
        raise IncompatibleStore(
            f"{database.shown} holds a table {taken[0]} that is not this service's: give it a database of its own"
        )


def _check_grid(database: Database, connection: sa.Connection) -> None:
    connection.execute(
        database.insert(schema.META)
        .values(key=_GRID_VERSION, value=str(GRID_VERSION))
        .on_conflict_do_nothing(index_elements=["key"])
    )
    check_grid(database.shown, grid_version_of(connection))


def grid_version_of(connection: sa.Connection) -> str:
    """The version of the grid that a store's score tables are of; empty where that is not said."""
    found = connection.execute(sa.select(schema.META.c.value).where(schema.META.c.key == _GRID_VERSION))
    return found.scalar_one_or_none() or ""


def check_grid(shown: str, found: str) -> None:
    """Refuse score tables of another grid. Raises IncompatibleStore."""
    if found != str(GRID_VERSION):
        raise IncompatibleStore(
            f"{shown} holds score tables of grid version {found}, this version needs {GRID_VERSION}:"
            " run the version of the service that wrote them, or begin a new store and read the log again"
        )
