"""Replace a store by a backup, all of it or nothing.

A backup of an earlier version is migrated in its extracted file. The rows are written in one transaction. Every
partition gets an epoch greater than any before, so that a service that still runs on the old store cannot save any
more.

A SQLite file that is damaged cannot be changed: a new one takes its place, and the damaged one is kept beside it.
"""

import fcntl
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import Conflict, DamagedStore, InputError, StoreError
from monitor.events.times import format_time
from monitor.store import audit
from monitor.store.address import connect, connect_existing, sqlite_path
from monitor.store.backup import (
    NEVER_EMPTY,
    PATIENCE_SECONDS,
    REVISION_TABLE,
    Manifest,
    copy_store,
    count_rows,
    extract_store,
    read_manifest,
    store_tables,
)
from monitor.store.database import Database
from monitor.store.migrate import (
    check_grid,
    check_no_foreign_tables,
    check_revision,
    create,
    grid_version_of,
    migrate,
    migrating,
    newest_revision,
    revision_of,
)
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import API_KEYS, PARTITIONS

_SHARED_FIRST: Final = 0x40000002
_SHARED_BYTES: Final = 510
"""The bytes of a file that SQLite locks, also beyond its end."""


class Restored(NamedTuple):
    """Result of a restore."""

    manifest: Manifest
    schema_revision: str
    """After the migration."""
    replaced: dict[str, int]
    """Table -> rows of the store that was replaced; empty if there was none."""
    revoked_again: int
    """API keys of the backup that the replaced store had revoked: they stay revoked."""
    kept: Path | None = None
    """Where the damaged SQLite file is kept that was replaced."""


def check_backup(source: Path, clock: Clock) -> Manifest:
    """Check a whole backup without restoring it. Raises as :func:`restore` does."""
    with tempfile.TemporaryDirectory(prefix="monitor-restore-") as folder:
        return _extract(source, Path(folder) / "store.db", clock)


def store_name(url: str) -> str:
    """Name of a store, to confirm its replacement: that of its file or database."""
    path = sqlite_path(url)
    return path.name if path is not None else sa.make_url(url).database or ""


def restore(source: Path, url: str, clock: Clock, *, replace: str | None = None, actor: str) -> Restored:
    """Replace the store at a URL by a backup.

    Parameters
    ----------
    source
        The backup. One of an earlier version of the service is migrated.
    url
        The store to write, of either kind of database.
    clock
        Time of the audit entry.
    replace
        Name of the store (:func:`store_name`); required if it is not empty.
    actor
        Actor of the audit entry.

    Raises
    ------
    InputError
        The backup cannot be read, is damaged, or is not a backup.
    IncompatibleStore
        It belongs to a later version of the service or another grid, or the database is not a store.
    Conflict
        The store is not empty, and ``replace`` does not name it; or it is damaged, and a process uses it.
    DamagedStore
        It is damaged, and ``replace`` does not name it.
    StoreUnavailable, StoreError
        The database does not answer, or refuses.
    """
    name = store_name(url)
    if replace is not None and replace != name:
        raise InputError(f"--replace must name the store that is to be replaced, {name!r}, got {replace!r}")
    path = sqlite_path(url)
    if path is not None:
        path = path.resolve()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In the folder of the store, which needs the space anyway; the system's temporary folder may be small.
    with tempfile.TemporaryDirectory(prefix=".monitor-restore-", dir=None if path is None else path.parent) as folder:
        file = Path(folder) / "store.db"
        manifest = _extract(source, file, clock)
        with closing(connect(f"sqlite:///{file}", PATIENCE_SECONDS, clock)) as backup:
            migrate(backup)
            try:
                return _replace(backup, manifest, url, clock, may_replace=replace is not None, actor=actor)
            except DamagedStore:
                if path is None or replace is None:
                    raise
                _check_unused(path)
            new = Path(folder) / "new.db"
            revoked = _readable_revoked_keys(url, clock)
            restored = _replace(
                backup, manifest, f"sqlite:///{new}", clock, may_replace=False, actor=actor, revoked=revoked
            )
            return restored._replace(kept=_swap(path, new, clock))


def _replace(
    backup: Database,
    manifest: Manifest,
    url: str,
    clock: Clock,
    *,
    may_replace: bool,
    actor: str,
    revoked: Mapping[str, int] = MappingProxyType({}),
) -> Restored:
    """Replace the store at a URL, in one transaction. ``revoked``: keys to be revoked beside those of that store."""
    with (
        closing(connect(url, PATIENCE_SECONDS, clock)) as target,
        backup.reading() as reading,
        migrating(target) as writing,
    ):
        replaced = _rows_to_replace(target, writing, store_name(url), may_replace=may_replace)
        epoch = max(_epochs(writing), default=0) if replaced else 0
        revoked = {**revoked, **_revoked_keys(writing)}
        _drop_tables(writing)
        create(writing)
        copy_store(backup, reading, writing)
        _raise_epochs(writing, epoch)
        revoked_again = _revoke_again(writing, revoked)
        audit.append(writing, [_entry(manifest, replaced, revoked_again, clock.now_ms(), actor)])
    return Restored(manifest, newest_revision(), replaced, revoked_again)


