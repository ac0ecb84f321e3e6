"""A table in memory: a DataFrame, an Arrow table, or arrays by name."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from monitor.errors import InputError
from monitor.scores.arguments import require_same_index
from monitor.sources.formats import Pieces, array_of

_ROWS: Final = 1 << 20


def is_table(data: object) -> bool:
    """Tell whether data has named columns: a DataFrame, an Arrow table, a structured array, or arrays by name."""
    return _column_names(data) is not None


class MemoryTable:
    """A table in memory, read like a file; only the columns that are asked for are converted.

    Its ``name`` is what messages call it.

    Parameters
    ----------
    data
        pandas or polars DataFrame, pyarrow Table or RecordBatch, numpy structured array, or a mapping from name to
        array: whatever has named columns, each of which ``data[name]`` gives.

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
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"column {twice!r} stands twice in the table; rename one of them")
        require_same_index(table=data if isinstance(data, Mapping) else None)
        self._data = data
        self._by_text = {str(name): name for name in names}

    name = "the table"

    def __str__(self) -> str:
        return self.name

    def names(self) -> list[str]:
        """The columns that it has, as text."""
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

    @property
    def unread(self) -> tuple[int, str]:
        """None: a column is read as a whole."""
        return 0, ""

    def _array(self, name: str) -> pa.Array | pa.ChunkedArray:
        try:
            return arrow_array(self._data[self._by_text[name]])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"the table: column {name!r} cannot be read: {error}") from error


def arrow_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow has it; where its values are of several types, as text.

    Raises
    ------
    ArrowException, TypeError, ValueError
        It is no column.
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
    """The columns of a table, and None of anything else, a single column among it."""
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, np.ndarray):
        return None if data.dtype.names is None else list(data.dtype.names)
    # To ask a lazy table for its columns may cost as much as its rows.
    if not hasattr(data, "__getitem__") or hasattr(data, "collect"):
        return None
    # pyarrow's columns are arrays, and their names stand elsewhere.
    names = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if isinstance(data, pa.RecordBatch):
        names = data.schema.names
    return None if names is None else list(names)
