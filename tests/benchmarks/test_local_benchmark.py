"""What local calibration costs, and how much of it the level under calibration is, in one run."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.local import PrincipalComponents, local_calibration_error

pytestmark = pytest.mark.benchmark

FEATURES = 20

Floats = NDArray[np.float64]


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()  # what else the machine does is not counted
        work()
        times.append(time.process_time() - start)
    return min(times)


def simulated(n: int, rare: bool) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, FEATURES))
    p = rng.beta(0.5, 50.0, n) if rare else rng.random(n)
    return p, (rng.random(n) < p).astype(np.float64), PrincipalComponents.fit(x, FEATURES).apply(x)


@pytest.mark.parametrize(("n", "rare"), [(20_000, False), (20_000, True), (200_000, False)])
def test_local_errors_and_their_level(n: int, rare: bool) -> None:
    data = simulated(n, rare)
    plain = seconds(lambda: local_calibration_error(*data), 1)
    level = seconds(lambda: local_calibration_error(*data, draws=199), 1)
    print(f"\nlocal errors of {n:,} events, {'nearly all in one bin' if rare else 'in 15 bins'}: {plain:.2f} s")
    print(f"  with 199 draws of a calibrated model {level:.2f} s, {level / plain:.1f} times as long")
    assert level < 40 * plain  # the draws share the weights
