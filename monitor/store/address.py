"""From a URL to an engine."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
import structlog

from monitor.clock import Clock
from monitor.errors import IncompatibleStore, NoStore, SettingsError
from monitor.store.database import POSTGRESQL, SQLITE, Database

_EXAMPLES: Final = "sqlite:///folder/monitor.db or postgresql://user:password@host/database"

_PAGE_BYTES: Final = 16_384
"""Batches are large: larger pages make shorter chains of them."""

_WAL_PAGES: Final = 1_024
"""16 MiB of log before it is copied into the file: often enough that no save pays for many at once."""

LOG_LIMIT_BYTES: Final = 2 * _WAL_PAGES * _PAGE_BYTES
"""32 MiB, to which SQLite cuts its log at the first write after all of it was copied into the file."""

_BINARY: Final = 1
"""PostgreSQL's own number of its binary format."""

_SECRET_KEYS: Final = ("password", "sslpassword")

_making = threading.Lock()
"""Held while a file is made: closing it would take from another thread the locks that SQLite holds on it."""

_log = structlog.get_logger(__name__)


def connect(url: str, patience_seconds: float, clock: Clock) -> Database:
    """Open the database at a URL. Creates a SQLite file and its folder; creates no tables.

    Raises
    ------
    SettingsError
        The URL is wrong, or a file cannot be written there.
    StoreUnavailable
        The database does not answer.
    IncompatibleStore
        The file is something else.
    """
    kind, parsed = _parse(url)
    if kind == SQLITE:
        return _connect_sqlite(parsed, patience_seconds, clock)
    return _connect_postgresql(parsed, patience_seconds, clock)


