"""Open the database at a URL."""

import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
import structlog

from monitor.clock import Clock
from monitor.errors import DamagedStore, NoStore, SettingsError
from monitor.store.database import POSTGRESQL, SQLITE, Database, is_damage

_EXAMPLES: Final = "sqlite:///folder/monitor.db or postgresql://user:password@host/database"

_PAGE_BYTES: Final = 16_384
"""Large pages, as batches are large."""

_WAL_PAGES: Final = 1_024
"""Pages of log (16 MiB) before it is copied into the file: small enough that no save takes long."""

LOG_LIMIT_BYTES: Final = 2 * _WAL_PAGES * _PAGE_BYTES
"""32 MiB. SQLite truncates a longer log at the first write after all of it was copied into the file."""

_BINARY: Final = 1
"""psycopg's number of the binary format."""

SECRET_KEYS: Final = ("password", "sslpassword")

_creating = threading.Lock()
"""Held while a file is created: closing it releases the locks of SQLite connections of other threads."""

_log = structlog.get_logger(__name__)


def connect(url: str, patience_seconds: float, clock: Clock) -> Database:
    """Open the database at a URL. Creates a SQLite file and its folder; creates no tables.

    Raises
    ------
    SettingsError
        The URL is wrong, or the file cannot be written.
    StoreUnavailable
        The database does not answer.
    IncompatibleStore
        The file is not a SQLite database.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == SQLITE:
        return _connect_sqlite(parsed, patience_seconds, clock)
    return _connect_postgresql(parsed, patience_seconds, clock)


def connect_existing(url: str, patience_seconds: float, clock: Clock) -> Database:
    """Open an existing database for reading. Creates nothing; a SQLite file cannot be changed.

    Raises
    ------
    SettingsError
        The URL is wrong.
    NoStore
        There is no such file.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == POSTGRESQL:
        return _connect_postgresql(parsed, patience_seconds, clock)
    path = _file_of(parsed)
    if not path.is_file():
        # The absolute path, as the command may run in another folder than the service.
        raise NoStore(f"there is no store at {path.absolute()}: `monitor serve` creates it at its first start")
    engine = sa.create_engine(
        # Opened with write permission, as SQLite would otherwise leave its index file behind.
        sa.URL.create(
            "sqlite+pysqlite", database=f"file:{quote(str(path.resolve()))}", query={"mode": "rw", "uri": "true"}
        ),
        connect_args={"timeout": patience_seconds, "isolation_level": None},
        poolclass=sa.NullPool,
        hide_parameters=True,
    )
    sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON").close())
    return Database(engine, f"sqlite:///{path}", (), patience_seconds, clock)


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite store; None for another database. Raises SettingsError."""
    parsed = parse_url(url)
    return _file_of(parsed) if parsed.get_backend_name() == SQLITE else None


def expand_home(path: str, key: str) -> Path:
    """Expand a ``~`` or ``~user`` at the beginning of a path; raises SettingsError, which names the setting ``key``."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        home = Path(path).parts[0]
        why = "HOME is not set, and the system does not know this user" if home == "~" else "there is no such user"
        raise SettingsError(
            f"{key} begins with {home}, a home that is not known ({why}): write the whole path"
        ) from error


def parse_url(url: str) -> sa.URL:
    """Parse the URL of a SQLite database, or of a PostgreSQL database, with its driver; raises SettingsError."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError) as error:
        # The text is not shown: it may hold a password.
        raise SettingsError(f"store.url must look like {_EXAMPLES}") from error
    kind, _, driver = parsed.drivername.partition("+")
    if kind == SQLITE:
        return parsed
    if kind not in {POSTGRESQL, "postgres"}:
        raise SettingsError(f"store.url must look like {_EXAMPLES}, got {parsed.drivername}://...")
    if driver not in {"", "psycopg"}:
        raise SettingsError(f"store.url must begin with postgresql://, got {parsed.drivername}://...")
    return parsed.set(drivername=f"{POSTGRESQL}+psycopg")


def _file_of(url: sa.URL) -> Path:
    """The file of a SQLite store."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise SettingsError(f"the store must be a file, sqlite:///folder/monitor.db, got {url}")
    return expand_home(url.database, "store.url")


