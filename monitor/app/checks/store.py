"""Check that the store answers, has this version, can be written, and continues at offsets that the log still has."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from monitor.app.checks.base import Finding, Surroundings, fail, ok, size_text, warn
from monitor.app.checks.clocks import compare_clocks
from monitor.app.log_bounds import continuation, log_bounds
from monitor.errors import NoStore, SettingsError, SourceError
from monitor.store.address import connect_existing, sqlite_path
from monitor.store.database import Database
from monitor.store.migrate import (
    check_grid,
    check_no_foreign_tables,
    check_revision,
    grid_version_of,
    newest_revision,
    revision_of,
)
from monitor.store.schema import OFFSETS, PARTITIONS

_PATIENCE_SECONDS: Final = 5.0


def check_store(around: Surroundings) -> Iterator[Finding]:
    """Check the store, without creating or migrating anything."""
    url = around.settings.store.url
    path = sqlite_path(url)
    if path is not None:
        finding = _file(path)
        if finding is not None:
            yield finding
            return
    try:
        database = connect_existing(url, _PATIENCE_SECONDS, around.clock)
    except NoStore as error:
        yield ok("store", str(error))
        return
    with closing(database):
        yield from _look(around, database, path)


def _file(path: Path) -> Finding | None:
    """What is wrong with the place of a SQLite file; None: it can be opened, or made."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir():
        return fail("store", f"{path} is a folder: name a file in it")
    for needed in (folder, path):
        if needed.exists() and not os.access(needed, os.W_OK):
            return fail("store", f"{path} cannot be written: no permission to write {needed}")
    return None


def _look(around: Surroundings, database: Database, path: Path | None) -> Iterator[Finding]:
    with database.reading() as connection:
        began_ms = around.clock.now_ms()
        server = _server(database, connection)
        ended_ms = around.clock.now_ms()
        revision = revision_of(connection)
        if revision is None:
            check_no_foreign_tables(database, connection)
            yield ok("store", f"{database.shown} ({server['name']}) is empty; the first start makes the tables")
        else:
            check_revision(database.shown, revision)
            check_grid(database.shown, grid_version_of(connection))
            newest = newest_revision()
            schema = f"schema {revision}" + ("" if revision == newest else f", which the next start brings to {newest}")
            partitions = connection.execute(sa.select(sa.func.count()).select_from(PARTITIONS)).scalar_one()
            size = _size(path) if path is not None else server["size"]
            yield ok(
                "store",
                f"{database.shown} ({server['name']}): {schema}, {partitions} partitions, {size_text(size)}"
                + ("; back it up first: `monitor backup`" if revision != newest else ""),
            )
            yield from _offsets(around, connection)
        if server["read_only"]:
            yield fail("store", f"{database.shown} takes no changes: {server['read_only']}")
        if server["now_ms"] is not None:
            yield compare_clocks(around, "the database's", server["now_ms"], began_ms, ended_ms)


def _server(database: Database, connection: sa.Connection) -> dict[str, Any]:
    if database.is_sqlite:
        version = connection.exec_driver_sql("SELECT sqlite_version()").scalar_one()
        return {"name": f"SQLite {version}", "read_only": "", "now_ms": None}
    row = connection.exec_driver_sql(
        "SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS standby,"
        " current_setting('default_transaction_read_only') AS read_only,"
        " has_schema_privilege(current_schema(), 'CREATE') AS may_create,"
        " pg_database_size(current_database()) AS size,"
        " (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms"
    ).one()
    reason = ""
    if row.standby:
        reason = "it is a standby that only reads; name the primary"
    elif row.read_only == "on":
        reason = "default_transaction_read_only is on for this user"
    elif not row.may_create:
        reason = "this user may not create tables: GRANT CREATE ON SCHEMA to it, or make it the schema's owner"
    return {
        "name": f"PostgreSQL {row.version.split(' ')[0]}",
        "read_only": reason,
        "size": row.size,
        "now_ms": row.now_ms,
    }


def _size(path: Path) -> int:
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _offsets(around: Surroundings, connection: sa.Connection) -> Iterator[Finding]:
    """Whether the log still holds what the store has not read."""
    rows = connection.execute(sa.select(OFFSETS.c.topic, OFFSETS.c.partition, OFFSETS.c.next_offset)).all()
    if not rows:
        return
    try:
        bounds = log_bounds(around.settings, around.clock)
    except (SourceError, SettingsError):
        return  # Said where the log is checked.
    progress = continuation([(row.topic, row.partition, row.next_offset) for row in rows], bounds)
    if not progress.missing and not progress.ahead:
        yield ok("offsets", f"the log holds all that the store has not read: {progress.to_read:,} records")
    stops = around.settings.source.when_purged == "stop"
    say = fail if stops else warn
    what = "the service stops there; source.when_purged: earliest goes on" if stops else "the service goes on"
    for part, count in progress.missing.items():
        yield say(
            "offsets", f"{part.topic}/{part.partition}: {count:,} records were purged unread; {what} without them"
        )
    for part, count in progress.ahead.items():
        yield say(
            "offsets",
            f"{part.topic}/{part.partition}: the log ends {count:,} records before the store's offset, so it is another"
            f" log or an older copy; {what} from its beginning",
        )
