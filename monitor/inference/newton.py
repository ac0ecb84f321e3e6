"""Newton's method for convex functions in a box, and logistic regression by it: the fits of Cox and of most maps.

Why not scipy's, measured with 1.17 on two cores: within bounds, of its methods trust-constr alone uses curvature. It
takes 40 times as long, and ends above the least loss in 49 of the 60 hard fits of the tests; TNC does in 5 of them.
L-BFGS-B is as exact, but on 100,000 events it takes 14 times as long (173 ms for 12), and its linear algebra wakes
threads: beside other work a Cox fit of 1,500 cells took 233 ms for 0.6. Without bounds, trust-exact takes 1.3 times as
long, and where logits are far out it stops at a slope of 1e-9 of the events, as rounding hides what its steps gain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from monitor.arrays import Bools, Floats

_STEPS: Final = 300
_HALVINGS: Final = 40
_DECREMENT: Final = 1e-15
"""Twice the gain, in units of the function, below which a step is the last one."""
_SHORT: Final = 1e-6
"""Largest last step, relative to the point. If a fit diverges the function hardly falls, but steps stay long."""
_GAIN: Final = 1e-9
"""Smallest relative gain of a longer step; without it, steps along flat directions are not taken."""
_ARMIJO: Final = 1e-4
_ROUNDING: Final = 1e-15
"""Relative rounding error of the function's values."""
_DAMPING: Final = 1e-3
"""Share of the largest slope added to the curvature: no step is longer than a thousand, even where the function has a
slope but no curvature, like log losses far out. It vanishes with the slope, so that the last steps are Newton's."""
_SNAP: Final = 1e-12
"""Relative distance from a bound within which a coordinate counts as on it, despite rounding."""
_NULL: Final = 1e-13
"""Share of the largest curvature below which a curvature may be 0."""
_NOISE: Final = 1e-6
"""Share of the largest slope below which a slope may be 0."""
_FLAT: Final = 1e-12
"""Smallest curvature as a divisor of steps."""


@dataclass(frozen=True, eq=False)
class Curved:
    """A function's value and derivatives at one point.

    Attributes
    ----------
    value
        The function itself, finite.
    gradient
        float64, shape (d,).
    hessian
        float64, shape (d, d), positive semidefinite; or, for large d, its product with a vector.
    diagonal
        float64, shape (d,): the diagonal of the Hessian, if ``hessian`` is a product.
    """

    value: float
    gradient: Floats
    hessian: Floats | Callable[[Floats], Floats]
    diagonal: Floats | None = None


def minimise(
    function: Callable[[Floats], Curved], start: Floats, lower: Floats, upper: Floats, *, enough: float = 0.0
) -> Floats:
    """Minimise a convex function over a box.

    Newton's steps in the coordinates that no bound stops, shortened if the function would not fall enough. The function
    falls with every step, so the result is never worse than the start.

    Parameters
    ----------
    function
        Twice differentiable and convex.
    start
        float64, shape (d,), within the bounds.
    lower, upper
        float64, shape (d,); may be infinite if the function grows in that direction.
    enough
        Twice the gain at which to stop, in units of the function. With 0 a fit that diverges goes on to its bounds.

    Returns
    -------
    float64, shape (d,)
        If there are several minima, as with equal predictions, the one that the shortest steps lead to.

    Notes
    -----
    Source: Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982.
    """
    x = _in_box(start, lower, upper)
    here = function(x)
    for _ in range(_STEPS):
        gradient = here.gradient
        free = ~(((x <= lower) & (gradient >= 0.0)) | ((x >= upper) & (gradient <= 0.0)))
        if not free.any():
            break
        step = _step(here, x, free, lower, upper)
        decrement = -float(gradient @ step)
        short = bool((np.abs(step) <= _SHORT * (1.0 + np.abs(x))).all())
        distinguishable = decrement > _DECREMENT * (1.0 + abs(here.value))
        if decrement <= enough or (not distinguishable and (short or decrement <= _GAIN * abs(here.value))):
            # Rounding hides differences of the function here, but a short step is still valid.
            return _in_box(x + step, lower, upper) if short else x
        after = _along(function, x, step, here, lower=lower, upper=upper)
        if after is None:
            return _in_box(x + step, lower, upper) if short else x
        x, here = after
    return x