def _connect_sqlite(url: sa.URL, patience_seconds: float, clock: Clock) -> Database:
    path = _file_of(url)
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
        # Either a first start, or a volume is not mounted or the path is misspelt, and all state seems lost.
        _log.warning(
            "the store's folder is created: if this is not the first start, check that its volume is mounted",
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
    _create_private(path)


def _create_private(path: Path) -> None:
    """Create a missing file, readable by its owner only, as it holds data about people.

    SQLite gives its log and its index the mode of the file. An existing file keeps its mode.
    """
    with _creating:
        if path.exists():
            return
        try:
            # The path may be a link to a file that does not exist yet.
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return  # Another process has just created it.
        except OSError as error:
            raise SettingsError(f"the store {path} cannot be created: {error.strerror}") from error


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    # The driver must not begin transactions by itself, as it begins them late.
    connection.isolation_level = None
    for pragma in (
        f"page_size = {_PAGE_BYTES}",
        # Free pages can be returned to the disk step by step. Applies to new files only.
        "auto_vacuum = INCREMENTAL",
        # One fsync per checkpoint, every few seconds, so that saved state survives a power cut: no committed offset and
        # no removed dead letter comes back.
        "synchronous = FULL",
        "foreign_keys = ON",
        # Some distributions build SQLite to overwrite deleted data, which doubles the work of dropping a bucket.
        "secure_delete = OFF",
        f"wal_autocheckpoint = {_WAL_PAGES}",
        f"journal_size_limit = {LOG_LIMIT_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _enter_wal(database: Database) -> None:
    """Switch the file to a write-ahead log, permanently."""
    clock = database.clock
    deadline = clock.monotonic() + database.patience_seconds
    while True:
        try:
            with closing(database.engine.raw_connection()) as connection:
                mode = connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
        except database.engine.dialect.loaded_dbapi.DatabaseError as error:
            # SQLite does not wait for this lock, and another process may be switching the same new file.
            if "locked" in str(error) and clock.monotonic() < deadline:
                clock.sleep(0.05)
                continue
            if is_damage(error):
                raise DamagedStore(database.damage(str(error))) from error
            raise SettingsError(f"the store {database.shown} cannot be opened: {error}") from error
        if mode != ("wal",):
            raise SettingsError(
                f"the store {database.shown} is on a file system without shared memory: put it on a local disk"
            )
        return


def _connect_postgresql(url: sa.URL, patience_seconds: float, clock: Clock) -> Database:
    keep_alive: dict[str, Any] = {
        "connect_timeout": 10,
        "application_name": "calibration-monitor",
        # Detects within half a minute that a host is gone.
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
    from monitor.store.postgresql import CheckedConnection  # noqa: PLC0415 - an extra

    sa.event.listen(engine, "do_connect", lambda _dialect, _record, _, options: CheckedConnection.connect(**options))
    sa.event.listen(engine, "connect", _read_binary)
    values = [url.password, *(url.query.get(key) for key in SECRET_KEYS)]
    secrets = tuple(str(value) for value in values if value)
    hidden = url.set(drivername=POSTGRESQL, query={k: v for k, v in url.query.items() if k not in SECRET_KEYS})
    return Database(engine, hidden.render_as_string(hide_password=True), secrets, patience_seconds, clock)


def _read_binary(connection: Any, _record: Any) -> None:
    text_cursor = connection.server_cursor_factory

    def binary_cursor(*arguments: Any, **options: Any) -> Any:
        cursor = text_cursor(*arguments, **options)
        # As text, each byte of the journal is sent as two hexadecimal digits, which is 2.5 times slower.
        cursor.format = _BINARY
        return cursor

    connection.server_cursor_factory = binary_cursor
