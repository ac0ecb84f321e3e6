"""Reports of data that is handed over, be it of two classes or of many."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError
from monitor.events.model import ALL, UNVERSIONED
from monitor.inference import Progress
from monitor.inference.prevalence import TOLERANCE
from monitor.measures import REPORT_MEASURES
from monitor.reports.evaluation import data
from monitor.reports.evaluation.assess import GIVEN, Minimum
from monitor.reports.evaluation.classes import ClassReport, evaluate_classes
from monitor.reports.evaluation.inputs import Measures, Times, numbers, require_unmasked
from monitor.reports.evaluation.report import Report
from monitor.scores.arguments import require_same_index


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    time_ms: Times | None = None,
    measures: Measures = REPORT_MEASURES,
    minimum: Minimum = GIVEN,
    draws: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    tolerance: float = TOLERANCE,
    model: str = data.UNNAMED,
    version: str = UNVERSIONED,
    segment: str = ALL,
) -> Report | ClassReport:
    """The whole report of predictions and their outcomes.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), or probability vectors, shape (n, K).
    y
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan or masked where it is not known.
    weight
        shape (n,); not with probability vectors.
    draws
        Resamples for intervals and levels; 0 leaves both out. 999 if left out, of many classes 199.
    time_ms, measures, minimum, seed, progress, tolerance, model, version, segment
        See :func:`.data.evaluate` and :func:`.classes.evaluate_classes`, where
        ``measures`` are those of the top label.

    Returns
    -------
    Report or ClassReport
        The latter of probability vectors.

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. The message names the first such value.

    Examples
    --------
    >>> report = evaluate([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19], [1, 0, 1, 1, 0, 1, 0, 0])
    >>> round(report.measures["smce"].value, 5)
    0.10575
    >>> report = evaluate([[0.7, 0.2, 0.1]] * 100, [0] * 50 + [1] * 30 + [2] * 20)
    >>> round(report.measures["mmce"].value, 5)
    0.2
    """
    require_same_index(p=p, y=y, weight=weight, time_ms=time_ms)
    prediction = predictions_of(p)
    options: dict[str, Any] = {
        "time_ms": time_ms,
        "measures": measures,
        "minimum": minimum,
        "seed": seed,
        "progress": progress,
        "tolerance": tolerance,
        "model": model,
        "version": version,
        "segment": segment,
        **({} if draws is None else {"draws": draws}),
    }
    if not holds_vectors(prediction):
        return data.evaluate(prediction, y, weight=weight, **options)
    if weight is not None:
        raise InputError("weight must be left out for probability vectors, whose measures count whole events")
    return evaluate_classes(prediction, y, **options)


def predictions_of(p: ArrayLike) -> NDArray[np.float64]:
    """Read predictions of either kind as float64; their values are not checked.

    Raises
    ------
    InputError
        They are no numbers, or masked, or vectors of several lengths.
    """
    require_unmasked("p", p)
    try:
        return numbers("p", p)
    except InputError as error:
        ragged = "; of class probabilities, as many for each event" if isinstance(error.__cause__, ValueError) else ""
        raise InputError(f"{error}{ragged}") from error


def holds_vectors(prediction: NDArray[np.float64]) -> bool:
    """Tell whether predictions are probability vectors.

    A single column is a mistake, and is said to be one where columns are checked.
    """
    return prediction.ndim == 2 and prediction.shape[1] != 1
