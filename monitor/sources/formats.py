"""Tables in files (CSV, Parquet, JSON lines; read piece by piece so that memory does not grow) and in memory."""

import csv
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from pyarrow import orc

from monitor.errors import InputError
from monitor.scores.arguments import require_same_index
from monitor.sources.row_filter import RowFilter
from monitor.sources.stored_files import PACKED, RemoteFile, StoredFile, open_bytes

_ROWS: Final = 1 << 16
_MEMORY_ROWS: Final = 1 << 20
_CSV_BLOCK_BYTES: Final = 1 << 20
"""Text that is parsed at a time: with more, memory is taken from the system and given back all the time."""
_LONGEST_ROW_BYTES: Final = 1 << 22
_IS_LONGER: Final = "straddles two block boundaries"
"""Part of Arrow's message about a row that is longer than a block."""
_HEADER_LINES: Final = 1000
"""The columns of JSON lines are the keys of so many first lines, as objects may leave keys out."""

_BY_ARROW: Final = (".csv", ".tsv", ".gz")
"""Endings of text that Arrow opens itself, which is faster."""
_NO_NUMBER: Final = re.compile(rb":\s*-?(?:NaN|Infinity)\b")

Pieces = Iterator[Sequence[pa.Array]]
"""Consecutive rows: one array for each requested column, in that order."""


class TableFile(ABC):
    """A table in a file, or in memory.

    Parameters
    ----------
    path
        The file.
    skip_bad_rows
        Whether rows that cannot be read are left out, in a format of separate rows.

    Attributes
    ----------
    name
        What messages call it.
    share
        Share of it that has been read, in [0, 1]; None where that is unknown.
    """

    share: float | None = None
    empty = "the file has columns and no rows"
    """The message where there are no rows."""

    def __init__(self, path: StoredFile, *, skip_bad_rows: bool = False) -> None:
        self.name = str(path)
        self._path = path
        self._skips = skip_bad_rows
        self._unread: dict[int, str] = {}
        """Row or line that is left out -> why it could not be read."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def names(self) -> list[str]:
        """The names of its columns."""

    @abstractmethod
    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, piece by piece, in the types that they have."""

    def filtered_pieces(self, columns: Sequence[str], where: RowFilter) -> Pieces:
        """The rows of these columns that meet a condition, on these columns or others."""
        names = list(dict.fromkeys((*columns, *where.columns)))
        for arrays in self.pieces(names):
            yield from where.select(names, arrays, columns)

    def place(self, row: int) -> str:
        """How a person finds a row, counted from 1: the line of a text file, as editors count, header included."""
        return f"row {row}"

    @property
    def unread(self) -> tuple[int, str]:
        """Number of unreadable rows that were left out, if that was requested; why, and where the first is."""
        return 0, ""


