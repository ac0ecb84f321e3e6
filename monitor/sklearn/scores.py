"""The calibration measures in scikit-learn's order of arguments, for ``make_scorer`` and ``cross_val_score``."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats, Ints
from monitor.classes import CLASS_MEASURES
from monitor.errors import InputError, NotEnoughData
from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.scores import ClassTable, ScoreTable
from monitor.scores.arguments import numbers
from monitor.scores.table import check, relative_weights
from monitor.sklearn.labels import read_outcomes


class Score(Protocol):
    """A measure as a function of outcomes and predictions: less is better."""

    __name__: str

    def __call__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        labels: Sequence[Any] | None = None,
    ) -> float:
        """Measure the calibration of predictions.

        Parameters
        ----------
        y_true
            Outcomes, shape (n,).
        y_prob
            P(y = pos_label), shape (n,); or the probability of each class as ``predict_proba`` returns it, shape
            (n, K). Of more than two classes a measure of two is that of the top label, as in a report.
        sample_weight
            How much each row counts beside the others, shape (n,); for measures of two classes.
        pos_label
            The outcome that ``y_prob`` is the probability of; 1 where outcomes are 0 and 1, or -1 and 1.
        labels
            The classes of the columns of ``y_prob``; the distinct outcomes in ascending order if left out.

        Raises
        ------
        ValueError
            A value is out of its range, it is not clear which outcome is meant, or there are too few rows.
        """
        ...


def _score(name: str) -> Score:
    """The score of the measure of this name."""

    def score(
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        labels: Sequence[Any] | None = None,
    ) -> float:
        try:
            p, y = read_outcomes(y_true, y_prob, pos_label, labels)
            if p.ndim == 1 and name in MEASURES:
                return _of_two_classes(MEASURES[name], p, y, sample_weight)
            return _of_classes(name, p, y, sample_weight)
        except (InputError, NotEnoughData) as error:
            raise ValueError(str(error)) from error

    score.__name__ = score.__qualname__ = f"{name}_score"  # so that it is sent to other processes by its name
    title = MEASURES[name].help if name in MEASURES else CLASS_MEASURES[name].help
    score.__doc__ = f"{title}\n\nSee :class:`Score` for the arguments; the value is that of :func:`monitor.evaluate`."
    return score


def _of_two_classes(measure: Measure, p: Floats, y: Ints, sample_weight: ArrayLike | None) -> float:
    if sample_weight is None:
        return float(measure.value(ScoreTable.from_events(p, y)))
    if measure.needs_whole_counts:
        raise InputError(f"sample_weight must be left out: {measure.name} counts whole events")
    weight = numbers("sample_weight", sample_weight)
    check(weight, np.isfinite(weight) & (weight >= 0.0), "sample_weight must be finite and at least 0")
    if not weight.any():
        raise InputError("sample_weight must not be zero for all rows")
    return float(measure.value(ScoreTable.from_events(p, y, relative_weights(weight))))


def _of_classes(name: str, p: Floats, y: Ints, sample_weight: ArrayLike | None) -> float:
    if sample_weight is not None:
        raise InputError(f"sample_weight must be left out: {name} of many classes counts whole events")
    vectors = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    table = ClassTable.from_events(vectors, y, names=("y_prob", "y_true"))
    if name in CLASS_MEASURES:
        return float(CLASS_MEASURES[name].value(table))
    return float(MEASURES[name].value(table.top_label()))


tce_score: Final = _score("tce")
tce_t_score: Final = _score("tce_t")
kce_score: Final = _score("kce")
kce_logit_score: Final = _score("kce_logit")
smce_score: Final = _score("smce")
intce_score: Final = _score("intce")
surrogate_intce_score: Final = _score("surrogate_intce")
rintce_score: Final = _score("rintce")
ece_score: Final = _score("ece")
ece_quantile_score: Final = _score("ece_quantile")
rmsce_score: Final = _score("rmsce")
mce_score: Final = _score("mce")
binned_ece_width_score: Final = _score("binned_ece_width")
ecce_score: Final = _score("ecce")
dce_lower_score: Final = _score("dce_lower")
brier_score: Final = _score("brier")
log_loss_score: Final = _score("log_loss")
spiegelhalter_score: Final = _score("spiegelhalter")
skce_score: Final = _score("skce")
canonical_ece_score: Final = _score("canonical_ece")
mmce_score: Final = _score("mmce")
top_label_ece_score: Final = _score("top_label_ece")
sce_score: Final = _score("sce")
ace_score: Final = _score("ace")
tace_score: Final = _score("tace")

# Those of measures that are added. The ones above are named for readers and type checkers.
globals().update(
    {f"{name}_score": _score(name) for name in (*MEASURES, *CLASS_MEASURES) if f"{name}_score" not in globals()}
)
