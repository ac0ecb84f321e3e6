"""Delta and Iceberg tables, read by their own libraries, deltalake and pyiceberg: extras of this package."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pa_fs

from monitor.errors import InputError
from monitor.sources.formats import Pieces, TableFile
from monitor.sources.row_filter import RowFilter
from monitor.sources.stored_files import CATALOG, DELTA_LOG, METADATA_ENDING, METADATA_FOLDER, describe, locate, naming

_BATCH_ROWS: Final = 1 << 16
_VERSION: Final = re.compile(r"v?(\d+)")


class DeltaTable(TableFile):
    """The latest version of a Delta table.

    Parameters
    ----------
    location
        Folder or URL.

    Raises
    ------
    InputError
        deltalake is not installed, or cannot read the table.
    """

    def __init__(self, location: str) -> None:
        self.name = describe([location])
        with _reading(self.name, "delta"):
            import deltalake  # noqa: PLC0415 - an extra

            self._rows = deltalake.DeltaTable(location).to_pyarrow_dataset()

    def names(self) -> list[str]:
        """The columns of its schema."""
        names: list[str] = self._rows.schema.names
        return names

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, file by file."""
        return self._pieces(columns, None)

    def filtered_pieces(self, columns: Sequence[str], where: RowFilter) -> Pieces:
        """The rows of these columns that meet a condition; files without such rows are not read."""
        return self._pieces(columns, where.expression(self._rows.schema))

    def _pieces(self, columns: Sequence[str], condition: Any) -> Pieces:
        names = list(dict.fromkeys(columns))
        # Few batches and files ahead: the memory of row groups counts.
        ahead = {"batch_size": _BATCH_ROWS, "batch_readahead": 2, "fragment_readahead": 1}
        for batch in self._rows.to_batches(columns=names, filter=condition, **ahead):
            yield [batch.column(name) for name in columns]


class IcebergTable(TableFile):
    """The current snapshot of an Iceberg table.

    Parameters
    ----------
    location
        ``iceberg://CATALOG/NAMESPACE.TABLE``, of a catalog that pyiceberg is configured for; or a metadata file
        (``.metadata.json``).

    Raises
    ------
    InputError
        pyiceberg is not installed, or cannot read the table.
    """

    def __init__(self, location: str) -> None:
        self.name = describe([location])
        with _reading(self.name, "iceberg"):
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra
            from pyiceberg.table import StaticTable  # noqa: PLC0415

            if location.startswith(CATALOG):
                catalog, _, table = location.removeprefix(CATALOG).partition("/")
                self._table: Any = load_catalog(catalog).load_table(table)
            else:
                self._table = StaticTable.from_metadata(location)

    def names(self) -> list[str]:
        """The columns of its schema."""
        return [field.name for field in self._table.schema().fields]

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, file by file."""
        return self._pieces(columns, None)

    def filtered_pieces(self, columns: Sequence[str], where: RowFilter) -> Pieces:
        """The rows of these columns that meet a condition; files without such rows are not read."""
        names = list(dict.fromkeys((*columns, *where.columns)))
        for arrays in self._pieces(names, where):
            yield from where.select(names, arrays, columns)

    def _pieces(self, columns: Sequence[str], where: RowFilter | None) -> Pieces:
        from pyiceberg.expressions import AlwaysTrue, And  # noqa: PLC0415 - an extra

        names = tuple(dict.fromkeys(columns))
        with _reading(self.name, "iceberg"):
            bounds = () if where is None else (self._bound(*bound) for bound in where.bounds())
            conditions: list[Any] = [AlwaysTrue(), *(bound for bound in bounds if bound is not None)]
            scan = self._table.scan(row_filter=reduce(And, conditions), selected_fields=names)
            for batch in scan.to_arrow_batch_reader():
                yield [batch.column(name) for name in columns]

    def _bound(self, column: str, sign: str, value: float | str) -> Any:
        """A condition of pyiceberg, which skips files by it; None where types differ."""
        from pyiceberg import expressions, types  # noqa: PLC0415 - an extra

        kind = self._table.schema().find_type(column)
        build: Callable[[str, Any], Any] = {
            "=": expressions.EqualTo,
            "<": expressions.LessThan,
            "<=": expressions.LessThanOrEqual,
            ">": expressions.GreaterThan,
            ">=": expressions.GreaterThanOrEqual,
        }[sign]
        if isinstance(value, str) and isinstance(kind, types.TimestampType | types.TimestamptzType):
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
            text = moment.isoformat(timespec="microseconds")
            return build(column, text if isinstance(kind, types.TimestamptzType) else text.removesuffix("+00:00"))
        fits = types.StringType if isinstance(value, str) else types.DoubleType
        return build(column, value) if isinstance(kind, fits) else None


def open_lake_table(name: str) -> TableFile | None:
    """Open the Delta or Iceberg table that a name stands for; None if it is neither.

    An Iceberg table is named by its catalog, its metadata file, or its folder, whose newest metadata are taken.

    Raises
    ------
    InputError
        Its library is not installed, the table cannot be read, or it is not certain which metadata are the newest.
    """
    if name.startswith(CATALOG) or name.endswith(METADATA_ENDING):
        return IcebergTable(name)
    try:
        filesystem, path = locate(name)
    except (pa.ArrowException, ValueError):
        return None  # who lists its files says what is wrong
    with naming(describe([name])):
        return _open_found(name, filesystem, path)


def _open_found(name: str, filesystem: pa_fs.FileSystem, path: str) -> TableFile | None:
    """The Delta or Iceberg table in a folder, if it is one."""
    if filesystem.get_file_info(f"{path}/{DELTA_LOG}").type == pa_fs.FileType.Directory:
        return DeltaTable(name)
    selector = pa_fs.FileSelector(f"{path}/{METADATA_FOLDER}", allow_not_found=True)
    metadata = [info.base_name for info in filesystem.get_file_info(selector) if info.path.endswith(METADATA_ENDING)]
    if not metadata:
        return None
    numbers = [int(match[1]) if (match := _VERSION.match(file)) else -1 for file in metadata]
    newest = [file for file, number in zip(metadata, numbers, strict=True) if number == max(numbers)]
    if len(newest) > 1:
        raise InputError(
            f"{describe([name])}: is an Iceberg table with {len(newest)} metadata files of one version; name the one "
            f"that its catalog has ({METADATA_FOLDER}/....{METADATA_ENDING}), or iceberg://CATALOG/NAMESPACE.TABLE"
        )
    table = IcebergTable(f"{name.rstrip('/')}/{METADATA_FOLDER}/{newest[0]}")
    table.name = describe([name])
    return table


@contextmanager
def _reading(name: str, extra: str) -> Iterator[None]:
    """Name the table in errors of its library."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{name}: {extra.capitalize()} tables need the extra {extra!r}: pip install 'calibration-monitor[{extra}]'"
        ) from error
    except InputError:
        raise
    except Exception as error:  # these libraries have no error in common, and each reads over a network
        raise InputError(
            f"{name}: cannot be read: {str(error).partition(chr(10))[0] or type(error).__name__}"
        ) from error
