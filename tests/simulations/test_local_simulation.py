"""Size and power of the tests of local calibration: seeded, so that what holds once holds always."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.local import local_calibration_error
from tests.simulations.simulate import LEVEL, TOLERANCE

pytestmark = pytest.mark.simulation

REPEATS = 200
DRAWS = 39

Floats = NDArray[np.float64]


def balanced(rng: np.random.Generator, n: int) -> Floats:
    return rng.beta(1.2, 1.2, n)


def rare(rng: np.random.Generator, n: int) -> Floats:
    return rng.beta(0.5, 20.0, n)


def rejections(law: Callable[[np.random.Generator, int], Floats], n: int, error: float) -> Floats:
    """How often the largest and the mean local error are called more than chance, shape (2,).

    ``error`` is how far, as a share, predictions are too low where the first of two features is above 0, and too high
    elsewhere.
    """
    small = []
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        x, p = rng.normal(size=(n, 2)), law(rng, n)
        y = rng.random(n) < np.clip(p * (1.0 + error * np.sign(x[:, 0])), 0.0, 1.0)
        level = local_calibration_error(p, y, x, draws=DRAWS, max_points=200).level
        assert level is not None
        small.append([level.mlce.p_value <= LEVEL, level.mean_lce.p_value <= LEVEL])
    return np.asarray(np.mean(small, axis=0), np.float64)


@pytest.mark.parametrize("law", [balanced, rare])
def test_a_calibrated_model_is_rarely_refuted(law: Callable[[np.random.Generator, int], Floats]) -> None:
    chance = 2.0 * (LEVEL * (1.0 - LEVEL) / REPEATS) ** 0.5
    assert (rejections(law, 1500, 0.0) <= LEVEL + TOLERANCE + chance).all()


def test_opposite_errors_are_found() -> None:
    assert (rejections(balanced, 1500, 0.4) > 0.6).all()
