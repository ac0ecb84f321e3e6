"""The heap beside the standard library's."""

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.measures.heap_loops import pop, push

keys = st.integers(-5, 5).map(float) | st.floats(-1e6, 1e6)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@given(work=st.lists(keys | st.none(), max_size=60))
def test_the_largest_key_is_on_top_whatever_comes_and_goes(dtype: type, work: list[float | None]) -> None:
    key = np.zeros(60)
    load: NDArray[Any] = np.zeros(60, dtype)
    came: list[float] = []
    expected: list[float] = []
    for step in work:
        size = len(expected)
        if step is not None:
            push(key, load, size, step, len(came))
            came.append(step)
            heapq.heappush(expected, -step)
        elif size:
            pop(key, load, size)
            heapq.heappop(expected)
        held = sorted(key[: len(expected)], reverse=True)
        assert held == sorted((-each for each in expected), reverse=True)
        if expected:
            assert key[0] == -expected[0]
        # Every key still carries what it came with.
        assert [came[int(each)] for each in load[: len(expected)]] == key[: len(expected)].tolist()