def _check_unused(path: Path) -> None:
    """Refuse to move a SQLite file away that another process uses: it would go on writing to it."""
    with path.open("rb+") as file:
        try:
            # A process that has opened the store holds a shared lock on these bytes.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_FIRST)
        except BlockingIOError as error:
            raise Conflict(f"another process uses the damaged store {path}: stop the service first") from error


def _readable_revoked_keys(url: str, clock: Clock) -> dict[str, int]:
    """The revoked API keys of a damaged store, if they can still be read."""
    with (
        suppress(StoreError, sa.exc.SQLAlchemyError),
        closing(connect_existing(url, PATIENCE_SECONDS, clock)) as damaged,
        damaged.reading() as connection,
    ):
        return _revoked_keys(connection)
    return {}


def _swap(path: Path, new: Path, clock: Clock) -> Path:
    """Put a new SQLite file in the place of a damaged one; return where that is kept."""
    moment = format_time(clock.now_ms()).replace(":", "-").partition(".")[0].removesuffix("Z")
    kept = path.with_name(f"{path.name}.damaged-{moment}Z")
    for suffix in ("-shm", "-wal", ""):
        file = path.with_name(f"{path.name}{suffix}")
        if file.exists():
            file.rename(kept.with_name(f"{kept.name}{suffix}"))
    new.rename(path)
    return kept


def _extract(source: Path, file: Path, clock: Clock) -> Manifest:
    """Extract the store of a backup into a file, and check both."""
    manifest = read_manifest(source)
    check_revision(f"the backup {source}", manifest.schema_revision)
    check_grid(f"the backup {source}", manifest.grid_version)
    extract_store(source, manifest, file)
    with (
        closing(connect_existing(f"sqlite:///{file}", PATIENCE_SECONDS, clock)) as store,
        store.reading() as connection,
    ):
        actual = (revision_of(connection), grid_version_of(connection), count_rows(connection))
    if actual != (manifest.schema_revision, manifest.grid_version, manifest.tables):
        raise InputError(f"the backup {source} does not match its manifest; use another backup")
    return manifest


def _rows_to_replace(target: Database, connection: sa.Connection, name: str, *, may_replace: bool) -> dict[str, int]:
    """Table -> rows of the store that is replaced; refuses if that is not allowed."""
    revision = revision_of(connection)
    if revision is None:
        check_no_foreign_tables(target, connection)
        return {}
    check_revision(target.shown, revision)
    rows = count_rows(connection)
    existing = {table: count for table, count in rows.items() if count and table not in NEVER_EMPTY}
    if existing and not may_replace:
        shown = ", ".join(f"{count:,} in {table}" for table, count in sorted(existing.items()))
        raise Conflict(
            f"the store {target.shown} is not empty ({shown}), and a restore would replace all of it, the audit"
            f" trail and the API keys too: back it up, and add `--replace {name}`, or name an empty store"
        )
    return existing


def _epochs(connection: sa.Connection) -> Iterable[int]:
    return connection.execute(sa.select(PARTITIONS.c.epoch)).scalars().all()


def _revoked_keys(connection: sa.Connection) -> dict[str, int]:
    """Id -> time, of the revoked API keys of the replaced store: a leaked key must not become valid again."""
    if not sa.inspect(connection).has_table(API_KEYS.name):
        return {}
    rows = connection.execute(
        sa.select(API_KEYS.c.key_id, API_KEYS.c.revoked_ms).where(API_KEYS.c.revoked_ms.is_not(None))
    )
    return {row.key_id: row.revoked_ms for row in rows}


def _revoke_again(connection: sa.Connection, revoked: dict[str, int]) -> int:
    """Revoke these keys if the backup has them; returns the number of keys revoked."""
    in_force = API_KEYS.c.revoked_ms.is_(None)
    return sum(
        connection.execute(
            sa.update(API_KEYS).where(API_KEYS.c.key_id == key_id, in_force).values(revoked_ms=at_ms)
        ).rowcount
        for key_id, at_ms in revoked.items()
    )


def _drop_tables(connection: sa.Connection) -> None:
    # Whole tables, as the database refuses to delete rows of the audit trail.
    for table in reversed(store_tables(connection)):
        table.drop(connection)
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {REVISION_TABLE}")


def _raise_epochs(connection: sa.Connection, replaced: int) -> None:
    """Fence out owners of partitions of the replaced store: their next save fails."""
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
