"""Transactions on SQLite or PostgreSQL, snapshots to stream from, and the database's errors as this service's."""

import sqlite3
import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects import postgresql, sqlite

from monitor.clock import Clock
from monitor.errors import DamagedStore, StoreError, StoreUnavailable
from monitor.redaction import Redactor

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_VALUES_A_STATEMENT: Final = 500

POSTGRESQL: Final = "postgresql"
SQLITE: Final = "sqlite"

_WRITES: Final = "monitor_writes"
"""Execution option of connections that write."""

_LOCK_TIMEOUT: Final = "55P03"
"""SQLSTATE of a statement that waited for a lock as long as it may."""

_END_HUNG: Final = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user"
    " AND application_name = current_setting('application_name') AND wait_event = 'ClientRead'"
    " AND state IN ('active', 'idle in transaction') AND backend_xid IS NOT NULL"
    " AND state_change < clock_timestamp() - make_interval(secs => :seconds)"
)
"""Ends sessions that have written and await more of a process that is paused. The server's own limit of idle
transactions does not end those in the middle of a batch of statements: any message of the batch lifts it."""

_UNAVAILABLE: Final = (
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    # From PostgreSQL after a failover to a read-only server, or when it ended an idle session.
    sa.exc.InternalError,
    sa.exc.TimeoutError,
)


