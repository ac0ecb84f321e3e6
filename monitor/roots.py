"""Roots of functions of one number, found step by step as scipy finds them, to the last digit.

``scipy.optimize`` takes as long to import as a report of a small file takes: with it come sparse matrices, geometry and
linear programmes.
"""

from collections.abc import Callable
from typing import Final

_EPSILON: Final = 2.0**-52
_STEPS: Final = 100


def brentq(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = 4.0 * _EPSILON
) -> float:
    """Root between two points by Brent's method, as ``scipy.optimize.brentq`` has it.

    Parameters
    ----------
    function
        Continuous; of different signs at the two points, or 0 at one.
    low, high
        The points.
    xtol, rtol
        Largest error, and largest error relative to the root.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        The signs at the two points agree.
    RuntimeError
        No root was found in 100 steps.

    Notes
    -----
    Source: Brent, "Algorithms for Minimization Without Derivatives", 1973, chapter 4; its quadratic step as Bus and
    Dekker, "Two efficient algorithms with guaranteed convergence for finding a zero of a function", 1975, write it.
    """
    before, now, other = low, high, 0.0
    f_before, f_now, f_other = function(before), function(now), 0.0
    last = step = 0.0
    if f_before == 0.0:
        return before
    if f_now == 0.0:
        return now
    if (f_before < 0.0) == (f_now < 0.0):
        raise ValueError("f(a) and f(b) must have different signs")
    for _ in range(_STEPS):
        if f_before != 0.0 and f_now != 0.0 and (f_before < 0.0) != (f_now < 0.0):
            other, f_other = before, f_before
            last = step = now - before
        if abs(f_other) < abs(f_now):
            before, now, other = now, other, now
            f_before, f_now, f_other = f_now, f_other, f_now
        delta = (xtol + rtol * abs(now)) / 2.0
        half = (other - now) / 2.0
        if f_now == 0.0 or abs(half) < delta:
            return now
        if abs(last) > delta and abs(f_now) < abs(f_before):
            if before == other:  # along the secant
                trial = -f_now * (now - before) / (f_now - f_before)
            else:
                slope = (f_before - f_now) / (before - now)
                slope_other = (f_other - f_now) / (other - now)
                trial = (
                    -f_now * (f_other * slope_other - f_before * slope) / (slope_other * slope * (f_other - f_before))
                )
            last, step = (step, trial) if 2.0 * abs(trial) < min(abs(last), 3.0 * abs(half) - delta) else (half, half)
        else:
            last = step = half
        before, f_before = now, f_now
        now += step if abs(step) > delta else (delta if half > 0.0 else -delta)
        f_now = function(now)
    raise RuntimeError(f"no root was found in {_STEPS} steps, the last at {now}")


def newton(function: Callable[[float], tuple[float, float]], start: float, *, tolerance: float) -> float:
    """Root by Newton's method, as ``scipy.optimize.root_scalar`` has it.

    Parameters
    ----------
    function
        Its value and its slope at a point.
    start
        Where to begin.
    tolerance
        Largest last step, and largest one relative to the root.

    Returns
    -------
    float
        Where there is no slope, or after 50 steps: the last point.
    """
    at = start
    for _ in range(50):
        value, slope = function(at)
        if value == 0.0:
            return at
        if slope == 0.0:
            return at
        after = at - value / slope
        if abs(after - at) <= tolerance + tolerance * abs(at):
            return after
        at = after
    return at
