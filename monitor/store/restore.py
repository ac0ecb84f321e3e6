"""Puts a backup in the place of a store: all of it, or nothing.

The rows go into the database in one transaction, together with the migration to this version's tables. Every partition
gets an epoch that is greater than any before, so that a service that still runs on what was there saves nothing more.
"""

import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import Conflict, InputError
from monitor.store import audit
from monitor.store.address import connect, connect_existing, sqlite_path
from monitor.store.backup_file import Manifest, opened_backup
from monitor.store.backup_rows import (
    OF_THE_STORE,
    VERSIONS,
    copy_rows,
    count_rows,
    go_on_numbering,
    last_numbers,
    our_tables,
)
from monitor.store.database import Database
from monitor.store.migrate import (
    check_free,
    check_grid,
    check_known,
    grid_version_of,
    migrating,
    newest_revision,
    revision_of,
    upgrade,
)
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import API_KEYS, PARTITIONS

_PATIENCE_SECONDS: Final = 10.0


class Restored(NamedTuple):
    """What was restored."""

    manifest: Manifest
    schema_revision: str
    """After the migration."""
    replaced: dict[str, int]
    """Table -> rows that were there before and are gone; empty where there was nothing."""
    revoked_again: int
    """API keys of the backup that the store which was there had revoked since: they stay so."""


def check_backup(source: Path, clock: Clock) -> Manifest:
    """Read a whole backup and check it, without restoring it. Errors as of :func:`restore`."""
    with tempfile.TemporaryDirectory(prefix="monitor-restore-") as folder:
        return _taken_out(source, Path(folder) / "store.db", clock)


def store_name(url: str) -> str:
    """What a store is called where its replacement has to be confirmed: its file, or its database."""
    path = sqlite_path(url)
    return path.name if path is not None else sa.make_url(url).database or ""


def restore(source: Path, url: str, clock: Clock, *, replace: str | None = None, actor: str) -> Restored:
    """Put a backup in the place of the store at a URL.

    Parameters
    ----------
    source
        The backup. A backup of an earlier version of the service is brought to this version's tables.
    url
        Where the store is to be; what it was kept in before plays no part.
    clock
        Tells when, for the audit trail.
    replace
        The name of the store (:func:`store_name`), where one that holds something is to be replaced.
    actor
        Who restores, for the audit trail.

    Raises
    ------
    InputError
        The backup cannot be read, is damaged, or is none.
    IncompatibleStore
        It is of a later version of the service, or of another grid; or the database holds something else.
    Conflict
        The store holds something, and ``replace`` does not name it.
    StoreUnavailable, StoreError
        The database does not answer, or refuses.
    """
    name = store_name(url)
    if replace is not None and replace != name:
        raise InputError(f"--replace must name the store that is to be replaced, {name!r}, got {replace!r}")
    path = sqlite_path(url)
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Where the store is going to be, there has to be room for it; the usual place may be small.
    with tempfile.TemporaryDirectory(prefix=".monitor-restore-", dir=None if path is None else path.parent) as folder:
        file = Path(folder) / "store.db"
        # Before the database is touched.
        manifest = _taken_out(source, file, clock)
        backup = connect_existing(f"sqlite:///{file}", _PATIENCE_SECONDS, clock)
        with (
            closing(backup),
            closing(connect(url, _PATIENCE_SECONDS, clock)) as target,
            backup.reading() as reading,
            migrating(target) as writing,
        ):
            replaced = _make_room(target, writing, name, may_replace=replace is not None)
            epoch = max(_epochs(writing), default=0) if replaced else 0
            revoked = _revoked_keys(writing)
            _drop_tables(target, writing)
            _fill(backup, reading, writing, manifest)
            _raise_epochs(writing, epoch)
            revoked_again = _revoke_again(writing, revoked)
            audit.append(writing, [_entry(manifest, replaced, revoked_again, clock.now_ms(), actor)])
    return Restored(manifest, newest_revision(), replaced, revoked_again)


