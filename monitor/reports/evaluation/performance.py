"""How good a model is beside its calibration: whether it became worse, or only its probabilities."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.measures import log_loss
from monitor.scores import ScoreTable

THRESHOLD: Final = 0.5
"""Predictions from here on count as positive where accuracy is taken."""


@dataclass(frozen=True, slots=True)
class Performance:
    """Scores of a model. What is None is not defined on these outcomes, or not finite.

    Attributes
    ----------
    accuracy
        Share of the events that a threshold of 1/2 puts right; a prediction of 1/2 counts as positive.
    auc
        Area under the ROC curve: probability that a positive has the higher prediction than a negative, where ties
        count one half. No recalibration that keeps the order of the predictions changes it.
    average_precision
        Mean of the precision at each threshold, weighted by the recall that it adds; equal predictions are one
        threshold. To be compared with the prevalence, which is what a useless model has.
    log_loss
        Mean of -log of the probability that was given to what happened.
    """

    accuracy: float
    auc: float | None
    average_precision: float | None
    log_loss: float | None


def performance(table: ScoreTable) -> Performance:
    """Accuracy, AUC, average precision and log loss of a table of at least one row.

    A table of cells takes the predictions of a cell for equal: AUC and average precision then are those of predictions
    that are rounded to their cell.

    Notes
    -----
    Source: as ``accuracy_score``, ``roc_auc_score``, ``average_precision_score`` and ``log_loss`` of scikit-learn, with
    whose values the tests compare, weights and ties included.
    """
    positives, negatives = table.positives, table.negatives
    all_positives, all_negatives = float(positives.sum()), float(negatives.sum())
    right = np.where(table.score >= THRESHOLD, positives, negatives)
    auc, precision = None, None
    if all_positives > 0.0 and all_negatives > 0.0:
        lower = np.cumsum(negatives) - negatives / 2.0
        auc = float(positives @ lower) / (all_positives * all_negatives)
    if all_positives > 0.0:
        hits = np.cumsum(positives[::-1])
        precision = float(positives[::-1] @ (hits / np.cumsum(table.counts[::-1]))) / all_positives
    loss = log_loss(table)
    return Performance(float(right.sum()) / table.total, auc, precision, loss if np.isfinite(loss) else None)
