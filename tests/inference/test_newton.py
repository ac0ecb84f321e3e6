import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from monitor.inference.newton import Curved, fit_logistic, log_sigmoid, minimise
from tests.long import examples

Floats = NDArray[np.float64]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dense", [True, False])
def test_a_quadratic_in_a_box_is_solved_as_by_scipy(seed: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    curved, linear = root @ root.T + 0.1 * np.eye(6), rng.normal(size=6) * 5.0
    lower, upper = -rng.random(6), rng.random(6)

    def about(x: Floats) -> Curved:
        value, gradient = 0.5 * float(x @ curved @ x) + float(linear @ x), curved @ x + linear
        if dense:
            return Curved(value, gradient, curved)
        return Curved(value, gradient, lambda vector: curved @ vector, np.diag(curved))

    peer = minimize(
        lambda x: about(x).value,
        np.zeros(6),
        jac=lambda x: about(x).gradient,
        bounds=np.column_stack([lower, upper]),
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10},
    )
    found = minimise(about, np.zeros(6), lower, upper)
    assert about(found).value <= peer.fun + 1e-12
    np.testing.assert_allclose(found, peer.x, atol=1e-6)


@given(st.integers(0, 10_000), st.sampled_from([1.0, 30.0, 1e4]), st.booleans())
@examples(30, 100)
def test_at_a_fit_no_free_coordinate_has_a_slope(seed: int, scale: float, parted: bool) -> None:
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(40), rng.normal(size=40) * scale])
    target = (x[:, 1] > 0.1).astype(np.float64) if parted else rng.integers(0, 2, 40).astype(np.float64)
    weight = rng.random(40) + 0.1
    lower, upper = np.array([-1e6, 0.0]), np.array([1e6, 100.0])
    found = fit_logistic(x, target, weight, start=np.array([0.0, 1.0]), lower=lower, upper=upper)
    assert ((found >= lower) & (found <= upper)).all()
    with np.errstate(over="ignore"):
        q = 1.0 / (1.0 + np.exp(-(x @ found)))
    gradient = x.T @ (weight * (q - target)) / weight.sum()
    free = (found > lower) & (found < upper)
    assert (np.abs(gradient[free]) < 1e-8 * scale).all()
    assert (gradient[found == lower] >= -1e-12).all()
    assert (gradient[found == upper] <= 1e-12).all()


@pytest.mark.parametrize("seed", range(60))
def test_hard_fits_are_no_worse_than_where_scipy_goes_on_from_them(seed: int) -> None:
    # Logits far out, hardly apart, equal, or contradicted; rare outcomes; weights six orders of magnitude apart. Bounds
    # stop some coordinates, and log loss is flat far out: where projected steps of Newton's method alone go astray.
    rng = np.random.default_rng(seed)
    z = np.clip(rng.normal(rng.normal(0.0, 4.0), rng.choice([0.01, 1.0, 5.0, 30.0]), 150), -17.0, 17.0)
    z = np.round(z) if seed % 3 == 0 else z
    target = (rng.random(150) < rng.choice([0.02, 0.5, 0.98])).astype(np.float64)
    target[:2] = 0.0, 1.0
    weight = rng.choice([1e-4, 1.0, 100.0], 150)
    columns = np.column_stack([log_sigmoid(z), -log_sigmoid(-z), np.ones(150)])
    lower, upper = np.array([0.0, 0.0, -np.inf]), np.array([100.0, 100.0, np.inf])

    def loss(theta: Floats) -> tuple[float, Floats]:
        eta = columns @ theta
        share = weight / weight.sum()
        value = -float(share @ (target * log_sigmoid(eta) + (1.0 - target) * log_sigmoid(-eta)))
        return value, columns.T @ (share * (np.exp(log_sigmoid(eta)) - target))

    found = fit_logistic(columns, target, weight, start=np.array([1.0, 1.0, 0.0]), lower=lower, upper=upper)
    bounds = [(0.0, 100.0), (0.0, 100.0), (None, None)]
    options = {"ftol": 1e-16, "gtol": 1e-12}
    farther = minimize(loss, found, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    assert loss(found)[0] <= farther.fun + 1e-12


def test_the_start_is_never_left_for_worse() -> None:
    visited: list[float] = []

    def about(x: Floats) -> Curved:
        # Newton's full step from 3 overshoots ever farther.
        value = float(np.sqrt(1.0 + x[0] ** 2))
        visited.append(value)
        return Curved(value, x / value, np.array([[value**-3]]))

    found = minimise(about, np.array([3.0]), np.array([-np.inf]), np.array([np.inf]))
    assert found[0] == pytest.approx(0.0, abs=1e-9)


def test_a_flat_direction_is_left_alone() -> None:
    def about(x: Floats) -> Curved:
        total = x.sum() - 2.0
        return Curved(float(total**2), np.full(2, 2.0 * total), np.full((2, 2), 2.0))

    found = minimise(about, np.array([1.0, 0.0]), np.full(2, -np.inf), np.full(2, np.inf))
    np.testing.assert_allclose(found, [1.5, 0.5], atol=1e-9)


def test_a_start_in_a_corner_that_is_the_minimum_stays() -> None:
    def about(x: Floats) -> Curved:
        return Curved(float(x.sum()), np.ones(2), np.zeros((2, 2)))

    np.testing.assert_array_equal(minimise(about, np.ones(2), np.zeros(2), np.ones(2)), np.zeros(2))
