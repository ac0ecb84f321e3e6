"""Column tables that grow, for the compiled loops."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from monitor.stream.table_loops import COUNT, FREE_HEAD, META, USED, slots_for, transfer

View = TypeVar("View")

_GROWTH: Final = 1.25
"""Untouched memory costs nothing, so this bounds what must fit beside the old column while it is copied."""


class GrowingTable(Generic[View]):
    """Columns with an optional hash index, passed to the compiled loops as a named tuple.

    Parameters
    ----------
    view
        The named tuple: ``slots`` first if there is an index, then the columns, ``meta`` last.
    columns
        Name -> dtype, and shape of one row.
    indexed
        Whether the table has a hash index.
    """

    def __init__(
        self, view: Callable[..., View], columns: dict[str, tuple[DTypeLike, tuple[int, ...]]], *, indexed: bool = True
    ) -> None:
        self._make = view
        self._indexed = indexed
        self._slots = np.zeros(slots_for(0) if indexed else 0, np.uint64)
        self._columns = {name: np.empty((0, *shape), dtype) for name, (dtype, shape) in columns.items()}
        self._capacity = 0
        self._meta = np.zeros(META, np.int64)
        self._meta[FREE_HEAD] = -1
        self._view: View | None = None

    @property
    def rows(self) -> int:
        """Rows in use."""
        return int(self._meta[COUNT])

    @property
    def meta(self) -> NDArray[np.int64]:
        """Counts that the loops update; see the places in ``table_loops``."""
        return self._meta

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that have been in use, and of the index."""
        width = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in self._columns.values())
        return int(self._meta[USED]) * width + self._slots.nbytes

    def reserve(self, rows: int) -> View:
        """Make room for that many more rows; returns the named tuple for the loops."""
        wanted = self.rows + rows
        size = slots_for(wanted, self._slots.size) if self._indexed else 0
        if size > self._slots.size:
            self._view = None
            larger = np.zeros(size, np.uint64)
            transfer(self._slots, larger)
            self._slots = larger
        # Released rows are used first.
        wanted = max(wanted, int(self._meta[USED]))
        if wanted > self._capacity:
            self._view = None
            self._capacity = max(wanted, int(self._capacity * _GROWTH))
            used = int(self._meta[USED])
            for name, column in self._columns.items():
                longer = np.empty((self._capacity, *column.shape[1:]), column.dtype)
                longer[:used] = column[:used]
                self._columns[name] = longer  # one at a time, so that only one column is in memory twice
        if self._view is None:
            index = (self._slots,) if self._indexed else ()
            self._view = self._make(*index, *self._columns.values(), self._meta)
        return self._view
