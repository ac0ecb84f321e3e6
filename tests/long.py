"""Long forms of tests, which `make test-long` runs beside the short ones of every run."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

Value = TypeVar("Value")
Test = TypeVar("Test", bound=Callable[..., Any])

LONG: Final = "LONG_FORMS" in os.environ
"""Whether this is `make test-long`."""


def short_of(values: Sequence[object], count: int) -> list[Any]:
    """All values for ``parametrize``: the first few in the short form, the others in the long one alone."""
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.long) for value in values[count:])]


def short_rows(rows: Sequence[tuple[object, ...]], count: int) -> list[Any]:
    """The same for several names at once."""
    return [*rows[:count], *(pytest.param(*row, marks=pytest.mark.long) for row in rows[count:])]


sqlite_first = pytest.mark.parametrize(
    "store_url",
    ["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgres, pytest.mark.long])],
    indirect=True,
)
"""On SQLite in the short form, and on PostgreSQL in the long one: for what other tests show of both."""


def longer(short: Value, long: Value) -> Value:
    """How much a test does in either form; mark it with ``longer``, for `make test-long` to run it again."""
    return long if LONG else short


def examples(short: int, long: int) -> Callable[[Test], Test]:
    """So many examples of a property in either form."""

    def marked(test: Test) -> Test:
        chosen: Test = pytest.mark.longer(settings(max_examples=longer(short, long))(test))
        return chosen

    return marked