def connect_existing(url: str, patience_seconds: float, clock: Clock) -> Database:
    """Open what is at a URL to look at it: nothing is made, and of a SQLite file nothing can be changed.

    Raises
    ------
    SettingsError
        The URL is wrong.
    NoStore
        There is no such file.
    """
    kind, parsed = _parse(url)
    if kind == POSTGRESQL:
        return _connect_postgresql(parsed, patience_seconds, clock)
    path = sqlite_path(url)
    if path is None or not path.is_file():
        # The whole path: a relative one begins where the command is run, which need not be where the service is.
        where = "" if path is None else path.absolute()
        raise NoStore(f"there is no store at {where}: `monitor serve` makes it at its first start")

    def open_file() -> sqlite3.Connection:
        # With the right to write, which is never used: without it, SQLite would leave its index file behind.
        address = f"file:{quote(str(path.resolve()))}?mode=rw"
        connection = sqlite3.connect(
            address, uri=True, timeout=patience_seconds, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA query_only = ON").close()
        return connection

    engine = sa.create_engine("sqlite+pysqlite://", creator=open_file, poolclass=sa.NullPool, hide_parameters=True)
    return Database(engine, f"sqlite:///{path}", (), patience_seconds, clock)


def sqlite_path(url: str) -> Path | None:
    """The file of a store in SQLite; None where the store is another. Raises SettingsError."""
    kind, parsed = _parse(url)
    if kind != SQLITE:
        return None
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise SettingsError(f"the store must be a file, sqlite:///folder/monitor.db, got {parsed}")
    return expand_home(parsed.database, "store.url")


def expand_home(path: str, key: str) -> Path:
    """The path of a setting; a ``~`` or ``~user`` at its beginning is that user's home.

    Parameters
    ----------
    path
        As it is set.
    key
        The setting, for the message.

    Raises
    ------
    SettingsError
        No such home is known.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        home = Path(path).parts[0]
        why = "HOME is not set, and this user is not known to the system" if home == "~" else "there is no such user"
        raise SettingsError(
            f"{key} begins with {home}, a home that is not known ({why}): write the whole path"
        ) from error


def _parse(url: str) -> tuple[str, sa.URL]:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        # The text is not shown: it may hold a password.
        raise SettingsError(f"the store's URL must look like {_EXAMPLES}") from error
    kind = parsed.get_backend_name()
    if kind == "postgres":
        kind = POSTGRESQL
    if kind not in {SQLITE, POSTGRESQL}:
        raise SettingsError(f"the store's URL must look like {_EXAMPLES}, got {parsed.drivername}://...")
    return kind, parsed


def _connect_sqlite(url: sa.URL, patience_seconds: float, clock: Clock) -> Database:
    path = sqlite_path(url.render_as_string(hide_password=False))
    if path is None:
        raise ValueError(f"no file is named by {url}")
    _check_writable(path)
    engine = sa.create_engine(
        sa.URL.create("sqlite+pysqlite", database=str(path), query=url.query),
        connect_args={"timeout": patience_seconds},
        hide_parameters=True,
    )
    sa.event.listen(engine, "connect", _set_up_sqlite)
    database = Database(engine, f"sqlite:///{path}", (), patience_seconds, clock)
    try:
        _enter_wal(database)
    except BaseException:
        database.close()
        raise
    return database


def _check_writable(path: Path) -> None:
    if not path.parent.exists():
        # A first start; or a volume that is not mounted, or a path that is misspelt, and all state seems lost.
        _log.warning(
            "the store's folder is not there, so it is made: if this is no first start, see that its volume is mounted",
            folder=str(path.parent),
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"the store's folder {path.parent} cannot be created: {error.strerror}") from error
    if path.is_dir():
        raise SettingsError(f"the store must be a file, but {path} is a folder: name a file in it")
    # The log and its index stand beside the file, so the folder must be writable too.
    for needed in (path.parent, path) if path.exists() else (path.parent,):
        if not os.access(needed, os.W_OK):
            raise SettingsError(f"the store {path} cannot be written: no permission to write {needed}")
    _make_private(path)


def _make_private(path: Path) -> None:
    """Make the file, if it is not there: for its owner alone, as it holds what events say of people.

    SQLite gives its log and its index the mode of the file. A file that is there keeps the mode that it has.
    """
    with _making:
        if path.exists():
            return
        try:
            # A link that leads to no file yet may stand there.
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return  # Another process was quicker.
        except OSError as error:
            raise SettingsError(f"the store {path} cannot be created: {error.strerror}") from error


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # The driver must not begin transactions by itself: it would begin them late.
    connection.isolation_level = None
    for pragma in (
        f"page_size = {_PAGE_BYTES}",
        # What was deleted can be given back to the disk, piece by piece. A file keeps what it was made with.
        "auto_vacuum = INCREMENTAL",
        # One fsync a checkpoint, every few seconds, buys that what was once saved survives a power cut too: no offset
        # that another system was told, no removed dead letter ever comes back.
        "synchronous = FULL",
        "foreign_keys = ON",
        # Some distributions build SQLite so that it overwrites what it deletes, twice the work of a dropped bucket.
        "secure_delete = OFF",
        f"wal_autocheckpoint = {_WAL_PAGES}",
        f"journal_size_limit = {LOG_LIMIT_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _enter_wal(database: Database) -> None:
    """Switch the file to its write-ahead log, once for all."""
    clock = database.clock
    deadline = clock.monotonic() + database.patience_seconds
    while True:
        try:
            connection = database.engine.raw_connection()
            try:
                mode = connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
            finally:
                connection.close()
        except database.engine.dialect.loaded_dbapi.DatabaseError as error:
            # SQLite does not wait for this lock by itself: another process may be switching the same new file.
            if "locked" in str(error) and clock.monotonic() < deadline:
                clock.sleep(0.05)
                continue
            if "not a database" in str(error):
                raise IncompatibleStore(
                    f"{database.shown} is no SQLite file: name another file, or move this one away"
                ) from error
            raise SettingsError(f"the store {database.shown} cannot be opened: {error}") from error
        if mode != ("wal",):
            raise SettingsError(
                f"the store {database.shown} is on a file system without shared memory: put it on a local disk"
            )
        return


def _connect_postgresql(url: sa.URL, patience_seconds: float, clock: Clock) -> Database:
    if "+" in url.drivername and url.get_driver_name() != "psycopg":
        raise SettingsError(f"the store's URL must begin with postgresql://, got {url.drivername}://...")
    url = url.set(drivername="postgresql+psycopg")
    keep_alive: dict[str, Any] = {
        "connect_timeout": 10,
        "application_name": "calibration-monitor",
        # A server that vanished without a word is noticed within half a minute.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 30_000,
    }
    try:
        engine = sa.create_engine(
            url,
            connect_args={key: value for key, value in keep_alive.items() if key not in url.query},
            hide_parameters=True,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError as error:
        raise SettingsError(
            "the store's URL names PostgreSQL, whose driver is not installed:"
            ' run `pip install "calibration-monitor[postgres]"`'
        ) from error
    sa.event.listen(engine, "connect", _read_binary)
    values = [url.password, *(url.query.get(key) for key in _SECRET_KEYS)]
    secrets = tuple(str(value) for value in values if value)
    hidden = url.set(drivername=POSTGRESQL, query={k: v for k, v in url.query.items() if k not in _SECRET_KEYS})
    return Database(engine, hidden.render_as_string(hide_password=True), secrets, patience_seconds, clock)


def _read_binary(connection: Any, _record: Any) -> None:
    text_cursor = connection.server_cursor_factory

    def binary_cursor(*arguments: Any, **options: Any) -> Any:
        cursor = text_cursor(*arguments, **options)
        # As text, each byte of the journal would travel as two hexadecimal digits: measured 2.5 times slower.
        cursor.format = _BINARY
        return cursor

    connection.server_cursor_factory = binary_cursor
