"""Value of calibration for decisions: when to answer, and when to say "unsure"."""

from typing import Final

import numpy as np

from monitor.arrays import Bools, Floats, Ints

COST_RATIOS: Final = (2.0, 5.0, 10.0, 20.0, 50.0)
"""Default costs of a wrong answer, in units of the cost of "unsure"."""


def reward(prediction: Floats, outcome: Ints, weight: Floats, cost_ratio: float) -> float:
    r"""Compute the mean reward of answering if the confidence is above :math:`1 - u/w`, and saying "unsure" otherwise.

    .. math:: -\frac1n \sum_i \left( 1[c_i \le 1 - u/w] + \frac wu\, 1[c_i > 1 - u/w]\, 1[\text{wrong}_i] \right)

    with c the confidence in the answer, w the cost of a wrong one and u that of being unsure, which is the unit. For a
    calibrated model no other threshold does better.

    Parameters
    ----------
    prediction
        Shape (n,): P(y = 1), with the confidence max(p, 1 - p) in the answer; or (n, K), with the largest of each row.
    outcome
        Shape (n,): 0 or 1; or the class that came true.
    weight
        Shape (n,): weight of each event.
    cost_ratio
        w / u, above 1: otherwise "unsure" would never pay.

    Returns
    -------
    float
        In [-cost_ratio, 0], in units of u: 0 if every answer is right, -1 if the answer is always
        "unsure".

    Notes
    -----
    Source: "Local Calibration: Metrics and Recalibration", section 5.4.
    """
    confidence, wrong, w = _answers(prediction, outcome, weight)
    answered = confidence > 1.0 - 1.0 / cost_ratio
    return -float(np.where(answered, cost_ratio * wrong, 1.0) @ w)


def prediction_rejection_ratio(prediction: Floats, outcome: Ints, weight: Floats) -> float | None:
    """Measure how well confidence separates right from wrong answers, between chance (0) and an oracle (1).

    Answers are passed to an oracle, the least confident first; the remaining errors, as a function of the passed
    share, are a curve. The ratio is the area between it and that of a random order, divided by the area between that
    of the best order and that of a random one. Answers of equal confidence are passed in a random order.

    Parameters
    ----------
    prediction, outcome, weight
        See :func:`reward`.

    Returns
    -------
    float or None
        At most 1; below 0 if confidence misleads. None if no answer is wrong, or all are.

    Notes
    -----
    Source: Malinin, Mlodozeniec, Gales, "Ensemble distribution distillation", 2020, which the paper names in section
    5.4. It depends on the order of the confidences alone, and so hardly on a global recalibration.
    """
    confidence, wrong, w = _answers(prediction, outcome, weight)
    errors = float(wrong @ w)
    if errors in {0.0, 1.0} or not wrong.any() or wrong.all():
        return None
    level = np.unique(confidence, return_inverse=True)[1]
    size, missed = np.bincount(level, w), np.bincount(level, w * wrong)
    # Remaining errors before and after each level of confidence is passed; linear in between.
    left = errors - np.concatenate([[0.0], np.cumsum(missed)])
    area = float((size * (left[:-1] + left[1:])).sum() / 2.0)
    return (errors / 2.0 - area) / (errors / 2.0 - errors**2 / 2.0)


def _answers(prediction: Floats, outcome: Ints, weight: Floats) -> tuple[Floats, Bools, Floats]:
    """Return the confidence of each answer, whether it is wrong, and its share of the weight; shape (n,) each."""
    if prediction.ndim == 1:
        confidence, answer = np.maximum(prediction, 1.0 - prediction), (prediction >= 0.5).astype(np.int64)
    else:
        confidence, answer = prediction.max(axis=1), np.argmax(prediction, axis=1)
    return confidence, answer != outcome, weight / weight.sum()
