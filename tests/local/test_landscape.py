from typing import Any

import numpy as np
import pytest

from monitor.errors import InputError, NotEnoughData
from monitor.local import local_error_map
from tests.reference import naive_local

RNG_SEED = 7


def drawn(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(RNG_SEED)
    x = rng.normal(size=(n, 2))
    p = rng.uniform(0.3, 0.7, n)
    return p, (rng.random(n) < p - 0.2 * np.sign(x[:, 0])).astype(np.float64), x


def test_each_point_is_the_papers_loop() -> None:
    p, y, x = drawn(200)
    found = local_error_map(p, y, x, gamma=0.3, size=7)
    assert found.error.shape == found.n_eff.shape == (7, 7)
    for i, j in ((0, 0), (2, 5), (6, 1)):
        k = np.array([naive_local.laplace(np.array([found.x[j], found.y[i]]), at, 0.3) for at in x])
        assert found.error[i, j] == pytest.approx(((p - y) * k).sum() / k.sum())
        assert found.n_eff[i, j] == pytest.approx(k.sum() ** 2 / (k**2).sum())


def test_the_sides_of_opposite_errors_are_seen() -> None:
    found = local_error_map(*drawn(5000))
    left, right = found.error[20:40, found.x < -0.5], found.error[20:40, found.x > 0.5]
    assert left.mean() == pytest.approx(-0.2, abs=0.06)
    assert right.mean() == pytest.approx(0.2, abs=0.06)
    assert found.n_eff[30, 30] > 10 * found.n_eff[0, 0]


def test_the_picture_leaves_outliers_out() -> None:
    p, y, x = drawn(1000)
    x[0] = [1e6, -1e6]
    found = local_error_map(p, y, x, size=5)
    assert found.x[-1] < 5.0
    assert found.y[0] > -5.0


def test_no_event_near_is_no_number() -> None:
    found = local_error_map([0.5, 0.5], [0, 1], [[0.0, 0.0], [1e6, 1e6]], size=3)
    assert np.isnan(found.error[0, 2])
    assert found.n_eff[0, 2] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": -1.0}, r"gamma must be above 0, got -1\.0"),
        ({"size": 1}, "size must be a whole number of at least 2, got 1"),
        ({"plane": np.zeros((2, 3))}, r"plane must have the shape \(2, 2\), got \(2, 3\)"),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"plane": np.zeros((2, 2))} | options
    with pytest.raises(InputError, match=message):
        local_error_map([0.2, 0.4], [0.0, 1.0], given.pop("plane"), **given)


def test_no_event_is_not_enough() -> None:
    with pytest.raises(NotEnoughData, match="at least 1 event"):
        local_error_map(*drawn(0))