def _taken_out(source: Path, file: Path, clock: Clock) -> Manifest:
    """Take the store out of a backup into a file, and check both."""
    with opened_backup(source) as (manifest, contents):
        check_known(f"the backup {source}", manifest.schema_revision)
        check_grid(f"the backup {source}", manifest.grid_version)
        contents.extract(file)
    store = connect_existing(f"sqlite:///{file}", _PATIENCE_SECONDS, clock)
    with closing(store), store.reading() as connection:
        counted = count_rows(connection, our_tables(connection))
        told = (revision_of(connection), grid_version_of(connection), counted)
    if told != (manifest.schema_revision, manifest.grid_version, manifest.tables):
        raise InputError(f"the backup {source} does not hold what its manifest says; take another backup")
    return manifest


def _make_room(target: Database, connection: sa.Connection, name: str, *, may_replace: bool) -> dict[str, int]:
    """Table -> rows of the store that is there, once it is certain that they may go."""
    revision = revision_of(connection)
    if revision is None:
        check_free(target, connection)
        return {}
    check_known(target.shown, revision)
    rows = count_rows(connection, our_tables(connection))
    found = {table: count for table, count in rows.items() if count and table not in OF_THE_STORE}
    if found and not may_replace:
        shown = ", ".join(f"{count:,} in {table}" for table, count in sorted(found.items()))
        raise Conflict(
            f"the store {target.shown} holds something ({shown}), and a restore would replace all of it, the audit"
            f" trail and the API keys too: back it up, and add `--replace {name}`, or name an empty store"
        )
    return found


def _epochs(connection: sa.Connection) -> Iterable[int]:
    return connection.execute(sa.select(PARTITIONS.c.epoch)).scalars().all()


def _revoked_keys(connection: sa.Connection) -> dict[str, int]:
    """Id -> when it was revoked, of the API keys of the store that is there: one that leaked must not hold again."""
    if not sa.inspect(connection).has_table(API_KEYS.name):
        return {}
    rows = connection.execute(
        sa.select(API_KEYS.c.key_id, API_KEYS.c.revoked_ms).where(API_KEYS.c.revoked_ms.is_not(None))
    )
    return {row.key_id: row.revoked_ms for row in rows}


def _revoke_again(connection: sa.Connection, revoked: dict[str, int]) -> int:
    """Revoke those of the backup, too; how many there were."""
    in_force = API_KEYS.c.revoked_ms.is_(None)
    return sum(
        connection.execute(
            sa.update(API_KEYS).where(API_KEYS.c.key_id == key_id, in_force).values(revoked_ms=at_ms)
        ).rowcount
        for key_id, at_ms in revoked.items()
    )


def _drop_tables(target: Database, connection: sa.Connection) -> None:
    tables = our_tables(connection)
    names = [table.name for table in reversed(tables)]
    if sa.inspect(connection).has_table(VERSIONS):
        names.append(VERSIONS)
    quote = target.engine.dialect.identifier_preparer.quote
    for name in names:
        # Whole tables, as the database refuses to have rows of the audit trail removed.
        connection.exec_driver_sql(f"DROP TABLE {quote(name)}")


def _fill(backup: Database, reading: sa.Connection, writing: sa.Connection, manifest: Manifest) -> None:
    upgrade(writing, manifest.schema_revision)
    tables = our_tables(reading)
    copied = copy_rows(backup, reading, writing, tables)
    if copied != manifest.tables:
        raise InputError(f"{copied} rows were restored, of {manifest.tables} in the backup; take another backup")
    go_on_numbering(writing, tables, last_numbers(reading, tables))
    upgrade(writing)


def _raise_epochs(connection: sa.Connection, replaced: int) -> None:
    """Let whoever still owns a partition of the store that was there lose it at the next save."""
    highest = max([replaced, *_epochs(connection)])
    connection.execute(sa.update(PARTITIONS).values(epoch=highest + 1))


def _entry(manifest: Manifest, replaced: dict[str, int], revoked_again: int, now_ms: int, actor: str) -> AuditEntry:
    detail = {
        "created": manifest.created,
        "service_version": manifest.service_version,
        "schema_revision": manifest.schema_revision,
        "sha256": manifest.sha256,
        "replaced": replaced,
        "keys_revoked_again": revoked_again,
    }
    return AuditEntry(0, now_ms, actor, "restored", "", "", "store", detail)
