"""Other packages' numbers, where the definition is the same."""

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.measures import ece, kce, rintce, surrogate_intce
from monitor.scores import ScoreTable
from tests.reference.peers import (
    ece_of_relplot,
    ece_of_scikit_learn,
    ece_of_uncertainty_calibration,
    kce_of_relplot,
    quantile_ece_of_uncertainty_calibration,
    surrogate_intce_of_relplot,
)

Floats = NDArray[np.float64]


def simulated(seed: int, n: int, slope: float) -> tuple[Floats, Floats]:
    """Outcomes of calibrated scores, and predictions that are too sure (slope > 1) or too timid."""
    rng = np.random.default_rng(seed)
    q = rng.beta(2.0, 5.0, n)
    return 1.0 / (1.0 + ((1.0 - q) / q) ** slope), (rng.random(n) < q).astype(np.float64)


@pytest.mark.parametrize("slope", [0.6, 1.0, 1.7])
def test_ece_over_ten_bins_of_equal_width(slope: float) -> None:
    p, y = simulated(1, 3000, slope)
    ours = ece(ScoreTable.from_events(p, y))
    assert ours == pytest.approx(ece_of_scikit_learn(p, y), rel=1e-9)
    assert ours == pytest.approx(ece_of_relplot(p, y), rel=1e-9)
    assert ours == pytest.approx(ece_of_uncertainty_calibration(p, y), rel=1e-9)


@pytest.mark.parametrize("slope", [0.6, 1.0, 1.7])
def test_ece_over_ten_bins_of_equal_size(slope: float) -> None:
    p, y = simulated(2, 3000, slope)
    ours = ece(ScoreTable.from_events(p, y), bins="quantile")
    assert ours == pytest.approx(quantile_ece_of_uncertainty_calibration(p, y), rel=1e-9)


def test_kce_is_what_drawn_pairs_converge_to() -> None:
    p, y = simulated(3, 3000, 1.7)
    drawn = [kce_of_relplot(p, y, seed) ** 2 for seed in range(30)]
    error = np.std(drawn) / np.sqrt(len(drawn))
    # relplot never draws the last event of the data: 1 of 3,000.
    assert kce(ScoreTable.from_events(p, y)) ** 2 == pytest.approx(np.mean(drawn), abs=4 * error + 1e-5)


def test_surrogate_intce_is_what_drawn_shifts_converge_to() -> None:
    p, y = simulated(4, 3000, 1.7)
    table = ScoreTable.from_events(p, y)
    ours = surrogate_intce(table)
    # Which width is best, and so what one shift's sum may deviate by.
    width = min((2.0**-k for k in range(10)), key=lambda width: rintce(table, width) + width)
    assert rintce(table, width) + width == ours
    assert surrogate_intce_of_relplot(p, y, 0) == pytest.approx(ours, rel=0.02)