def first_repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs twice."""
    counts = Counter(names)
    return next((name for name in names if counts[name] > 1), None)


class CsvFile(TableFile):
    """Comma-separated values, or another separator that the header shows; every value is read as text."""

    def __init__(self, path: StoredFile, *, skip_bad_rows: bool = False) -> None:
        super().__init__(path, skip_bad_rows=skip_bad_rows)
        with open_bytes(path) as file:
            text = io.TextIOWrapper(file, "utf-8", errors="replace")
            lines = iter(lambda: text.readline(_LONGEST_ROW_BYTES), "")
            header = next((line for line in lines if line.strip()), "")
        if len(header) == _LONGEST_ROW_BYTES:
            raise InputError(
                f"{path}: its first line, which must name the columns, is longer than {_LONGEST_ROW_BYTES:,} "
                "characters: keep fewer columns, or convert it to Parquet"
            )
        # A quoted name may contain another separator: the most frequent one counts.
        self.delimiter = max(",;\t|", key=header.count)

    def names(self) -> list[str]:
        """The columns of the header."""
        # Not by Arrow, which infers the types of all columns, at 9 kB each.
        with open_bytes(self._path) as file:
            rows = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=self.delimiter)
            try:
                names = next((fields for fields in rows if fields), [])
            except csv.Error as error:
                raise InputError(f"{self._path}: the names of its columns cannot be read: {error}") from error
        if not names:
            raise InputError(f"{self._path}: holds no table; its first line must name the columns")
        repeated = first_repeated(names)
        if repeated is not None:
            raise InputError(f"{self._path}: column {repeated!r} occurs twice in the header; rename one of them")
        return names

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, as text; an empty field is null."""
        convert = pa_csv.ConvertOptions(
            include_columns=list(columns),
            column_types={name: pa.string() for name in columns},
            # NA may be a region: each column decides what else means "missing".
            null_values=[""],
            strings_can_be_null=True,
        )
        rows = 0
        try:
            for batch in self._open(convert, _CSV_BLOCK_BYTES):
                rows += len(batch)
                yield batch.columns
        except pa.ArrowInvalid as error:
            if _IS_LONGER not in str(error):
                raise
            # A long row: go on behind the rows so far.
            for batch in self._open(convert, _LONGEST_ROW_BYTES):
                if len(batch) > rows:
                    yield batch.slice(rows).columns
                rows = max(rows - len(batch), 0)

    def place(self, row: int) -> str:
        """The line on which a row begins: quoted fields may span lines, and empty lines do not count."""
        number = row + 1  # the header is the first
        for unread in sorted(self._unread):
            number += unread <= number
        return self._line(number) or f"row {row}"

    @property
    def unread(self) -> tuple[int, str]:
        """Rows with too many fields, or too few."""
        if not self._unread:
            return 0, ""
        number, why = min(self._unread.items())
        return len(self._unread), why.format(self._line(number) or f"row {number}")

    def _line(self, number: int) -> str:
        """The line on which a row begins, the header being row 1; empty if unknown."""
        with open_bytes(self._path) as file:
            text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
            lines = csv.reader(text, delimiter=self.delimiter)
            rows, line = 0, 1
            with suppress(csv.Error):  # a field is longer than this reader allows
                for fields in lines:
                    rows += bool(fields)
                    if rows == number:
                        return f"line {line}"
                    line = lines.line_num + 1
        return ""

    def _skip(self, row: pa_csv.InvalidRow) -> str:
        fields = f"rows must have {row.expected_columns} fields; the first is {{}}, got {row.actual_columns}"
        self._unread[row.number] = fields
        return "skip"

    def _open(self, convert: pa_csv.ConvertOptions, block_bytes: int) -> pa_csv.CSVStreamingReader:
        by_arrow = isinstance(self._path, Path) and self._path.suffix.lower() in _BY_ARROW
        return pa_csv.open_csv(
            str(self._path) if by_arrow else open_bytes(self._path),
            # One thread, because only then does Arrow say in which row a line has too many fields.
            read_options=pa_csv.ReadOptions(block_size=block_bytes, use_threads=False),
            parse_options=pa_csv.ParseOptions(
                delimiter=self.delimiter, invalid_row_handler=self._skip if self._skips else None
            ),
            convert_options=convert,
        )


class ParquetFile(TableFile):
    """Apache Parquet."""

    def names(self) -> list[str]:
        """The columns of its schema."""
        with pq.ParquetFile(self._opened()) as file:
            names: list[str] = file.schema_arrow.names
        repeated = first_repeated(names)
        if repeated is not None:
            raise InputError(f"{self._path}: has two columns {repeated!r}; rename one of them")
        return names

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the types that they have."""
        # Requests to a store are joined ahead; a local file would only be held in memory, whole.
        ahead = isinstance(self._path, RemoteFile)
        with pq.ParquetFile(self._opened(), pre_buffer=ahead, page_checksum_verification=True) as file:
            done, rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(columns))):
                done += len(batch)
                self.share = done / rows
                yield [batch.column(name) for name in columns]

    def filtered_pieces(self, columns: Sequence[str], where: RowFilter) -> Pieces:
        """The rows of these columns that meet a condition; row groups without such rows are not read."""
        import pyarrow.dataset as pa_dataset  # noqa: PLC0415 - it loads pandas, where that is installed

        file = self._path if isinstance(self._path, RemoteFile) else RemoteFile(pa_fs.LocalFileSystem(), self.name, "")
        fragment = pa_dataset.ParquetFileFormat().make_fragment(file.path, file.filesystem)
        condition = where.expression(fragment.physical_schema)
        names = list(dict.fromkeys(columns))
        options = pa_dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        ahead = {"batch_size": _ROWS, "batch_readahead": 2, "fragment_scan_options": options}
        for batch in fragment.to_batches(columns=names, filter=condition, **ahead):
            yield [batch.column(name) for name in columns]

    def _opened(self) -> Any:
        return self._path.open() if isinstance(self._path, RemoteFile) else self._path


class OrcFile(TableFile):
    """Apache ORC."""

    def names(self) -> list[str]:
        """The columns of its schema."""
        with self._opened() as file:
            names: list[str] = orc.ORCFile(file).schema.names
        return names

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, stripe by stripe, in the types that they have."""
        with self._opened() as file:
            table = orc.ORCFile(file)
            for stripe in range(table.nstripes):
                batch = table.read_stripe(stripe, columns=list(dict.fromkeys(columns)))
                self.share = (stripe + 1) / table.nstripes
                yield [batch.column(name) for name in columns]

    def _opened(self) -> Any:
        return self._path.open("rb")


