"""What goes by itself with time: old dead letters; and what SQLite does not need any more goes back to the disk.

Everything else that is kept for a time goes in the transaction of what takes its place: panes and samples with the
events that make them too old, maps with the refit that makes them too many.
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
"""Of what is used: so much is left free, as it will be needed again."""
_LEAST_FREE_PAGES: Final = 64
_PAGES_AT_ONCE: Final = 256
"""Moved in one transaction (4 MiB), which keeps checkpoints waiting for some milliseconds."""
_MOST_TURNS: Final = 64
_LETTERS_AT_ONCE: Final = 1000


class Swept(NamedTuple):
    """What went."""

    dead_letters: int = 0
    free_bytes: int = 0
    """Given back to the disk."""


class Housekeeping:
    """Sweeps a store. One thread at a time; other processes may do the same.

    Parameters
    ----------
    database
        Of the store.
    letter_retention_ms
        How long dead letters are kept; None: until there are too many.
    clock
        Tells what is old.
    """

    def __init__(self, database: Database, letter_retention_ms: int | None, clock: Clock) -> None:
        self._database = database
        self._letter_retention_ms = letter_retention_ms
        self._clock = clock

    def sweep(self) -> Swept:
        """Sweep once.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        letters = 0
        if self._letter_retention_ms is not None:
            before_ms = self._clock.now_ms() - self._letter_retention_ms
            while gone := self._remove_letters(before_ms):
                letters += gone
        if not self._database.is_sqlite:
            return Swept(letters)
        free_bytes = self._shrink()
        self._empty_log()
        return Swept(letters, free_bytes)

    def _remove_letters(self, before_ms: int) -> int:
        """Remove some of the letters stored before then; how many."""
        oldest = sa.select(LETTERS.c.number, LETTERS.c.partition, LETTERS.c.stored_ms).order_by(LETTERS.c.number)
        with self._database.reading() as connection:
            # Numbers go up with time, so that this finds the end of what is old, and reads no more.
            rows = connection.execute(oldest.limit(_LETTERS_AT_ONCE)).all()
        going = [row for row in rows if row.stored_ms < before_ms]
        if not going:
            return 0
        with self._database.writing() as connection:
            gone = connection.execute(
                sa.delete(LETTERS)
                .where(LETTERS.c.number.in_([row.number for row in going]))
                .returning(LETTERS.c.partition)
            ).scalars()
            partitions = list(gone)
            for partition in sorted(set(partitions)):
                connection.execute(
                    sa.update(PARTITIONS)
                    .where(PARTITIONS.c.partition == partition)
                    .values(dead_letters_pruned=PARTITIONS.c.dead_letters_pruned + partitions.count(partition))
                )
        return len(going)

    def _shrink(self) -> int:
        """Give free pages back, where the file was made so that it can; how many bytes."""
        size, pages, free, may_shrink = self._pages()
        surplus = free - round(_FREE_SHARE * (pages - free))
        if not may_shrink or surplus < _LEAST_FREE_PAGES:
            return 0
        with self._database.translated():
            connection = self._database.engine.raw_connection()
            try:
                for _ in range(min(_MOST_TURNS, -(-surplus // _PAGES_AT_ONCE))):
                    # As a script, since each step of it frees one page, and the driver takes but one otherwise.
                    connection.cursor().executescript(f"PRAGMA incremental_vacuum({min(_PAGES_AT_ONCE, surplus)})")
                    surplus -= _PAGES_AT_ONCE
            except self._database.engine.dialect.loaded_dbapi.OperationalError as error:
                raise StoreUnavailable(f"the store {self._database.shown} is busy: {error}") from error
            finally:
                connection.close()
        return (pages - self._pages()[1]) * size

    def _empty_log(self) -> None:
        """Empty SQLite's write-ahead log where it is longer than its limit, unless somebody is reading.

        One large transaction, or all that was written while somebody read, makes it longer. SQLite cuts it at the next
        write, which may be long in coming.
        """
        log = Path(f"{self._database.engine.url.database}-wal")
        if not log.exists() or log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        with self._database.translated():
            connection = self._database.engine.raw_connection()
            cursor = connection.cursor()
            try:
                # Writers would have to wait as long as this waited for readers. The next sweep tries again.
                cursor.execute("PRAGMA busy_timeout = 0")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {round(self._database.patience_seconds * 1000)}")
                connection.close()

    def _pages(self) -> tuple[int, int, int, bool]:
        """Bytes of a page, pages of the file, free ones among them, and whether it can give them back."""
        with self._database.reading() as connection:
            found = [
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_size", "page_count", "freelist_count", "auto_vacuum")
            ]
        return found[0], found[1], found[2], found[3] == 2
