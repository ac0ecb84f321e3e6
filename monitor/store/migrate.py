"""Creates the tables or brings them forward, and refuses a store that is not for this version of the service."""

import threading
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
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    with _one_at_a_time, database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        found = MigrationContext.configure(connection).get_current_revision()
        newest = scripts.get_current_head()
        if found is None:
            _check_free(database, connection)
        elif found not in {script.revision for script in scripts.walk_revisions()}:
            raise IncompatibleStore(
                f"{database.shown} has schema revision {found}, this version knows up to {newest}:"
                " run the newer version of the service, or name another store"
            )
        if found != newest:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        _check_grid(database, connection)


def _check_free(database: Database, connection: sa.Connection) -> None:
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
    found = connection.execute(sa.select(schema.META.c.value).where(schema.META.c.key == _GRID_VERSION)).scalar_one()
    if found != str(GRID_VERSION):
        raise IncompatibleStore(
            f"{database.shown} holds score tables of grid version {found}, this version needs {GRID_VERSION}:"
            " run the version of the service that wrote them, or begin a new store and read the log again"
        )
