"""Tables of many files: folders, patterns, partitioned data sets and several names are read as one table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from monitor.errors import InputError, OptionError
from monitor.options import Option
from monitor.sources.formats import Pieces, TableFile, open_table
from monitor.sources.lake_tables import open_lake_table
from monitor.sources.row_filter import RowFilter
from monitor.sources.stored_files import FilePart, describe, is_one_path, naming, parts_of


class DataSet(TableFile):
    """The rows of several files, in the order of their paths; folders ``key=value`` are columns of text.

    Each file keeps its own types and format: outcomes may be numbers in one and words in the next, as columns are read.

    Parameters
    ----------
    name
        What messages call it.
    parts
        The files, at least one.
    skip_bad_rows
        Whether rows that cannot be read are left out.
    """

    def __init__(self, name: str, parts: Sequence[FilePart], *, skip_bad_rows: bool = False) -> None:
        self.name = name
        self._parts = parts
        self._skips = skip_bad_rows
        self._partitions = list(dict.fromkeys(key for part in parts for key in part.partitions))
        self._starts: list[tuple[int, TableFile]] = []
        """Number of rows before each file that was opened."""
        self.share = 0.0

    def names(self) -> list[str]:
        """The columns of the first file, and those that folders name."""
        first = self._parts[0]
        with naming(str(first.file)):
            own = self._open(first).names()
        return own + [name for name in self._partitions if name not in own]

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, file by file."""
        return self._pieces(self._parts, columns, None)

    def filtered_pieces(self, columns: Sequence[str], where: RowFilter) -> Pieces:
        """The rows of these columns that meet a condition; files whose folders contradict it are not read."""
        of_folders = where.within(self._partitions)
        kept = self._parts if of_folders is None else self._matching(of_folders)
        return self._pieces(kept, columns, where)

    def place(self, row: int) -> str:
        """The file of a row, and how it is found there."""
        start, file = [(start, file) for start, file in self._starts if start < row][-1]
        return f"{file.name}, {file.place(row - start)}"

    @property
    def unread(self) -> tuple[int, str]:
        """Rows of all files that could not be read and were left out; why, of the first file that has such rows."""
        counts = [(file.name, *file.unread) for _, file in self._starts]
        whys = (f"{why} (in {name})" for name, count, why in counts if count)
        return sum(count for _, count, _ in counts), next(whys, "")

    def _pieces(self, parts: Sequence[FilePart], columns: Sequence[str], where: RowFilter | None) -> Pieces:
        total = max(sum(part.size for part in parts), 1)
        rows, size_before = 0, 0
        self._starts.clear()
        for part in parts:
            file = self._open(part)
            self._starts.append((rows, file))
            with naming(file.name):
                for arrays in self._of_part(file, part, columns, where):
                    rows += len(arrays[0])
                    self.share = (size_before + part.size * (file.share or 0.0)) / total
                    yield arrays
            size_before += part.size
            self.share = size_before / total

    def _of_part(self, file: TableFile, part: FilePart, columns: Sequence[str], where: RowFilter | None) -> Pieces:
        needed = dict.fromkeys((*columns, *(() if where is None else where.columns)))
        folders = {name: part.partitions.get(name) for name in needed if name in self._partitions}
        own = [name for name in needed if name not in folders]
        known = file.names()
        for name in own:
            if name not in known:
                raise InputError(f"{file.name}: no column {name!r}, which {self._parts[0].file} has")
        if not own:
            # How many rows there are is known from some column.
            own = known[:1]
        inside = None if where is None else where.within(own)
        for arrays in file.pieces(own) if inside is None else file.filtered_pieces(own, inside):
            table = pa.Table.from_arrays(list(arrays), own)
            for name, value in folders.items():
                text = pa.repeat(pa.scalar(value, pa.string()), len(table)).dictionary_encode()
                table = table.append_column(name, text)
            if where is not None:
                table = where.keep(table)
            for batch in table.combine_chunks().to_batches():
                yield [batch.column(name) for name in columns]

    def _matching(self, condition: RowFilter) -> list[FilePart]:
        """The files whose folders meet a condition."""
        values = {name: [part.partitions.get(name) for part in self._parts] for name in self._partitions}
        table = pa.table({name: pa.array(texts, pa.string()) for name, texts in values.items()})
        kept = condition.keep(table.append_column("", pa.array(range(len(self._parts)))))
        return [self._parts[at] for at in kept[""].to_pylist()]

    def _open(self, part: FilePart) -> TableFile:
        with naming(str(part.file)):
            return open_table(part.file, skip_bad_rows=self._skips)


class FilteredTable(TableFile):
    """The rows of a table that meet a condition.

    Parameters
    ----------
    table
        The table.
    where
        The condition.
    """

    def __init__(self, table: TableFile, where: RowFilter) -> None:
        self.name = table.name
        self._table = table
        self._where = where
        self.empty = f"no row meets {Option.WHERE} {where}"

    def names(self) -> list[str]:
        """The columns of the table."""
        return self._table.names()

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns that meet the condition."""
        self._where.require_columns(self._table.names(), self.name)
        for arrays in self._table.filtered_pieces(columns, self._where):
            self.share = self._table.share
            yield arrays

    def place(self, row: int) -> str:
        """Rows are counted among those that meet the condition."""
        return f"row {row} of those that {Option.WHERE} keeps"

    @property
    def unread(self) -> tuple[int, str]:
        """Rows that could not be read, whether they would meet the condition or not."""
        return self._table.unread


def open_tables(
    names: Sequence[str], *, where: str | None = None, query: str | None = None, skip_bad_rows: bool = False
) -> TableFile:
    """Open one table: of files (paths, folders, patterns or URLs), a Delta or Iceberg table, or a query to a database.

    Parameters
    ----------
    names
        At least one: see :func:`~monitor.sources.stored_files.list_parts`. Or the one Delta or Iceberg table, or the
        URL of the database.
    where
        The condition that rows must meet: see :class:`~monitor.sources.row_filter.RowFilter`.
    query
        The query, of a database.
    skip_bad_rows
        Whether rows that cannot be read are left out.

    Raises
    ------
    InputError
        Nothing is there, a file is of no known format, or the condition cannot be read.
    """
    condition = None if where is None else RowFilter(where)
    table = _open(names, query, skip_bad_rows=skip_bad_rows)
    return table if condition is None else FilteredTable(table, condition)


def _open(names: Sequence[str], query: str | None, *, skip_bad_rows: bool) -> TableFile:
    if query is not None:
        if len(names) > 1:
            raise OptionError(Option.QUERY, f" goes to one database, got {len(names)} names")
        from monitor.sources.sql_query import open_query  # noqa: PLC0415 - SQLAlchemy takes a while to load

        return open_query(names[0], query)
    if len(names) == 1 and is_one_path(names[0]):
        return open_table(Path(names[0]), skip_bad_rows=skip_bad_rows)
    lake_table = open_lake_table(names[0]) if len(names) == 1 else None
    if lake_table is not None:
        return lake_table
    return DataSet(describe(names), list(parts_of(names)), skip_bad_rows=skip_bad_rows)
