"""The tests that TCE can ask for their verdicts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.measures import student_loops as student
from monitor.measures import verdict_loops as verdicts
from monitor.measures.tce_options import Test

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """A two-sided test of "P(Y = 1) = p" for many p, given the outcomes of their bins.

    Attributes
    ----------
    rejected
        (score (m,), starts (bins + 1,), positives (bins,), sizes (bins,), alpha) -> whether each is refuted, (m,).
    straddling
        (lower (m,), upper (m,), starts, positives, sizes, alpha) -> whether a row's predictions could differ, (m,).
    acceptance_limits
        (positives, sizes, alpha) -> the lowest and the highest p that is not refuted, (bins,) each.
    """

    rejected: Callable[[Floats, Ints, Ints, Ints, float], Bools]
    straddling: Callable[[Floats, Floats, Ints, Ints, Ints, float], Bools]
    acceptance_limits: Callable[[Ints, Ints, float], tuple[Floats, Floats]]


TESTS: Final[Mapping[Test, HypothesisTest]] = MappingProxyType(
    {
        "binomial": HypothesisTest(verdicts.rejected, verdicts.straddling, verdicts.acceptance_limits),
        "t": HypothesisTest(student.rejected, student.straddling, student.acceptance_limits),
        "t_published": HypothesisTest(
            partial(student.rejected, published=True),
            partial(student.straddling, published=True),
            partial(student.acceptance_limits, published=True),
        ),
    }
)
"""By the name that the option ``test`` of TCE has."""
