"""Remove old dead letters, alerts and evidence, thin out history and moments, and give free space of SQLite files back.

Other data expires in the transactions that replace it: panes and samples with newer events, maps with newer refits.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.errors import StoreUnavailable
from monitor.store import alerts, evaluations, evidence, evidence_history, history
from monitor.store.address import LOG_LIMIT_BYTES
from monitor.store.database import Database
from monitor.store.schema import DEAD_LETTERS as LETTERS
from monitor.store.schema import PARTITIONS

_FREE_SHARE: Final = 0.25
"""Share of the used pages that is left free, as it will be needed again."""
_MIN_SURPLUS_PAGES: Final = 64
_PAGES_A_TRANSACTION: Final = 256
"""4 MiB, which delays checkpoints by some milliseconds."""
_MAX_TRANSACTIONS: Final = 64
_LETTERS_A_TRANSACTION: Final = 1000


class Swept(NamedTuple):
    """Result of one run."""

    dead_letters: int = 0
    free_bytes: int = 0
    """Returned to the disk."""
    history: int = 0
    """Days of series, and of the evidence on versions, whose history was older than its retention."""
    alerts: int = 0
    """Alerts that were resolved longer ago than that."""
    evidence: int = 0
    """Versions that have stopped."""


def sweep(
    database: Database, letter_retention_ms: int | None, history_retention_ms: int, kept_ms: Mapping[int, int]
) -> Swept:
    """Clean a store up once. One thread at a time; other processes may do the same.

    Parameters
    ----------
    database
        The database of the store.
    letter_retention_ms
        How long dead letters are kept; None: no limit of time.
    history_retention_ms
        How long the history is kept, in the time of the predictions; and alerts after they were resolved.
    kept_ms
        Width of panes -> how long they are kept behind the settled edge. Evidence on a version without predictions is
        kept as long as the last of them.

    Raises
    ------
    StoreUnavailable
        The database does not answer.
    DamagedStore, IncompatibleStore
        The history cannot be read.
    """
    letters = free_bytes = 0
    if letter_retention_ms is not None:
        before_ms = database.clock.now_ms() - letter_retention_ms
        while removed := _remove_letters(database, before_ms):
            letters += removed
    if database.is_sqlite:
        free_bytes = _shrink(database)
        _empty_log(database)
    old_alerts = alerts.remove_old(database, database.clock.now_ms() - history_retention_ms)
    days = history.compact(database, history_retention_ms) + evidence_history.compact(database, history_retention_ms)
    evaluations.thin_moments(database, kept_ms)
    return Swept(letters, free_bytes, days, old_alerts, evidence.remove_stopped(database, max(kept_ms.values())))


def _remove_letters(database: Database, before_ms: int) -> int:
    """Remove some of the letters stored before; returns their number."""
    oldest = sa.select(LETTERS.c.number, LETTERS.c.stored_ms).order_by(LETTERS.c.number)
    # Numbers ascend with time, so reading stops after the old letters.
    rows = database.rows(oldest.limit(_LETTERS_A_TRANSACTION))
    old = [row.number for row in rows if row.stored_ms < before_ms]
    if not old:
        return 0
    with database.writing() as connection:
        remove = sa.delete(LETTERS).where(LETTERS.c.number.in_(old)).returning(LETTERS.c.partition)
        removed = Counter(connection.execute(remove).scalars())
        for partition, count in sorted(removed.items()):
            connection.execute(
                sa.update(PARTITIONS)
                .where(PARTITIONS.c.partition == partition)
                .values(dead_letters_pruned=PARTITIONS.c.dead_letters_pruned + count)
            )
    return len(old)


def _shrink(database: Database) -> int:
    """Return free pages to the disk; returns the bytes."""
    size, pages, free = _pages(database)
    surplus = free - round(_FREE_SHARE * (pages - free))
    if surplus < _MIN_SURPLUS_PAGES:
        return 0
    with database.translated(), closing(database.engine.raw_connection()) as connection:
        try:
            for _ in range(min(_MAX_TRANSACTIONS, -(-surplus // _PAGES_A_TRANSACTION))):
                # As a script, because each step frees one page and execute() does only one step.
                connection.cursor().executescript(f"PRAGMA incremental_vacuum({min(_PAGES_A_TRANSACTION, surplus)})")
                surplus -= _PAGES_A_TRANSACTION
        except database.engine.dialect.loaded_dbapi.OperationalError as error:
            raise StoreUnavailable(f"the store {database.shown} is busy: {error}") from error
    return (pages - _pages(database)[1]) * size


def _empty_log(database: Database) -> None:
    """Truncate SQLite's write-ahead log if it is longer than its limit, unless somebody is reading.

    A large transaction or a long read makes it longer. SQLite truncates it at the next write only.
    """
    log = Path(f"{database.engine.url.database}-wal")
    if not log.exists() or log.stat().st_size <= LOG_LIMIT_BYTES:
        return
    with database.translated(), closing(database.engine.raw_connection()) as connection:
        cursor = connection.cursor()
        try:
            # Do not wait for readers, as writers would wait too. The next run tries again.
            cursor.execute("PRAGMA busy_timeout = 0")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {round(database.patience_seconds * 1000)}")


def _pages(database: Database) -> list[int]:
    """Bytes of a page, pages of the file, and free pages."""
    with database.reading() as connection:
        return [
            int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_size", "page_count", "freelist_count")
        ]
