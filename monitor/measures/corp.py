"""The CORP decomposition: how much of a proper score is miscalibration, and how much discrimination."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import scipy

from monitor.arrays import Floats
from monitor.measures.brier import BRIER
from monitor.measures.log_loss import LOG_LOSS
from monitor.measures.proper_score import ProperScore, total_loss
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice
from monitor.scores.table import require_events

Score = Literal["brier", "log_loss"]

_SCORES: Final[dict[Score, ProperScore]] = {"brier": BRIER, "log_loss": LOG_LOSS}


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A proper score in three parts: score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    score
        The score itself.
    miscalibration
        The part that the best isotonic recalibration removes, at least 0. Smaller is better.
    discrimination
        The gain of the recalibrated predictions over the prevalence alone, at least 0. Larger is better.
    uncertainty
        The score of the prevalence: how hard the outcomes are to predict for any model.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def corp_curve(table: ScoreTable) -> Floats:
    """The recalibrated predictions: isotonic regression of the outcomes on the predictions.

    Parameters
    ----------
    table
        m rows.

    Returns
    -------
    float64, shape (m,)
        The frequency at each row's score, not falling: the CORP reliability diagram draws it over ``table.score``.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021.
    """
    require_events(table, "the CORP curve")
    counts = table.counts
    curve = scipy.optimize.isotonic_regression(table.positives / counts, weights=counts).x
    return np.asarray(np.clip(curve, 0.0, 1.0))  # rounding can move a mean of frequencies out of [0, 1]


def corp_decomposition(table: ScoreTable, score: Score = "brier") -> Decomposition:
    r"""Decompose a proper score S by isotonic recalibration.

    .. math:: \bar S(p) = \underbrace{\bar S(p) - \bar S(\hat p)}_\mathrm{miscalibration}
        - \underbrace{(\bar S(\bar y) - \bar S(\hat p))}_\mathrm{discrimination}
        + \underbrace{\bar S(\bar y)}_\mathrm{uncertainty}

    with :math:`\hat p` the predictions recalibrated by isotonic regression and :math:`\bar y` the prevalence.

    Parameters
    ----------
    table
        m rows. In a table of the grid the events of a cell share their recalibrated prediction.
    score
        ``brier`` or ``log_loss``, in nats. The miscalibration of the latter is infinite where the log loss is.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``score`` is neither.

    Notes
    -----
    Isotonic regression fits noise too: a calibrated model has a miscalibration above 0, which falls as n^(-2/3).

    Source: Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021.

    Examples
    --------
    >>> parts = corp_decomposition(ScoreTable.from_events([0.2] * 4 + [0.6] * 4, [0, 0, 0, 1, 0, 1, 1, 1]))
    >>> parts.score, round(parts.miscalibration, 6), parts.discrimination, parts.uncertainty
    (0.2, 0.0125, 0.0625, 0.25)
    """
    require_choice("score", score, get_args(Score))
    proper = _SCORES[score]
    value = proper.value(table)
    recalibrated = _mean(table, proper, corp_curve(table))
    uncertainty = _mean(table, proper, np.full(table.rows, table.prevalence))
    return Decomposition(
        score=value,
        # The tangent in the score of cells can make it smaller by its last bits.
        miscalibration=max(0.0, value - recalibrated),
        discrimination=max(0.0, uncertainty - recalibrated),
        uncertainty=uncertainty,
    )


def _mean(table: ScoreTable, score: ProperScore, prediction: Floats) -> float:
    return float(total_loss(table.positives, table.negatives, score.loss(prediction))) / table.total
