"""The scales that maps work on: logits and log probabilities, limited at both ends, and their inverses."""

from typing import Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Floats
from monitor.scores.grid import LOGIT_BOUND

SLOPE_LIMIT: Final = 100.0
"""The largest factor of a logit. If predictions separate the outcomes, every larger factor would fit better still, so
the fit stops here. A model whose predictions all lie within 50 +- 1% can need a factor of 40."""


def probabilities(eta: Floats) -> Floats:
    """Return the sigmoid of logits limited to [-17, 17]: no map returns 0 or 1, and no log loss is infinite."""
    return np.asarray(expit(np.clip(eta, -LOGIT_BOUND, LOGIT_BOUND)))


def log_probabilities(p: Floats) -> Floats:
    """Return the logarithms of class probabilities, at least -17; shape (n, K)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(p), -LOGIT_BOUND))


def softmax(eta: Floats) -> Floats:
    """Return class probabilities, shape (n, K).

    A value more than 17 below the largest of its row counts as 17 below, so no probability is 0.
    """
    # Never above 0, so that nothing overflows. Classes come first: sums over few columns are slow.
    by_class = np.ascontiguousarray(eta.T)
    odds = np.exp(np.maximum(by_class - by_class.max(axis=0), -LOGIT_BOUND))
    return np.ascontiguousarray((odds / odds.sum(axis=0)).T)


def format_number(value: float) -> str:
    """Format a parameter with four digits; what rounding leaves of 0 is 0."""
    return f"{round(value, 9) + 0.0:.4g}"


def format_term(value: float) -> str:
    """Format a parameter as a term of a sum: ``+ 0.31`` or ``- 0.31``."""
    return f"{'-' if round(value, 9) < 0.0 else '+'} {format_number(abs(value))}"
