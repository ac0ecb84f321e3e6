"""Checks of arrays that callers pass, and how their values are shown in messages."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from monitor.errors import InputError


def number_text(value: float) -> str:
    """A number with the fewest digits that tell it from all others: 1.0000001 does not read 1."""
    return repr(float(value)).removesuffix(".0")


def sum_text(values: Iterable[float]) -> str:
    """The sum of a few numbers, without the digits that rounding adds."""
    return number_text(round(math.fsum(values), 9))


def require_same_index(**arrays: Any) -> None:
    """Raise InputError if two arrays of the same rows have different indexes.

    A Series of pandas, and what is made like it, names its rows. Arrays are paired by position: where the names differ,
    rows of different events would be paired without a word. What has no index is paired by position.

    Parameters
    ----------
    arrays
        By the names that the caller knows them by; None for one that is left out, a mapping for several by name.
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
            yield from ((f"{name}[{key!r}]", each) for key, each in values.items())
        else:
            yield name, values


def _index(values: Any) -> Any:
    """The names of the rows, or None; the ``index`` of a list is a method."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") else None
