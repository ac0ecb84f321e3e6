"""Put a backup in the place of a store in SQLite, all of it or nothing.

The backup is copied beside the store, migrated there if it is of an earlier version, and takes the store's name once
it is complete, provided that no process uses the store. Every partition gets an epoch greater than any before, so that
a service that comes back with what it knew of the old store cannot save any more. A store that is damaged is kept
beside the new one.
"""

import fcntl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import Conflict, DamagedStore, InputError, StoreError
from monitor.events.times import format_time
from monitor.store import audit
from monitor.store.address import connect, connect_existing
from monitor.store.backup import PATIENCE_SECONDS, BackupContents, copy_backup, count_rows, sqlite_store
from monitor.store.migrate import check_no_foreign_tables, check_revision, migrate, newest_revision, revision_of
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import API_KEYS, PARTITIONS

_SHARED_FIRST: Final = 0x40000002
_SHARED_BYTES: Final = 510
"""The bytes of a file that SQLite locks, also beyond its end."""

_NEVER_EMPTY: Final = frozenset({"meta", "replicas"})
"""Tables that have rows in an empty store, too: in one on which a service ran and read nothing."""


class Restored(NamedTuple):
    """Result of a restore."""

    contents: BackupContents
    schema_revision: str
    """Revision of the schema after the migration."""
    replaced: Mapping[str, int]
    """Table -> rows of the store that was replaced; empty if there was none, or it was damaged."""
    revoked_again: int
    """API keys of the backup that the replaced store had revoked: they stay revoked."""
    kept: Path | None
    """Where the damaged SQLite file is kept that was replaced."""


class _Replaced(NamedTuple):
    """The store that is replaced, as far as it can be read."""

    rows: Mapping[str, int] = {}
    epoch: int = 0
    """The greatest of its partitions."""
    revoked: Mapping[str, int] = {}
    """Id -> time, of its revoked API keys: a leaked key must not become valid again."""


def check_backup(source: Path, clock: Clock) -> BackupContents:
    """Check a whole backup without restoring it. Raises as :func:`restore` does."""
    with tempfile.TemporaryDirectory(prefix="monitor-restore-") as folder:
        return copy_backup(source, Path(folder) / "store.db", clock)


