"""Corrected p-values are those of scipy to the last digit."""

import numpy as np
import scipy
from hypothesis import given
from hypothesis import strategies as st

from monitor.reports.evaluation.segments import false_discovery_control


@given(st.lists(st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.01, 0.5, 1.0])), min_size=1, max_size=60))
def test_they_are_scipys(p_values: list[float]) -> None:
    assert np.array_equal(false_discovery_control(p_values), scipy.stats.false_discovery_control(p_values))
