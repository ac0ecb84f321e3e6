"""The rows of a SQL query, fetched in batches through SQLAlchemy: as a table for reports, and of outcomes to send."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Self

import sqlalchemy as sa

from monitor.errors import InputError, OptionError, SourceUnavailable
from monitor.options import Option
from monitor.redaction import Redactor
from monitor.sources.formats import Pieces, TableFile, array_of, first_repeated

_BATCH_ROWS: Final = 1 << 16
DUCKDB: Final = "duckdb:///"

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


class SqlQuery(_Query):
    """A query to a database; a server keeps the rows until they are fetched.

    Parameters
    ----------
    url
        Of the database, as SQLAlchemy has it.
    query
        A SELECT. Nothing that it changes is kept.

    Raises
    ------
    InputError
        The URL cannot be read, its driver is not installed, or the query has two columns of one name.
    """

    def __init__(self, url: str, query: str) -> None:
        try:
            parsed = _parse_url(url)
            self.name = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=True)
            self._engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        except (sa.exc.ArgumentError, ImportError) as error:
            examples = "postgresql://user@host/scores or sqlite:///scores.db"
            raise OptionError(Option.QUERY, f" needs the URL of a database, such as {examples}: {error}") from error
        self._query = query.strip().rstrip(";")
        # Databases know at once that this has no rows.
        none = f"SELECT * FROM ({self._query}) monitored WHERE 1 = 0"  # noqa: S608 - users run what they write
        with self._running(none) as result:
            self._name_columns(result.keys())

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the order of the query."""
        places = [self._names.index(name) for name in columns]
        with self._running(self._query, stream_results=True, yield_per=_BATCH_ROWS) as result:
            for rows in result.partitions(_BATCH_ROWS):
                values = list(zip(*rows, strict=True))
                yield [array_of(list(values[place])) for place in places]

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
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise InputError(f"{self.name}: the query failed: {reason}") from error


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
            raise InputError(
                f"{self.name}: DuckDB needs the extra 'duckdb': pip install 'calibration-monitor[duckdb]'"
            ) from error
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
            for batch in self._rows.to_arrow_reader(_BATCH_ROWS):
                yield [batch.column(place) for place in places]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            raise InputError(f"{self.name}: the query failed: {str(error).strip().partition(chr(10))[0]}") from error


def open_query(url: str, query: str) -> TableFile:
    """The rows of a query to a database; raises InputError as its class does."""
    return DuckDbQuery(url, query) if url.startswith(DUCKDB) else SqlQuery(url, query)


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
