"""A table in memory: a DataFrame, an Arrow table, or arrays by name."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from monitor.errors import InputError
from monitor.scores.arguments import require_same_index
from monitor.sources.formats import Pieces, TableFile, array_of, first_repeated

_ROWS: Final = 1 << 20


def is_table(data: object) -> bool:
    """Whether data has named columns: a DataFrame, an Arrow table, a structured array, or arrays by name."""
    return _column_names(data) is not None


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

    def __str__(self) -> str:
        return self.name

    def names(self) -> list[str]:
        """The names of its columns, as text."""
        return list(self._by_text)

    def pieces(self, columns: Sequence[str]) -> Pieces:
        """The rows of these columns, in the types that they have."""
        arrays = {name: self._array(name) for name in dict.fromkeys(columns)}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of the table must be equally long, got {lengths}")
        for batch in pa.table(arrays).to_batches(max_chunksize=_ROWS):
            yield [batch.column(name) for name in columns]

    def place(self, row: int) -> str:
        """Rows are counted from 0, as Python does."""
        return f"row {row - 1}"

    def _array(self, name: str) -> pa.Array | pa.ChunkedArray:
        try:
            return arrow_array(self._data[self._by_text[name]])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"the table: column {name!r} cannot be read: {error}") from error


def arrow_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column as an Arrow array; as text if its values have several types.

    Raises
    ------
    ArrowException, TypeError, ValueError
        It is not a column.
    """
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
