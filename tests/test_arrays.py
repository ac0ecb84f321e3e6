"""Numbers of Arrow arrays, as Arrow itself gives them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.arrays import from_arrow

numbers = st.lists(st.one_of(st.none(), st.floats(allow_nan=False, width=32)), max_size=40)


@given(numbers, st.integers(0, 40), st.integers(0, 40))
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_numbers_come_from_arrow_wherever_a_slice_begins(
    kind: pa.DataType, values: list[float | None], begin: int, length: int
) -> None:
    array = pa.array(values, kind)[begin : begin + length]
    found = from_arrow(array, np.nan)
    assert found.dtype == kind.to_pandas_dtype()
    np.testing.assert_array_equal(found, array.to_numpy(zero_copy_only=False))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=40), st.integers(0, 40))
def test_integers_stay_exact_beside_those_that_are_missing(values: list[int | None], begin: int) -> None:
    array = pa.array(values, pa.int64())[begin:]
    assert from_arrow(array, -1).tolist() == [-1 if value is None else value for value in values[begin:]]