def restore(source: Path, url: str, clock: Clock, *, replace: str | None = None, actor: str) -> Restored:
    """Replace the store at a URL by a backup.

    Parameters
    ----------
    source
        The backup. One of an earlier version of the service is migrated.
    url
        The store to write, in SQLite.
    clock
        Time of the audit entry.
    replace
        Name of the store's file; required if the store is not empty.
    actor
        Actor of the audit entry.

    Raises
    ------
    InputError
        The backup cannot be read, is damaged, or is not a backup; or the store is in PostgreSQL.
    IncompatibleStore
        It belongs to a later version of the service or another grid, or the file to replace is not a store.
    Conflict
        The store is not empty, and ``replace`` does not name it; or a process uses it.
    DamagedStore
        It is damaged, and ``replace`` does not name it.
    """
    path = sqlite_store(url, f"pg_restore --clean --if-exists --single-transaction {source} --dbname").resolve()
    if replace is not None and replace != path.name:
        raise InputError(f"--replace must name the store that is to be replaced, {path.name!r}, got {replace!r}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In the folder of the store, which needs the space anyway; the system's temporary folder may be small.
    with tempfile.TemporaryDirectory(prefix=".monitor-restore-", dir=path.parent) as folder:
        new = Path(folder) / "new.db"
        contents = copy_backup(source, new, clock)
        with _unused(path):
            pass
        is_damaged = False
        try:
            replaced = _read_replaced(path, clock, may_replace=replace is not None)
        except DamagedStore:
            if replace is None:
                raise
            is_damaged, replaced = True, _Replaced(revoked=_readable_revoked_keys(path, clock))
        with closing(connect(f"sqlite:///{new}", PATIENCE_SECONDS, clock)) as database:
            migrate(database)
            with database.writing() as connection:
                _raise_epochs(connection, replaced.epoch)
                revoked_again = _revoke_again(connection, replaced.revoked)
                entry = _entry(contents, replaced.rows, revoked_again, clock.now_ms(), actor)
                audit.append(connection, [entry])
        kept = _swap(path, new, clock, keeps=is_damaged)
    return Restored(contents, newest_revision(), replaced.rows, revoked_again, kept)


@contextmanager
def _unused(path: Path) -> Iterator[None]:
    """Refuse to replace a file that another process uses, which would go on writing to it; lock it in the block."""
    if not path.exists():
        yield
        return
    with path.open("rb+") as file:
        try:
            # A process that has opened the store holds a shared lock on these bytes.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_FIRST)
        except BlockingIOError as error:
            raise Conflict(f"another process uses the store {path}: stop the service first") from error
        yield


def _read_replaced(path: Path, clock: Clock, *, may_replace: bool) -> _Replaced:
    """Read what is carried over from the store that is replaced; refuses if it may not be replaced."""
    if not path.exists():
        return _Replaced()
    with (
        closing(connect_existing(f"sqlite:///{path}", PATIENCE_SECONDS, clock)) as store,
        store.reading() as connection,
    ):
        revision = revision_of(connection)
        if revision is None:
            check_no_foreign_tables(store, connection)
            return _Replaced()
        check_revision(store.shown, revision)
        rows = {name: rows for name, rows in count_rows(connection).items() if rows and name not in _NEVER_EMPTY}
        if rows and not may_replace:
            shown = ", ".join(f"{count:,} in {table}" for table, count in sorted(rows.items()))
            raise Conflict(
                f"the store {store.shown} is not empty ({shown}), and a restore would replace all of it, the audit"
                f" trail and the API keys too: back it up, and add `--replace {path.name}`, or name an empty store"
            )
        epoch = connection.execute(sa.select(sa.func.max(PARTITIONS.c.epoch))).scalar_one()
        return _Replaced(rows, epoch or 0, _revoked_keys(connection))


def _readable_revoked_keys(path: Path, clock: Clock) -> Mapping[str, int]:
    """The revoked API keys of a damaged store, if they can still be read."""
    with (
        suppress(StoreError, sa.exc.SQLAlchemyError),
        closing(connect_existing(f"sqlite:///{path}", PATIENCE_SECONDS, clock)) as damaged,
        damaged.reading() as connection,
    ):
        return _revoked_keys(connection)
    return {}


def _revoked_keys(connection: sa.Connection) -> dict[str, int]:
    of = API_KEYS.c
    rows = connection.execute(sa.select(of.key_id, of.revoked_ms).where(of.revoked_ms.is_not(None)))
    return {row.key_id: row.revoked_ms for row in rows}


def _swap(path: Path, new: Path, clock: Clock, *, keeps: bool) -> Path | None:
    """Put a new SQLite file in the place of a store; return where a damaged one is kept."""
    moment = format_time(clock.now_ms()).replace(":", "-").partition(".")[0].removesuffix("Z")
    kept = path.with_name(f"{path.name}.{'damaged' if keeps else 'replaced'}-{moment}Z")
    with _unused(path):
        # A log that stayed would be applied to the new file.
        moved = {path.with_name(path.name + end): kept.with_name(kept.name + end) for end in ("-shm", "-wal", "")}
        for file, to in moved.items():
            if file.exists():
                file.rename(to)
        new.rename(path)
    if keeps:
        return kept
    for file in moved.values():
        file.unlink(missing_ok=True)
    return None


def _revoke_again(connection: sa.Connection, revoked: Mapping[str, int]) -> int:
    """Revoke these keys if the backup has them; returns the number of keys revoked."""
    in_force = API_KEYS.c.revoked_ms.is_(None)
    return sum(
        connection.execute(
            sa.update(API_KEYS).where(API_KEYS.c.key_id == key_id, in_force).values(revoked_ms=at_ms)
        ).rowcount
        for key_id, at_ms in revoked.items()
    )


def _raise_epochs(connection: sa.Connection, replaced: int) -> None:
    """Fence out owners of partitions of the replaced store: their next save fails."""
    epochs = connection.execute(sa.select(PARTITIONS.c.epoch)).scalars().all()
    connection.execute(sa.update(PARTITIONS).values(epoch=max([replaced, *epochs]) + 1))


def _entry(
    contents: BackupContents, replaced: Mapping[str, int], revoked_again: int, now_ms: int, actor: str
) -> AuditEntry:
    detail = {
        "schema_revision": contents.schema_revision,
        "sha256": contents.sha256,
        "replaced": dict(replaced),
        "keys_revoked_again": revoked_again,
    }
    return AuditEntry(0, now_ms, actor, "restored", "", "", "store", detail)
