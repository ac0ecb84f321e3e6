"""Remove old dead letters, and return free space of SQLite files to the disk.

Other data expires in the transactions that replace it: panes and samples with newer events, maps with newer refits.
"""

from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from monitor.clock import Clock
from monitor.errors import StoreUnavailable
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


class Housekeeping:
    """Cleans a store up. One thread at a time; other processes may do the same.

    Parameters
    ----------
    database
        The database of the store.
    letter_retention_ms
        How long dead letters are kept; None: no limit of time.
    clock
        The current time.
    """

    def __init__(self, database: Database, letter_retention_ms: int | None, clock: Clock) -> None:
        self._database = database
        self._letter_retention_ms = letter_retention_ms
        self._clock = clock

    def sweep(self) -> Swept:
        """Clean up once. Raises StoreUnavailable if the database does not answer."""
        letters = 0
        if self._letter_retention_ms is not None:
            before_ms = self._clock.now_ms() - self._letter_retention_ms
            while removed := self._remove_letters(before_ms):
                letters += removed
        if not self._database.is_sqlite:
            return Swept(letters)
        free_bytes = self._shrink()
        self._empty_log()
        return Swept(letters, free_bytes)

    def _remove_letters(self, before_ms: int) -> int:
        """Remove some of the letters stored before; returns their number."""
        oldest = sa.select(LETTERS.c.number, LETTERS.c.partition, LETTERS.c.stored_ms).order_by(LETTERS.c.number)
        with self._database.reading() as connection:
            # Numbers ascend with time, so reading stops after the old letters.
            rows = connection.execute(oldest.limit(_LETTERS_A_TRANSACTION)).all()
        old = [row for row in rows if row.stored_ms < before_ms]
        if not old:
            return 0
        with self._database.writing() as connection:
            removed = connection.execute(
                sa.delete(LETTERS)
                .where(LETTERS.c.number.in_([row.number for row in old]))
                .returning(LETTERS.c.partition)
            ).scalars()
            partitions = list(removed)
            for partition in sorted(set(partitions)):
                connection.execute(
                    sa.update(PARTITIONS)
                    .where(PARTITIONS.c.partition == partition)
                    .values(dead_letters_pruned=PARTITIONS.c.dead_letters_pruned + partitions.count(partition))
                )
        return len(old)

    def _shrink(self) -> int:
        """Return free pages to the disk if the file supports it; returns the bytes."""
        size, pages, free, may_shrink = self._pages()
        surplus = free - round(_FREE_SHARE * (pages - free))
        if not may_shrink or surplus < _MIN_SURPLUS_PAGES:
            return 0
        with self._database.translated():
            connection = self._database.engine.raw_connection()
            try:
                for _ in range(min(_MAX_TRANSACTIONS, -(-surplus // _PAGES_A_TRANSACTION))):
                    # As a script, because each step frees one page and execute() does only one step.
                    connection.cursor().executescript(
                        f"PRAGMA incremental_vacuum({min(_PAGES_A_TRANSACTION, surplus)})"
                    )
                    surplus -= _PAGES_A_TRANSACTION
            except self._database.engine.dialect.loaded_dbapi.OperationalError as error:
                raise StoreUnavailable(f"the store {self._database.shown} is busy: {error}") from error
            finally:
                connection.close()
        return (pages - self._pages()[1]) * size

    def _empty_log(self) -> None:
        """Truncate SQLite's write-ahead log if it is longer than its limit, unless somebody is reading.

        A large transaction or a long read makes it longer. SQLite truncates it at the next write only.
        """
        log = Path(f"{self._database.engine.url.database}-wal")
        if not log.exists() or log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        with self._database.translated():
            connection = self._database.engine.raw_connection()
            cursor = connection.cursor()
            try:
                # Do not wait for readers, as writers would wait too. The next run tries again.
                cursor.execute("PRAGMA busy_timeout = 0")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {round(self._database.patience_seconds * 1000)}")
                connection.close()

    def _pages(self) -> tuple[int, int, int, bool]:
        """Bytes of a page, pages of the file, free pages, and whether these can be returned."""
        with self._database.reading() as connection:
            values = [
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_size", "page_count", "freelist_count", "auto_vacuum")
            ]
        return values[0], values[1], values[2], values[3] == 2
