"""The rows of a SQL query in batches: for reports, by columns where a driver gives Arrow's; and of outcomes to send."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from monitor.errors import InputError, OptionError, SourceUnavailable
from monitor.options import Option
from monitor.redaction import Redactor
from monitor.sources.formats import Pieces, TableFile, array_of, first_repeated

DUCKDB: Final = "duckdb:///"

_BATCH_ROWS: Final = 1 << 13
"""Rows of drivers that give tuples: of more, Python's garbage collector looks at each again and again."""
_ARROW_ROWS: Final = 1 << 16
_COPY_BYTES: Final = 1 << 20

_POSTGRES_TYPES: Final = frozenset(
    {
        *("bool", "int2", "int4", "int8", "float8", "text", "varchar", "bpchar", "name", "bytea"),
        *("_bool", "_int2", "_int4", "_int8", "_float8", "_text", "_varchar"),
    }
)
"""Types that Arrow has, too."""
_POSTGRES_CASTS: Final = {
    # The number that is written, such as 0.1: as a float of 32 bits it is another one.
    "float4": "text::float8",
    "_float4": "text[]::float8[]",
    "_numeric": "float8[]",
    "oid": "int8",
}
_NUMERIC: Final = "numeric"
_DIGITS: Final = 38
"""The most digits of the smaller of Arrow's decimals."""
_POSTGRES_TIMES: Final = frozenset({"date", "timestamp", "timestamptz"})
_POSTGRES_REASON: Final = re.compile(r"(?:ERROR|Failed to connect): +(.*)")

_OUTCOME_ROWS: Final = 10_000
_KEPT: Final = (bool, int, float, str, date)  # a datetime is a date


class _Query(TableFile):
    """A query to a database.

    Attributes
    ----------
    name
        The URL, without its secrets.
    """

    name: str

    def names(self) -> list[str]:
        """The columns of the query."""
        return self._names

    def _name_columns(self, names: Iterable[str]) -> None:
        """Take these columns. Raises InputError where two have one name."""
        self._names = list(names)
        repeated = first_repeated(self._names)
        if repeated is not None:
            raise InputError(f"{self.name}: column {repeated!r} occurs twice in the query; rename one of them with AS")

    def _failed(self, reason: object) -> InputError:
        return InputError(f"{self.name}: the query failed: {str(reason).strip().partition(chr(10))[0]}")

    def _needs(self, database: str, extra: str) -> InputError:
        """The error of a database whose driver is not installed."""
        return InputError(
            f"{self.name}: {database} needs the extra '{extra}': pip install 'calibration-monitor[{extra}]'"
        )


class RowsQuery(_Query):
    """A query to a database of which SQLAlchemy has a driver; a server keeps the rows until they are fetched.

    Drivers give a tuple for each row. Columns are made from them as they are, without SQLAlchemy's own rows.

    Parameters
    ----------
    url
        The URL of the database.
    query
        A SELECT. Nothing that it changes is kept.

    Raises
    ------
    InputError
        The driver is not installed, the query fails, or it has two columns of one name.
    """

    def __init__(self, url: sa.URL, query: str) -> None:
        self.name = _shown_url(url)
        try:
            self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        except (sa.exc.ArgumentError, ImportError) as error:
            raise _no_database(error) from error
        self._query = query
        with self._running(_without_rows(query)) as result:
            self._name_columns(result.keys())

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the order of the query."""
        values = [itemgetter(self._names.index(name)) for name in columns]
        with self._running(self._query, stream_results=True, yield_per=_BATCH_ROWS) as result:
            # What Result.fetchmany() does before it makes a Row of each tuple.
            while rows := result.cursor_strategy.fetchmany(result, cast("Any", result.cursor), _BATCH_ROWS):
                yield [array_of(list(map(value, rows))) for value in values]

    @contextmanager
    def _running(self, query: str, **options: Any) -> Iterator[sa.CursorResult[tuple[object, ...]]]:
        """Run a query; execution options make the server keep its rows."""
        statement = sa.text(query.replace(":", r"\:"))
        try:
            with (
                self._engine.connect() as connection,
                connection.execution_options(**options).execute(statement) as result,
            ):
                yield result
        except sa.exc.SQLAlchemyError as error:
            raise self._failed(getattr(error, "orig", None) or error) from error


class DuckDbQuery(_Query):
    """A query to a file of DuckDB, whose rows come by columns.

    Parameters
    ----------
    url
        ``duckdb:///scores.duckdb``, and ``duckdb:////data/scores.duckdb`` from the root; the file is opened to be read.
    query
        A SELECT.

    Raises
    ------
    InputError
        DuckDB is not installed, there is no such file, the query fails, or it has two columns of one name.
    """

    def __init__(self, url: str, query: str) -> None:
        self.name = url.partition("?")[0]
        try:
            import duckdb  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise self._needs("DuckDB", "duckdb") from error
        path = Path(self.name.removeprefix(DUCKDB))
        if not path.is_file():
            raise InputError(f"{self.name}: there is no file {path}; name one of DuckDB, as {DUCKDB}scores.duckdb")
        self._failure = duckdb.Error
        with self._failures():
            self._database = duckdb.connect(str(path), read_only=True)
            self._rows = self._database.sql(query)
        if self._rows is None:
            raise OptionError(Option.QUERY, " must be a SELECT")
        self._name_columns(self._rows.columns)

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the order of the query."""
        places = [self._names.index(name) for name in columns]
        with self._failures():
            for batch in self._rows.to_arrow_reader(_ARROW_ROWS):
                yield [batch.column(place) for place in places]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (self._failure, pa.ArrowException, OSError) as error:
            raise self._failed(error) from error


