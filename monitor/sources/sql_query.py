"""The rows of a SQL query, fetched in batches through SQLAlchemy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from monitor.errors import InputError, OptionError
from monitor.options import Option
from monitor.sources.formats import Pieces, TableFile, array_of, first_repeated

_BATCH_ROWS: Final = 1 << 16


class SqlQuery(TableFile):
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
            parsed = sa.make_url(url)
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            self.name = parsed.set(drivername=parsed.get_backend_name()).render_as_string(hide_password=True)
            self._engine = sa.create_engine(parsed, poolclass=sa.NullPool)
        except (sa.exc.ArgumentError, ImportError) as error:
            examples = "postgresql://user@host/scores or sqlite:///scores.db"
            raise OptionError(Option.QUERY, f" needs the URL of a database, such as {examples}: {error}") from error
        self._query = query.strip().rstrip(";")
        # Databases know at once that this has no rows.
        none = f"SELECT * FROM ({self._query}) monitored WHERE 1 = 0"  # noqa: S608 - users run what they write
        with self._running(none) as result:
            self._names = list(result.keys())
        repeated = first_repeated(self._names)
        if repeated is not None:
            raise InputError(f"{self.name}: column {repeated!r} occurs twice in the query; rename one of them with AS")

    def names(self) -> list[str]:
        """The columns of the query."""
        return self._names

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
