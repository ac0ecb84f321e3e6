import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.local import local_calibration_error, mlce_curve

Floats = NDArray[np.float64]


def simulated(n: int = 1500) -> tuple[dict[str, Floats], Floats, Floats]:
    """Predictions that are off by the sign of the first coordinate, and the true ones."""
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(n, 3))
    p = rng.uniform(0.3, 0.7, n)
    truth = p + 0.2 * np.sign(phi[:, 0])
    return {"before": p, "after": truth}, (rng.random(n) < truth).astype(np.float64), phi


@pytest.mark.parametrize("weighted", [False, True])
def test_each_value_is_that_of_its_gamma_alone(weighted: bool) -> None:
    predictions, y, phi = simulated()
    weight = np.random.default_rng(2).uniform(0.5, 2.0, y.size) if weighted else None
    gammas = [0.8, 1.6, np.inf]
    curves = mlce_curve(predictions, y, phi, gammas, weight=weight, max_points=400, draws=39, seed=5)
    assert list(curves) == ["before", "after"]
    for name, p in predictions.items():
        for gamma, found in zip(gammas, curves[name], strict=True):
            alone = local_calibration_error(p, y, phi, gamma=gamma, weight=weight, max_points=400, draws=39, seed=5)
            assert found is not None
            assert found.mlce == pytest.approx(alone.mlce, rel=1e-12)
            assert found.mean_lce == pytest.approx(alone.mean_lce, rel=1e-12)
            np.testing.assert_array_equal(found.points, alone.points)
            assert found.level is not None
            assert alone.level is not None
            assert found.level.mlce.mean == pytest.approx(alone.level.mlce.mean, rel=1e-12)
            assert found.mean_lce_excess == pytest.approx(alone.mean_lce_excess, rel=1e-9)


def test_a_mended_prediction_lies_below_at_every_width() -> None:
    predictions, y, phi = simulated(6000)
    curves = mlce_curve(predictions, y, phi, [0.2, 0.4, 0.8], max_points=500)
    for before, after in zip(curves["before"], curves["after"], strict=True):
        assert before is not None
        assert after is not None
        assert after.mlce < before.mlce
        np.testing.assert_array_equal(before.points, after.points)


def test_where_nobody_has_neighbours_there_is_no_value() -> None:
    predictions, y, phi = simulated()
    curves = mlce_curve(predictions, y, phi, [1e-9, np.inf])
    assert curves["before"][0] is None
    assert curves["before"][1] is not None


def test_bad_input_is_refused() -> None:
    predictions, y, phi = simulated(100)
    with pytest.raises(InputError, match="gammas must be above 0, got 0"):
        mlce_curve(predictions, y, phi, [0.4, 0.0])
    with pytest.raises(InputError, match="weight must have the shape \\(100,\\), got \\(99,\\)"):
        mlce_curve(predictions, y, phi, [0.4], weight=np.ones(99))
    with pytest.raises(InputError, match="weight must be finite and above 0"):
        mlce_curve(predictions, y, phi, [0.4], weight=np.zeros(100))
    with pytest.raises(NotEnoughData):
        mlce_curve({"none": np.empty(0)}, np.empty(0), np.empty((0, 2)), [0.4])
