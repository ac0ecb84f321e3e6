"""Reports of data that is handed over, be it of two classes or of many."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from monitor.errors import InputError
from monitor.evaluation import data
from monitor.evaluation.assess import GIVEN, Minimum
from monitor.evaluation.classes import ClassReport, evaluate_classes
from monitor.evaluation.report import Report
from monitor.events.model import ALL, UNVERSIONED
from monitor.inference import Progress
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import Measure


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    time_ms: ArrayLike | None = None,
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    minimum: Minimum = GIVEN,
    draws: int | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
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
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan where it is not known.
    weight
        shape (n,); not with probability vectors.
    draws
        Resamples for intervals and levels; 0 leaves both out. 999 if left out, of many classes 199.
    time_ms, measures, minimum, seed, progress, model, version, segment
        See :func:`monitor.evaluation.data.evaluate` and :func:`monitor.evaluation.classes.evaluate_classes`, where
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
    try:
        prediction = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"p must be numbers: {error}; of class probabilities, as many for each event") from error
    options: dict[str, Any] = {
        "time_ms": time_ms,
        "measures": measures,
        "minimum": minimum,
        "seed": seed,
        "progress": progress,
        "model": model,
        "version": version,
        "segment": segment,
        **({} if draws is None else {"draws": draws}),
    }
    if prediction.ndim != 2:
        return data.evaluate(prediction, y, weight=weight, **options)
    if weight is not None:
        raise InputError("weight must be left out for probability vectors, whose measures count whole events")
    return evaluate_classes(prediction, y, **options)