class PostgresQuery(_Query):
    """A query to PostgreSQL, whose rows come by columns: the driver of ADBC reads what COPY sends.

    Types that Arrow lacks are cast to text by the server. An infinite time is null, as it is no moment.

    Parameters
    ----------
    url
        The URL of the database.
    query
        A SELECT. Nothing that it changes is kept.

    Raises
    ------
    InputError
        The driver is not installed, the query fails, or it has two columns of one name.
    """

    def __init__(self, url: sa.URL, query: str) -> None:
        self.name = _shown_url(url)
        try:
            # Not their DB-API, which loads pandas and polars where they are installed.
            import adbc_driver_manager as adbc  # noqa: PLC0415 - an extra
            import adbc_driver_postgresql as postgresql  # noqa: PLC0415
        except ImportError as error:
            raise self._needs("PostgreSQL", "postgres") from error
        self._adbc, self._driver = adbc, postgresql
        # The driver takes text for UTF-8, whatever the database is in.
        libpq = url.set(drivername="postgresql").update_query_dict({"client_encoding": "utf8"})
        self._url = libpq.render_as_string(hide_password=False)
        self._query = query
        with self._reading(_without_rows(query)) as reader:
            self._types = {field.name: field.metadata[b"POSTGRESQL:type"].decode() for field in reader.schema}
            self._name_columns(reader.schema.names)

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the order of the query."""
        types = [self._types[name] for name in columns]
        selected = ", ".join(map(_selected, columns, types))
        with self._reading(f"SELECT {selected} FROM ({self._query}) monitored") as reader:  # noqa: S608 - users' own
            for batch in reader:
                yield [
                    _decimals(array) if kind == _NUMERIC else array for kind, array in zip(types, batch, strict=True)
                ]

    @contextmanager
    def _reading(self, query: str) -> Iterator[pa.RecordBatchReader]:
        """Run a query. Its transaction is rolled back in the end."""
        try:
            with (
                self._driver.connect(self._url) as database,
                self._adbc.AdbcConnection(database) as connection,
                self._adbc.AdbcStatement(connection) as statement,
            ):
                connection.set_autocommit(False)
                statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_COPY_BYTES)})
                statement.set_sql_query(query)
                with pa.RecordBatchReader.from_stream(statement.execute_query()[0]) as reader:
                    yield reader
        except (self._adbc.Error, pa.ArrowException, OSError) as error:
            message = str(error)
            reason = _POSTGRES_REASON.search(message)
            raise self._failed(reason[1] if reason else message) from error


def _selected(column: str, kind: str) -> str:
    """A column of PostgreSQL as it is selected, so that Arrow has its type."""
    name = '"' + column.replace('"', '""') + '"'
    if kind in _POSTGRES_TIMES:
        return f"CASE WHEN isfinite({name}) THEN {name} END AS {name}"
    return name if kind in _POSTGRES_TYPES else f"{name}::{_POSTGRES_CASTS.get(kind, 'text')} AS {name}"


def _decimals(texts: pa.Array) -> pa.Array:
    """Texts of decimals as decimals of as many places as these need; as floats if NaN or an infinity is among them."""
    length, point = pc.binary_length(texts), pc.find_substring(texts, ".")
    places = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(length, point), 1))
    digits = pc.max(length).as_py() or 1
    try:
        return texts.cast((pa.decimal128 if digits <= _DIGITS else pa.decimal256)(digits, pc.max(places).as_py() or 0))
    except (pa.ArrowInvalid, ValueError):
        return texts.cast(pa.float64())


def open_query(url: str, query: str) -> TableFile:
    """The rows of a query to a database; raises InputError as its class does, or if the URL cannot be read."""
    bare = query.strip().rstrip(";")
    if url.startswith(DUCKDB):
        return DuckDbQuery(url, bare)
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise _no_database(error) from error
    return (PostgresQuery if parsed.get_backend_name() == "postgresql" else RowsQuery)(parsed, bare)


def _without_rows(query: str) -> str:
    """A query of the same columns; databases know at once that it has no rows."""
    return f"SELECT * FROM ({query}) monitored WHERE 1 = 0"  # noqa: S608 - users run what they write


def _shown_url(url: sa.URL) -> str:
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _no_database(error: Exception) -> OptionError:
    examples = "postgresql://user@host/scores or sqlite:///scores.db"
    return OptionError(Option.QUERY, f" needs the URL of a database, such as {examples}: {error}")


class SqlTable:
    """The result of a query; to be read once. A context manager.

    Parameters
    ----------
    url
        Of SQLAlchemy: ``postgresql://user@host/database``.
    query
        A SELECT.
    cursor, since
        If given, rows come in the order of this column; with ``since``, only those with this value or a larger one.

    Attributes
    ----------
    name
        What messages call it.
    largest
        The largest value of the cursor that was read; None before the first.

    Raises
    ------
    InputError
        The URL is wrong, its driver is not installed, or the query fails.
    SourceUnavailable
        The database does not answer.
    """

    name = "the query"

    def __init__(self, url: str, query: str, *, cursor: str | None = None, since: Any = None) -> None:
        try:
            parsed = _parse_url(url)
            self._redactor = Redactor([str(parsed.password)] if parsed.password else [])
            self._engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        except ImportError as error:
            raise InputError(f"--sql: the driver of {url.partition(':')[0]} is not installed: {error}") from error
        except sa.exc.SQLAlchemyError as error:
            raise InputError("--sql must be like postgresql://user:password@host/database") from error
        try:
            self._connection = self._engine.connect().execution_options(stream_results=True, yield_per=_OUTCOME_ROWS)
        except sa.exc.SQLAlchemyError as error:
            raise SourceUnavailable(f"--sql: {self._shown(error)}") from error
        self._cursor = cursor
        self.largest: Any = None
        bare = query.strip().rstrip(";")
        statement = sa.text(bare) if cursor is None else _ordered(bare, cursor, since)
        try:
            with self._failures():
                self._result = self._connection.execute(statement)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def names(self) -> list[str]:
        """The names of its columns."""
        return list(self._result.keys())

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns."""
        places = [self.names().index(name) for name in columns]
        with self._failures():
            for rows in self._result.partitions(_OUTCOME_ROWS):
                if self._cursor is not None:
                    self._note([row[self.names().index(self._cursor)] for row in rows])
                yield [array_of([_plain(row[place]) for row in rows]) for place in places]

    def _note(self, values: Sequence[Any]) -> None:
        # The rows are in this order.
        self.largest = next((value for value in reversed(values) if value is not None), self.largest)

    def place(self, row: int) -> str:
        """How a person finds a row, counted from 1."""
        return f"row {row}"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise InputError(f"--query fails: {self._shown(error)}") from error

    def _shown(self, error: sa.exc.SQLAlchemyError) -> str:
        cause = getattr(error, "orig", None) or error
        return self._redactor.hide(" ".join(str(cause).split()))


def _ordered(query: str, cursor: str, since: Any) -> sa.Select[Any]:
    """The rows of the query from a value of the cursor on, in its order."""
    rows = sa.text(f"({query}) AS outcomes")
    column: sa.ColumnClause[Any] = sa.column(cursor)
    statement = sa.select(sa.text("*")).select_from(rows).order_by(column)
    return statement if since is None else statement.where(column >= since)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    # Such as UUID.
    return value if value is None or isinstance(value, _KEPT) else str(value)


def _parse_url(url: str) -> sa.URL:
    parsed = sa.make_url(url)
    # SQLAlchemy's own choice is the older psycopg2.
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed
