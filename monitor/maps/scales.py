"""The scales that maps work on: logits and logarithms of probabilities, cut off at both ends, and the ways back."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monitor.inference.cox import LOGIT_BOUND, logits

__all__ = [
    "LOGIT_BOUND",
    "SLOPE_LIMIT",
    "in_words",
    "log_probabilities",
    "logits",
    "on_positive",
    "probabilities",
    "softmax",
]

SLOPE_LIMIT: Final = 100.0
"""The largest factor of a logit. Where predictions part the outcomes every larger factor would fit better still, so the
fit stops here. A model whose predictions all lie within 50 +- 1% can need one of 40."""

Floats = NDArray[np.float64]


def probabilities(eta: Floats) -> Floats:
    """Probabilities of logits, which count as -+17 beyond: so no map says 0 or 1, and no log loss is infinite."""
    return np.asarray(expit(np.clip(eta, -LOGIT_BOUND, LOGIT_BOUND)))


def log_probabilities(p: Floats) -> Floats:
    """Logarithms of the probabilities of classes, at least -17; shape (n, K) as that of ``p``."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(p), -LOGIT_BOUND))


def in_words(value: float) -> str:
    """A parameter, for people: four digits, and 0 where nothing but rounding is left of it."""
    return f"{round(value, 9) + 0.0:.4g}"


def added(value: float) -> str:
    """The same as a term behind others: ``+ 0.31`` or ``- 0.31``."""
    return f"{'-' if round(value, 9) < 0.0 else '+'} {in_words(abs(value))}"


def softmax(eta: Floats) -> Floats:
    """Probabilities of classes; shape (n, K) as that of ``eta``.

    What lies more than 17 below the largest of its row counts as lying there, so that none is 0.
    """
    # Never above 0, so that nothing overflows. Classes come first: sums over few columns are slow.
    by_class = np.ascontiguousarray(eta.T)
    odds = np.exp(np.maximum(by_class - by_class.max(axis=0), -LOGIT_BOUND))
    return np.ascontiguousarray((odds / odds.sum(axis=0)).T)


def on_positive(prediction: Floats, recalibrate: Callable[[Floats], Floats]) -> Floats:
    """Apply a map of P(y = 1) to predictions of the shape (n,), or (n, 2): both columns of these follow the second."""
    if prediction.ndim == 1:
        return recalibrate(prediction)
    positive = recalibrate(np.ascontiguousarray(prediction[:, 1]))
    return np.column_stack([1.0 - positive, positive])