class Database:
    """An engine, whose errors are raised as StoreUnavailable, DamagedStore or StoreError.

    Parameters
    ----------
    engine
        Made by :func:`monitor.store.address.connect`.
    shown
        The address for messages, without secrets.
    secrets
        Texts that no message may show.
    patience_seconds
        How long a statement waits for another process's lock.
    clock
        Waits between attempts, and is the time of SQLite.
    """

    def __init__(
        self, engine: sa.Engine, shown: str, secrets: tuple[str, ...], patience_seconds: float, clock: Clock
    ) -> None:
        self.engine = engine
        self.shown = shown
        self.patience_seconds = patience_seconds
        self.clock = clock
        self._redactor = Redactor(secrets)
        if self.is_sqlite:
            sa.event.listen(engine, "begin", _begin_sqlite)
        self._writing_engine = engine.execution_options(**{_WRITES: True})

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite, a file on this machine."""
        return self.engine.dialect.name == SQLITE

    @contextmanager
    def writing(self, *, idle_seconds: float | None = None) -> Iterator[sa.Connection]:
        """One transaction that writes; committed at the end of the block, rolled back by an error.

        Parameters
        ----------
        idle_seconds
            PostgreSQL ends it once no statement came for so long; six times the patience if left out.

        Raises
        ------
        StoreUnavailable
            The database does not answer, or the lock is not released in time.
        StoreError
            It refuses a statement.
        """
        with self.translated(), self._writing_engine.begin() as connection:
            if not self.is_sqlite:
                # Per transaction, so that it also holds behind a pooler. The server ends the session of an owner
                # that hangs, so that its locks do not block the next owner for ever.
                idle_seconds = idle_seconds or self._idle_seconds
                connection.execute(
                    sa.text(
                        "SELECT set_config('lock_timeout', :lock, true),"
                        " set_config('idle_in_transaction_session_timeout', :idle, true)"
                    ),
                    {"lock": str(round(self.patience_seconds * 1000)), "idle": str(round(idle_seconds * 1000))},
                )
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One transaction that only reads."""
        with self.translated(), self.engine.begin() as connection:
            yield connection

    def rows(self, statement: sa.Select[Any]) -> Sequence[Any]:
        """The rows that a query finds, in a transaction of its own."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def now_ms(self, connection: sa.Connection) -> int:
        """The database's time, which all replicas share: milliseconds since the epoch. Leases last by it.

        SQLite, where all replicas are on one machine, has the machine's.
        """
        if self.is_sqlite:
            return self.clock.now_ms()
        seconds = sa.func.extract("epoch", sa.func.clock_timestamp())
        now_ms: int = connection.execute(sa.select(sa.cast(seconds * 1000, sa.BigInteger))).scalar_one()
        return now_ms

    def snapshot(self) -> sa.Connection:
        """A connection in a transaction that sees one state of the store until it is closed."""
        with self.translated():
            connection = self.engine.connect()
            try:
                if not self.is_sqlite:
                    connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                connection.begin()
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def stream(
        self, connection: sa.Connection, statement: sa.Select[Any], rows_a_fetch: int
    ) -> Iterator[Iterator[Any]]:
        """The rows of a query; at most ``rows_a_fetch`` are in memory at a time."""
        streamed = statement.execution_options(stream_results=True, yield_per=rows_a_fetch)
        with self.translated(), connection.execute(streamed) as result:
            yield iter(result)

    def insert(self, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
        """An INSERT with ON CONFLICT."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def upsert(self, table: sa.Table, *columns: str) -> "sqlite.Insert | postgresql.Insert":
        """An INSERT that replaces columns of a row with the same key; all but the key, if none are named."""
        insert = self.insert(table)
        names = columns or [column.name for column in table.c if not column.primary_key]
        values = {name: insert.excluded[name] for name in names}
        return insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=values)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the database's errors in the block as StoreUnavailable, DamagedStore or StoreError."""
        try:
            yield
        except _UNAVAILABLE as error:
            if isinstance(error, sa.exc.DBAPIError) and getattr(error.orig, "sqlstate", None) == _LOCK_TIMEOUT:
                self._end_hung_sessions()
            raise StoreUnavailable(f"the store {self.shown} does not answer: {self.reason(error)}") from error
        except sa.exc.SQLAlchemyError as error:
            if isinstance(error, sa.exc.DBAPIError) and is_damage(error.orig):
                raise DamagedStore(self.damage(self.reason(error))) from error
            raise StoreError(f"the store {self.shown} refused a statement: {self.reason(error)}") from error

    @property
    def _idle_seconds(self) -> float:
        """How long a process may hold locks and do nothing."""
        return 6 * self.patience_seconds

    def _end_hung_sessions(self) -> None:
        """End sessions that await more of a batch from a process that is paused: they would keep their locks."""
        with self.reading() as connection:
            ended = connection.execute(_END_HUNG, {"seconds": self._idle_seconds}).rowcount
        if ended:
            _log.warning("sessions of the store that hung in the middle of a transaction were ended", sessions=ended)

    def reason(self, error: sa.exc.SQLAlchemyError) -> str:
        """The driver's message in one line, without secrets."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        return self._redactor.hide(" ".join(str(cause).split()))

    def damage(self, reason: str) -> str:
        """The message for a damaged SQLite file."""
        foreign = "not a database" in reason
        what = "is not a SQLite file: name another, or if it was one," if foreign else f"is damaged: {reason};"
        return (
            f"the store {self.shown} {what} stop the service and restore a backup in its place: "
            f"`monitor restore BACKUP --replace {Path(self.engine.url.database or '').name}` keeps the damaged file "
            "beside it"
        )

    def close(self) -> None:
        """Close all idle connections."""
        self.engine.dispose()


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite says that the file is damaged, or is not one of its own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _begin_sqlite(connection: sa.Connection) -> None:
    # A deferred transaction that reads first and writes later fails at once if another process wrote in between;
    # one that takes the lock at its beginning waits for it.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class SharedConnection:
    """A connection that is closed when its last stream is."""

    def __init__(self, connection: sa.Connection, streams: int) -> None:
        self._connection = connection
        self._open_streams = streams

    def release(self, items: Generator[Any]) -> None:
        """Stop one of the streams."""
        items.close()
        self._open_streams -= 1
        if self._open_streams == 0:
            self._connection.close()


class Stream(Generic[T]):
    """An iterator over a snapshot; releases it when it is exhausted, closed, forgotten, or fails."""

    def __init__(self, items: Generator[T], snapshot: SharedConnection) -> None:
        self._items = items
        self.close = weakref.finalize(self, snapshot.release, items)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return next(self._items)
        except BaseException:
            self.close()
            raise


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Split values into lists that one statement may name; databases and their drivers have a limit."""
    left = iter(values)
    while chunk := list(islice(left, _VALUES_A_STATEMENT)):
        yield chunk