class _RecordsFile(TableFile):
    """A file of rows, one after the other."""

    @abstractmethod
    def _rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows, as mappings; a column that a row leaves out is null there."""

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the types that they have."""
        rows = self._rows()
        while piece := list(islice(rows, _ROWS)):
            yield [array_of([row.get(name) for row in piece]) for name in columns]


class AvroFile(_RecordsFile):
    """An object container of Avro, with the schema inside; logical types are read as they are."""

    def names(self) -> list[str]:
        """The fields of its record."""
        with self._path.open("rb") as file, self._reading():
            schema = self._reader(file).writer_schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise InputError(f"{self._path}: its rows must be records, got {schema}")
        return [field["name"] for field in schema["fields"]]

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        with self._path.open("rb") as file, self._reading():
            for row in self._reader(file):
                yield {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}

    def _reader(self, file: Any) -> Any:
        try:
            import fastavro  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise InputError(
                f"{self._path}: Avro needs the extra 'avro': pip install 'calibration-monitor[avro]'"
            ) from error
        return fastavro.reader(file)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file in errors of fastavro, which have no type in common."""
        try:
            yield
        except (ArithmeticError, EOFError, IndexError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{self._path}: cannot be read: {str(error) or type(error).__name__}; is it whole, and an object "
                "container of Avro?"
            ) from error


class JsonLinesFile(_RecordsFile):
    """JSON, one object a line; a key that an object leaves out is null there."""

    def names(self) -> list[str]:
        """The keys of the first objects, in the order in which they appear."""
        return list(dict.fromkeys(key for row in islice(self._rows(), _HEADER_LINES) for key in row))

    def place(self, row: int) -> str:
        """The line of a row; empty lines do not count."""
        with open_bytes(self._path) as file:
            lines = enumerate(file, start=1)
            numbers = (number for number, line in lines if line.strip() and number not in self._unread)
            return f"line {next(islice(numbers, row - 1, None))}"

    @property
    def unread(self) -> tuple[int, str]:
        """Lines that hold no JSON object."""
        number, why = min(self._unread.items(), default=(0, ""))
        return len(self._unread), f"lines must hold a JSON object; the first is line {number}: {why}"

    def _rows(self) -> Iterator[dict[str, Any]]:
        decode = msgspec.json.Decoder(dict[str, Any]).decode
        with open_bytes(self._path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = decode(line)
                except msgspec.DecodeError as error:
                    if self._skips:
                        self._unread[number] = str(error)
                        continue
                    hint = "; one JSON object a line is read, not one list" if line.lstrip()[:1] == b"[" else ""
                    if _NO_NUMBER.search(line):
                        hint = "; NaN and Infinity are not numbers of JSON: write null where a value is missing"
                    raise InputError(f"{self._path}: line {number} is not a JSON object: {error}{hint}") from error
                yield row


class MemoryTable(TableFile):
    """A table in memory, read like a file; only the requested columns are converted.

    Parameters
    ----------
    data
        pandas or polars DataFrame, pyarrow Table or RecordBatch, numpy structured array, or a mapping from name to
        array: anything with named columns, each available as ``data[name]``.

    Raises
    ------
    InputError
        It has no named columns, or two of one name.
    """

    def __init__(self, data: Any) -> None:
        names = _column_names(data)
        if names is None:
            raise InputError(
                f"a table must be a DataFrame, an Arrow table, or arrays by name, got {type(data).__name__}"
                f"{'; collect it first' if hasattr(data, 'collect') else ''}"
            )
        repeated = first_repeated(names)
        if repeated is not None:
            raise InputError(f"column {repeated!r} occurs twice in the table; rename one of them")
        require_same_index(table=data if isinstance(data, Mapping) else None)
        self._data = data
        self._by_text = {str(name): name for name in names}

    name = "the table"

    def names(self) -> list[str]:
        """The names of its columns, as text."""
        return list(self._by_text)

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the types that they have."""
        arrays = {name: self._array(name) for name in dict.fromkeys(columns)}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of the table must be equally long, got {lengths}")
        for batch in pa.table(arrays).to_batches(max_chunksize=_MEMORY_ROWS):
            yield [batch.column(name) for name in columns]

    def place(self, row: int) -> str:
        """Rows are counted from 0, as Python does."""
        return f"row {row - 1}"

    def _array(self, name: str) -> pa.Array | pa.ChunkedArray:
        try:
            return _arrow_array(self._data[self._by_text[name]])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"the table: column {name!r} cannot be read: {error}") from error