def _in_box(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The nearest point in the box, on a bound if next to it."""
    near = _SNAP * (1.0 + np.abs(x))
    return np.asarray(np.where(x <= lower + near, lower, np.where(x >= upper - near, upper, x)))


def _step(here: Curved, x: Floats, free: Bools, lower: Floats, upper: Floats) -> Floats:
    """The step from x; shape (d,), 0 where a bound stops it."""
    step = np.zeros_like(x)
    separate = np.zeros_like(free)
    while True:
        joint = free & ~separate
        step[:] = 0.0
        if joint.any():
            step[joint] = _newton_step(here, joint)
        # The others may drive a coordinate at a bound out of the box although its gradient points inwards. It then gets
        # its own step, as in the paper, so that the whole step, cut off at the bounds, still leads downhill.
        out = joint & (((x <= lower) & (step < 0.0)) | ((x >= upper) & (step > 0.0)))
        if not out.any():
            break
        separate |= out
    diagonal = np.diag(here.hessian) if isinstance(here.hessian, np.ndarray) else here.diagonal
    curvature = np.ones_like(x) if diagonal is None else np.maximum(diagonal, _FLAT)
    step[separate] = -here.gradient[separate] / curvature[separate]
    return step


def _newton_step(here: Curved, free: Bools) -> Floats:
    gradient, size = here.gradient[free], int(free.sum())
    steep = float(np.abs(gradient).max())
    damping = _DAMPING * steep
    if isinstance(here.hessian, np.ndarray):
        curvature, axes = np.linalg.eigh(here.hessian[np.ix_(free, free)])
        slopes = axes.T @ gradient
        # With equal predictions, or a common offset of all classes, the function is flat, and a slope there is
        # rounding.
        real = (curvature > _NULL * curvature[-1]) | (np.abs(slopes) > _NOISE * steep)
        along = np.divide(slopes, np.maximum(curvature, 0.0) + damping, out=np.zeros(size), where=real)
        return np.asarray(-(axes @ along))
    product = here.hessian

    def of_free(vector: Floats) -> Floats:
        whole = np.zeros(free.size)
        whole[free] = vector.ravel()
        return product(whole)[free] + damping * whole[free]

    diagonal = np.ones(size) if here.diagonal is None else np.maximum(here.diagonal[free], _FLAT)
    linalg = scipy.sparse.linalg
    step, _ = linalg.cg(
        linalg.LinearOperator((size, size), matvec=of_free, dtype=np.float64),
        -gradient,
        rtol=min(1e-2, steep**0.5),
        atol=0.0,
        maxiter=10 * size,
        M=linalg.LinearOperator((size, size), matvec=lambda vector: vector.ravel() / diagonal, dtype=np.float64),
    )
    return np.asarray(step)


def _along(
    function: Callable[[Floats], Curved], x: Floats, step: Floats, here: Curved, *, lower: Floats, upper: Floats
) -> tuple[Floats, Curved] | None:
    """The first point along the step at which the function falls enough; None if rounding hides it."""
    # As far as the first bound: projecting a longer step can turn it uphill.
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step > 0.0, (upper - x) / step, np.where(step < 0.0, (lower - x) / step, np.inf))
    to_bound = float(room[room > 0.0].min(initial=np.inf))
    lengths = [2.0**-halving for halving in range(_HALVINGS)]
    if to_bound < 1.0:
        lengths = [1.0, *(to_bound * length for length in lengths)]
    for length in lengths:
        after = _in_box(x + length * step, lower, upper)
        slope = float(here.gradient @ (after - x))
        if slope >= 0.0:
            continue
        there = function(after)
        if there.value <= here.value + _ARMIJO * slope + _ROUNDING * abs(here.value):
            return after, there
    return None


_BLOCK: Final = 8192
"""Events per block: small enough for the processor's cache."""


def log_sigmoid(eta: Floats) -> Floats:
    """Logarithm of the sigmoid, exact at both ends; ten times as fast as scipy's ``log_expit``."""
    return np.asarray(np.minimum(eta, 0.0) - np.log1p(np.exp(-np.abs(eta))))


def fit_logistic(
    columns: Floats, target: Floats, weight: Floats, *, start: Floats, lower: Floats, upper: Floats
) -> Floats:
    r"""Coefficients that minimise the mean log loss.

    .. math:: -\frac{1}{\sum w} \sum_i w_i \big[ t_i \log \sigma(\eta_i) + (1 - t_i) \log \sigma(-\eta_i) \big],
              \qquad \eta = X \theta

    Parameters
    ----------
    columns
        X, float64, shape (n, d).
    target
        t, float64, shape (n,), in [0, 1]: the outcomes, possibly smoothed.
    weight
        float64, shape (n,), above 0.
    start, lower, upper
        float64, shape (d,): start and bounds of the search.

    Returns
    -------
    float64, shape (d,)
    """
    rows = np.ascontiguousarray(columns.T)
    share = weight / weight.sum()
    other = 1.0 - target

    def about(theta: Floats) -> Curved:
        value, gradient, hessian = 0.0, np.zeros(theta.size), np.zeros((theta.size, theta.size))
        for first in range(0, share.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            x, t, u, w = rows[:, block], target[block], other[block], share[block]
            eta = theta @ x
            odds = np.exp(-np.abs(eta))
            likely = 1.0 / (1.0 + odds)
            unlikely = odds * likely
            q, rest = np.where(eta > 0.0, likely, unlikely), np.where(eta > 0.0, unlikely, likely)
            # Loss and q - t without loss of digits near 0 and 1: both go to 0 if predictions separate the outcomes.
            value += float(w @ (np.log1p(odds) - t * np.minimum(eta, 0.0) - u * np.minimum(-eta, 0.0)))
            gradient += x @ (w * (u * q - t * rest))
            hessian += (x * (w * q * rest)) @ x.T
        return Curved(value, gradient, hessian)

    return minimise(about, start, lower, upper)
