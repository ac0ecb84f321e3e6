"""What is read from a value is what numba's type of it says, and values of other types are of other kinds."""

from typing import Any, Final, NamedTuple

import numba
import numpy as np
import pytest

from monitor.compiled.cache import kind_of_type
from monitor.compiled.kinds import kind_of


class Pair(NamedTuple):
    first: Any
    second: Any


class Swapped(NamedTuple):
    second: Any
    first: Any


def read_only() -> Any:
    array = np.zeros(3)
    array.setflags(write=False)
    return array


ROW: Final = np.dtype([("at", np.int64), ("kind", np.int8)])
VALUES: Final = {
    **{str(code): np.zeros(3, code) for code in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")},
    "two axes": np.zeros((3, 4)),
    "columns": np.zeros((3, 4)).T,
    "steps": np.zeros(8)[::2],
    "one row of columns": np.zeros((1, 4)).T,
    "read only": read_only(),
    "not aligned": np.zeros(17, np.uint8)[1:].view(np.float64),
    "rows": np.zeros(3, ROW),
    "aligned rows": np.zeros(3, np.dtype(ROW, align=True)),
    "other fields": np.zeros(3, [("at", np.int64), ("sort", np.int8)]),
    "truth": True,
    "int": 1,
    "float": 1.0,
    "u4 alone": np.uint32(1),
    "f4 alone": np.float32(1.0),
    "generator": np.random.default_rng(1),
    "tuple": (1, 2.0),
    "pair": Pair(1, np.zeros(3)),
    "swapped": Swapped(1, np.zeros(3)),
}
UNKNOWN: Final = {
    "text": "a",
    "none": None,
    "large": 2**63,
    "list": [1],
    "set of objects": np.array([None]),
    "in": (1, "a"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_kind_is_that_of_numbas_type(name: str) -> None:
    value = VALUES[name]
    kind = kind_of(value)
    assert kind is not None
    assert kind == kind_of_type(numba.typeof(value))
    for other in VALUES.values():
        assert (kind == kind_of(other)) is (numba.typeof(value) == numba.typeof(other))


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_only_numba_knows_has_no_kind(name: str) -> None:
    assert kind_of(UNKNOWN[name]) is None


def test_numbers_of_numpy_are_those_of_python() -> None:
    assert kind_of(np.int64(1)) == kind_of(1)
    assert kind_of(np.float64(1.0)) == kind_of(1.0)
    assert kind_of(np.bool_(1)) == kind_of(True)
