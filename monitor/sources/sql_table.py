"""The rows of an SQL query, read piece by piece while the database produces them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any, Final, Self

import sqlalchemy as sa

from monitor.errors import InputError, SourceUnavailable
from monitor.redaction import Redactor
from monitor.sources.formats import Pieces, array_of

_ROWS: Final = 10_000
_KEPT: Final = (bool, int, float, str, date)  # a datetime is a date


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
            parsed = sa.make_url(url)
            self._redactor = Redactor([str(parsed.password)] if parsed.password else [])
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")  # SQLAlchemy's own choice is the older psycopg2
            self._engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        except ImportError as error:
            raise InputError(f"--sql: the driver of {url.partition(':')[0]} is not installed: {error}") from error
        except sa.exc.SQLAlchemyError as error:
            raise InputError("--sql must be like postgresql://user:password@host/database") from error
        try:
            self._connection = self._engine.connect().execution_options(stream_results=True, yield_per=_ROWS)
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
            for rows in self._result.partitions(_ROWS):
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
