"""Kinds of arguments: what numba's type of a value depends on, read from the value without numba.

Each kind of arguments has machine code of its own, which :mod:`monitor.compiled.kept` names by them.
"""

from functools import cache
from typing import Any, Final

import numpy as np

_INT64: Final = np.iinfo(np.int64)
_SCALARS: Final = {bool: "bool", float: "float64", np.bool_: "bool"} | {
    np.dtype(code).type: np.dtype(code).name for code in "bBhHiIlLqQfd"
}

Kind = tuple[Any, ...] | str
"""For an array, its type of elements, number of axes, layout, and whether it can be written."""


def kinds_of(values: tuple[Any, ...]) -> tuple[Kind | None, ...]:
    """Kinds of arguments; None for one that only numba knows."""
    return tuple([kind_of(value) for value in values])


@cache
def kind_of_elements(dtype: np.dtype[Any]) -> Kind:
    """Kind of the elements of an array: of records, their fields and where they stand."""
    if dtype.fields is None:
        return dtype.str
    fields = [(name, kind_of_elements(of), at) for name, (of, at, *_) in dtype.fields.items()]
    return (*fields, dtype.itemsize, dtype.isalignedstruct)


def kind_of(value: Any) -> Kind | None:
    """Kind of one argument; None if only numba knows it."""
    cls = type(value)
    if cls is np.ndarray:
        dtype, flags = value.dtype, value.flags
        if dtype.hasobject:
            return None
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return kind_of_elements(dtype), value.ndim, layout, flags.writeable
    if cls is int:
        return "int64" if _INT64.min <= value <= _INT64.max else None
    scalar = _SCALARS.get(cls)
    if scalar is not None:
        return scalar
    if isinstance(value, tuple):
        inner = kinds_of(value)
        return None if None in inner else (cls.__module__, cls.__qualname__, getattr(value, "_fields", ()), *inner)
    return "generator" if cls is np.random.Generator else None