_FORMATS: Final[Mapping[str, Callable[..., TableFile]]] = {
    ".csv": CsvFile,
    ".tsv": CsvFile,
    ".parquet": ParquetFile,
    ".pq": ParquetFile,
    ".jsonl": JsonLinesFile,
    ".ndjson": JsonLinesFile,
    ".json": JsonLinesFile,
    ".orc": OrcFile,
    ".avro": AvroFile,
}
_TEXT: Final = (CsvFile, JsonLinesFile)


def is_table(data: object) -> bool:
    """Whether data has named columns: a DataFrame, an Arrow table, a structured array, or arrays by name."""
    return _column_names(data) is not None


def table_bytes(table: pa.Table, path: Path) -> bytes:
    """A table as a file: Parquet if its name ends so, CSV otherwise."""
    target = io.BytesIO()
    (pq.write_table if path.suffix.lower() == ".parquet" else pa_csv.write_csv)(table, target)
    return target.getvalue()


def open_table(path: StoredFile, *, skip_bad_rows: bool = False) -> TableFile:
    """The table in a file, whose format follows from the ending of its name.

    Parameters
    ----------
    path
        The file.
    skip_bad_rows
        Whether rows that cannot be read are left out, in a format of separate rows.

    Raises
    ------
    InputError
        There is no such file, or the ending of its name is unknown.
    """
    file_class = format_of(path)
    if not path.is_file():
        raise InputError(f"{path}: {'is a directory' if path.is_dir() else 'no such file'}; name a file that is there")
    return file_class(path, skip_bad_rows=skip_bad_rows)


def format_of(path: StoredFile) -> Callable[..., TableFile]:
    """The class of a file's format, by the ending of its name.

    Raises
    ------
    InputError
        The ending of its name is unknown.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    plain = suffixes[:-1] if suffixes and suffixes[-1] in PACKED else suffixes
    file_class = _FORMATS.get(plain[-1]) if plain else None
    if file_class is None or (file_class not in _TEXT and plain != suffixes):
        raise InputError(
            f"{path}: files ending in {', '.join(_FORMATS)} are read (text also with {', '.join(PACKED)} behind); "
            "rename or convert it"
        )
    return file_class


def _arrow_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column of a table in memory as an Arrow array; as text if its values have several types."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        return pa.chunked_array(values)  # polars
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.array(list(values))
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return array_of(list(values))


def _column_names(data: Any) -> list[Any] | None:
    """The columns of a table; None for anything else, also for a single column."""
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, np.ndarray):
        return None if data.dtype.names is None else list(data.dtype.names)
    # Listing the columns of a lazy table may cost as much as reading its rows.
    if not hasattr(data, "__getitem__") or hasattr(data, "collect"):
        return None
    # pyarrow's ``columns`` are arrays; the names are in ``column_names``.
    names = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if isinstance(data, pa.RecordBatch):
        names = data.schema.names
    return None if names is None else list(names)


def array_of(values: list[Any]) -> pa.Array:
    """Values as one array; as text if they have several types."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # like in a CSV file
        return pa.array(
            [
                value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
                for value in values
            ]
        )
