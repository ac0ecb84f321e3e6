"""Types of arrays, how they come from Arrow's, and groups of their rows."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def from_arrow(array: "pa.Array", missing: float = 0) -> NDArray[Any]:
    """The numbers of an Arrow array, and another one where there is none; read-only.

    Arrow's own to_numpy() and fill_null() import pandas where it is installed.
    """
    kind, (valid, numbers) = np.dtype(array.type.to_pandas_dtype()), array.buffers()
    if not len(array):
        return np.empty(0, kind)
    result = np.frombuffer(numbers, kind, len(array), array.offset * kind.itemsize)
    if array.null_count:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
        result = np.where(bits[array.offset : array.offset + len(array)], result, np.array(missing, kind))
    return result


def grouped(*keys: Ints | NDArray[np.int32]) -> tuple[Ints, list[int]]:
    """Sort rows by their keys, the most significant first; rows of equal keys keep their order.

    Parameters
    ----------
    keys
        Shape (n,) each.

    Returns
    -------
    order
        Places of the rows, shape (n,).
    cuts
        Where each group of equal keys begins in this order, and n.
    """
    order = np.lexsort(keys[::-1])
    changes = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
    return order, [0, *(np.flatnonzero(changes) + 1).tolist(), order.size] if order.size else [0]
