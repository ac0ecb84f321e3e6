"""Newton's method for convex functions in a box: what the fits of most maps come down to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS: Final = 300
_HALVINGS: Final = 40
_DECREMENT: Final = 1e-15
"""Twice what the last step may still gain, in units of the function. The step is taken, and is the last."""
_SHORT: Final = 1e-6
"""Of a last step, beside the point's size. Where a fit diverges the function hardly falls, but steps stay long."""
_GAIN: Final = 1e-9
"""Of the function, less than this is no gain: then a longer step, along what is flat, is not taken either."""
_ARMIJO: Final = 1e-4
_ROUNDING: Final = 1e-15
"""Of the function's values, so much may be rounding."""
_DAMPING: Final = 1e-3
"""Of the largest slope, added to the curvature: no step is longer than a thousand, also where the function is flat but
for a slope, as log losses are far out. It vanishes with the slope, so that the last steps are Newton's."""
_SNAP: Final = 1e-12
"""As near to a bound, beside its size, a coordinate lies at it: rounding must not keep it off."""
_NULL: Final = 1e-13
"""Of the largest curvature, less may be none."""
_NOISE: Final = 1e-6
"""Of the largest slope, less may be none."""
_FLAT: Final = 1e-12
"""Less curvature counts as this much, where steps are divided by it."""


@dataclass(frozen=True, eq=False)
class Curved:
    """A function about one point.

    Attributes
    ----------
    value
        The function itself, finite.
    gradient
        float64, shape (d,).
    hessian
        float64, shape (d, d), positive semidefinite; or, where d is large, its product with a vector.
    diagonal
        float64, shape (d,): the diagonal of the Hessian, where ``hessian`` is a product.
    """

    value: float
    gradient: Floats
    hessian: Floats | Callable[[Floats], Floats]
    diagonal: Floats | None = None


def minimise(
    function: Callable[[Floats], Curved], start: Floats, lower: Floats, upper: Floats, *, enough: float = 0.0
) -> Floats:
    """Minimise a convex function over a box.

    Newton's steps in the coordinates that no bound stops, cut short where the function would not fall enough. The
    function falls with every step, so the point found is never worse than the start.

    Parameters
    ----------
    function
        Twice differentiable and convex.
    start
        float64, shape (d,), within the bounds.
    lower, upper
        float64, shape (d,); may be infinite where the function grows that way.
    enough
        Twice what is no gain any more, in units of the function. With 0 a fit that diverges goes on to its bounds.

    Returns
    -------
    float64, shape (d,)
        Where there are several minima, as with equal predictions, that which steps of least length lead to.

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
        told_apart = decrement > _DECREMENT * (1.0 + abs(here.value))
        if decrement <= enough or (not told_apart and (short or decrement <= _GAIN * abs(here.value))):
            # Here the values of the function no longer tell points apart, but a short step itself still does.
            return _in_box(x + step, lower, upper) if short else x
        after = _along(function, x, step, here, lower=lower, upper=upper)
        if after is None:
            return _in_box(x + step, lower, upper) if short else x
        x, here = after
    return x


def _in_box(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The nearest point in the box, and at a bound where next to it."""
    near = _SNAP * (1.0 + np.abs(x))
    return np.asarray(np.where(x <= lower + near, lower, np.where(x >= upper - near, upper, x)))


def _step(here: Curved, x: Floats, free: NDArray[np.bool_], lower: Floats, upper: Floats) -> Floats:
    """Where to go from x; shape (d,), 0 where a bound stops the way."""
    step = np.zeros_like(x)
    apart = np.zeros_like(free)
    while True:
        joint = free & ~apart
        step[:] = 0.0
        if joint.any():
            step[joint] = _newton_step(here, joint)
        # At a bound that its gradient leads away from a coordinate may be driven out of the box by the others. It then
        # goes its own way, as in the paper: so the whole step, cut off at the bounds, still leads downhill.
        out = joint & (((x <= lower) & (step < 0.0)) | ((x >= upper) & (step > 0.0)))
        if not out.any():
            break
        apart |= out
    diagonal = np.diag(here.hessian) if isinstance(here.hessian, np.ndarray) else here.diagonal
    curvature = np.ones_like(x) if diagonal is None else np.maximum(diagonal, _FLAT)
    step[apart] = -here.gradient[apart] / curvature[apart]
    return step


def _newton_step(here: Curved, free: NDArray[np.bool_]) -> Floats:
    gradient, size = here.gradient[free], int(free.sum())
    steep = float(np.abs(gradient).max())
    damping = _DAMPING * steep
    if isinstance(here.hessian, np.ndarray):
        curvature, axes = np.linalg.eigh(here.hessian[np.ix_(free, free)])
        slopes = axes.T @ gradient
        # Where predictions are equal, or all classes may have one offset more, the function is flat, and a slope there
        # is rounding.
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
    """The first point of those along the step at which the function falls enough; None where rounding hides it."""
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
