"""Newton's method for convex functions in a box: what the fits of most maps come down to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

Floats = NDArray[np.float64]

_STEPS: Final = 300
_HALVINGS: Final = 40
_DECREMENT: Final = 1e-15
"""Twice what the last step may still gain, in units of the function. The step is taken, and is the last."""
_SHORT: Final = 1e-6
"""Of a last step, beside the point's size. Where a fit diverges the function hardly falls, but steps stay long."""
_ARMIJO: Final = 1e-4


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


def minimise(function: Callable[[Floats], Curved], start: Floats, lower: Floats, upper: Floats) -> Floats:
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

    Returns
    -------
    float64, shape (d,)
        Where there are several minima, as with equal predictions, that which steps of least length lead to.

    Notes
    -----
    Source: Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982.
    """
    x = np.clip(start, lower, upper)
    here = function(x)
    for _ in range(_STEPS):
        gradient = here.gradient
        free = ~(((x <= lower) & (gradient >= 0.0)) | ((x >= upper) & (gradient <= 0.0)))
        if not free.any():
            break
        step = np.zeros_like(x)
        step[free] = _newton_step(here, free)
        decrement = -float(gradient @ step)
        short = bool((np.abs(step) <= _SHORT * (1.0 + np.abs(x))).all())
        if short and decrement <= _DECREMENT * (1.0 + abs(here.value)):
            # Here the values of the function no longer tell points apart, but the step itself still does.
            return np.asarray(np.clip(x + step, lower, upper))
        after = _along(function, x, step, here, lower=lower, upper=upper)
        if after is None:
            break
        x, here = after
    return x


def _newton_step(here: Curved, free: NDArray[np.bool_]) -> Floats:
    gradient = here.gradient[free]
    if isinstance(here.hessian, np.ndarray):
        # Least squares: the Hessian is singular where predictions are equal, or an offset of all classes is free.
        found = np.linalg.lstsq(here.hessian[np.ix_(free, free)], -gradient, rcond=1e-13)[0]
        return np.asarray(found if float(found @ gradient) < 0.0 else -gradient, np.float64)
    product, size = here.hessian, int(free.sum())

    def of_free(vector: Floats) -> Floats:
        whole = np.zeros(free.size)
        whole[free] = vector.ravel()
        return product(whole)[free]

    steep = float(np.abs(gradient).max())
    diagonal = np.ones(size) if here.diagonal is None else np.maximum(here.diagonal[free], 1e-12)
    step, _ = cg(
        LinearOperator((size, size), matvec=of_free, dtype=np.float64),
        -gradient,
        rtol=min(1e-2, steep**0.5),
        atol=0.0,
        maxiter=10 * size,
        M=LinearOperator((size, size), matvec=lambda vector: vector.ravel() / diagonal, dtype=np.float64),
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
        after = np.clip(x + length * step, lower, upper)
        slope = float(here.gradient @ (after - x))
        if slope >= 0.0:
            continue
        there = function(after)
        if there.value <= here.value + _ARMIJO * slope:
            return after, there
    return None
