"""Checks of callers' arrays and options, and how messages show their values."""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError

_MAX_LISTED: Final = 50


def number_text(value: float) -> str:
    """A number with as many digits as it needs to be exact: 1.0000001 is not shown as 1."""
    return repr(float(value)).removesuffix(".0")


def sum_text(values: Iterable[float]) -> str:
    """The sum of a few numbers, without rounding errors."""
    return number_text(round(math.fsum(values), 9))


def numbers(name: str, values: ArrayLike) -> Floats:
    """Convert values to float64 of any shape; masked values become nan.

    Raises
    ------
    InputError
        They are not real numbers. The message names the argument.
    """
    try:
        kind = np.asarray(values).dtype.kind
        if kind == "c":
            raise InputError(f"{name} must be real numbers, got complex ones")
        if kind in "mM":
            raise InputError(f"{name} must be numbers, got datetimes or durations")
        array = np.asarray(values, np.float64)
        return np.where(np.ma.getmaskarray(values), np.nan, array) if isinstance(values, np.ma.MaskedArray) else array
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from error


def listed(names: Sequence[str]) -> str:
    """Names in quotes, the first fifty of them."""
    return (", ".join(map(repr, names[:_MAX_LISTED])) or "none") + (", ..." if len(names) > _MAX_LISTED else "")


def require_choice(key: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise InputError unless the option is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{key} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def require_positive(key: str, value: float) -> None:
    """Raise InputError unless the option is a finite number above 0."""
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(f"{key} must be a finite number above 0, got {value!r}")


def require_whole(key: str, value: int, minimum: int) -> int:
    """The option as an int; raises InputError unless it is a whole number of at least ``minimum``."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = minimum - 1
    if whole < minimum:
        raise InputError(f"{key} must be a whole number of at least {minimum}, got {value!r}")
    return whole


def require_same_index(**arrays: Any) -> None:
    """Raise InputError if two arrays of the same rows have different indexes.

    A pandas Series has an index. Arrays are paired by position, so different indexes would silently pair rows of
    different events. Arrays without an index are not checked.

    Parameters
    ----------
    arrays
        By the caller's names; None for an array that is left out, a mapping for several by name.
    """
    first: tuple[str, Any] | None = None
    for name, values in _single(arrays):
        index = _index(values)
        if index is None:
            continue
        if first is None:
            first = name, index
        elif not index.equals(first[1]):
            one = first[0]
            raise InputError(
                f"{one} and {name} have different indexes, and rows are paired by position: pass "
                f"{name}.loc[{one}.index] to pair them by index, or {one}.to_numpy() and {name}.to_numpy() if their "
                "rows are in the same order"
            )


def _single(arrays: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, values in arrays.items():
        if isinstance(values, Mapping):
            yield from ((f"{name}[{key!r}]", column) for key, column in values.items())
        else:
            yield name, values


def _index(values: Any) -> Any:
    """The index of a pandas object, or None; the ``index`` of a list is a method."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") else None
