"""Reports of data that somebody hands over: two lists, a file's rows, the body of a request."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError
from monitor.events.model import ALL, UNVERSIONED
from monitor.inference import Progress
from monitor.inference.prevalence import TOLERANCE
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.reports.evaluation.assess import GIVEN, Minimum, assess
from monitor.reports.evaluation.diagnosis import diagnosed
from monitor.reports.evaluation.inputs import (
    Measures,
    Times,
    column,
    measures_by_name,
    relative_weights,
    require_resampling,
    require_tolerance,
    require_unmasked,
    times_ms,
)
from monitor.reports.evaluation.performance import performance
from monitor.reports.evaluation.report import Report
from monitor.reports.evaluation.uncertainty import DRAWS
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_same_index
from monitor.scores.table import check

UNNAMED = "unnamed"
"""The model of data that names none."""


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    time_ms: Times | None = None,
    measures: Measures = REPORT_MEASURES,
    minimum: Minimum = GIVEN,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress | None = None,
    tolerance: float = TOLERANCE,
    model: str = UNNAMED,
    version: str = UNVERSIONED,
    segment: str = ALL,
) -> Report:
    """The whole report of predictions and their outcomes.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), every value in [0, 1].
    y
        Outcomes, shape (n,): 0 or 1 (or bool), nan (or masked) for a prediction whose outcome is not known.
    weight
        shape (n,), every value finite and >= 0; 1 each if left out. Only their ratios matter: they say how much an
        event counts, not how often it was seen. With weights there is no measure that needs whole counts; ``n`` and
        ``positives`` still count predictions, and ``minimum`` is of how many equal ones they are worth.
    time_ms
        Times of the predictions, shape (n,), milliseconds since the epoch or datetimes (numpy's of any unit, or
        Python's and pandas' with or without a zone; without one they are UTC): the report says which times it covers.
    measures
        Those wanted: names, one name, or a mapping of them as :data:`monitor.measures.MEASURES` is.
    minimum
        How much must be known before anything is said. By default all data of at least two outcomes are measured.
    draws
        Resamples for intervals and levels under calibration, at least 19; 0 leaves both out.
    seed
        For the resamples; the data themselves if left out, so that the same data give the same report.
    progress
        Told the share of the work done, now and then.
    tolerance
        Error of the logits up to which the verdict calls nothing a fault: 0.05 changes odds by 5%.
    model, version, segment
        What the report says it is about.

    Returns
    -------
    Report
        Of the window ``all``.

    Raises
    ------
    InputError
        A value is out of its range, lengths differ, an option is wrong, or there are weights and every measure wanted
        needs whole counts. The message names the first such value.

    Examples
    --------
    >>> report = evaluate([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19], [1, 0, 1, 1, 0, 1, 0, 0])
    >>> round(report.measures["smce"].value, 5)
    0.10575
    """
    require_resampling(draws, seed)
    require_tolerance(tolerance)
    wanted = measures_by_name(measures)
    prediction, outcome, weights, times = check_events(p, y, weight=weight, time_ms=time_ms)
    known = ~np.isnan(outcome)
    if weights is not None:
        # That no outcome is known is no matter of weights.
        weights = relative_weights(weights[known]) if known.any() else None
    table = ScoreTable.from_events(prediction[known], outcome[known], weights)
    if table.weighted:
        _require_weighable(wanted)
    assessment = assess(table, measures=wanted, minimum=minimum, draws=draws, seed=seed, progress=progress)
    n = int(np.count_nonzero(known))
    report = Report(
        model=model,
        version=version,
        segment=segment,
        window=ALL,
        from_ms=int(times.min()) if times is not None and times.size else None,
        to_ms=int(times.max()) + 1 if times is not None and times.size else None,
        n=n,
        positives=int(np.count_nonzero(outcome == 1.0)),
        predictions=int(prediction.size),
        prevalence=table.prevalence if table.rows else None,
        mean_prediction=table.mean_prediction if table.rows else None,
        measures=assessment.measures,
        insufficient=assessment.insufficient if prediction.size else "there are no predictions",
        omitted=assessment.omitted,
        performance=performance(table) if assessment.measures else None,
    )
    return diagnosed(report, table, draws=draws, seed=seed, tolerance=tolerance)


class CheckedEvents(NamedTuple):
    """Predictions and outcomes whose values are all valid; float64, shape (n,)."""

    prediction: NDArray[np.float64]
    outcome: NDArray[np.float64]
    """nan where it is not known."""
    weight: NDArray[np.float64] | None
    time_ms: NDArray[np.float64] | None


def check_events(
    p: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, time_ms: Times | None = None
) -> CheckedEvents:
    """Check predictions, outcomes, weights and times, as :func:`evaluate` takes them.

    Raises
    ------
    InputError
        A value is out of its range, or lengths differ. The message names the first such value.
    """
    require_same_index(p=p, y=y, weight=weight, time_ms=time_ms)
    require_unmasked("p", p)
    prediction, outcome = column("p", p), column("y", y)
    if prediction.shape != outcome.shape:
        raise InputError(f"p and y must be equally long, got {prediction.size} and {outcome.size}")
    check(prediction, (prediction >= 0.0) & (prediction <= 1.0), "p must be in [0, 1]")
    times = None if time_ms is None else times_ms(time_ms)
    weights = None
    if weight is not None:
        require_unmasked("weight", weight)
        weights = column("weight", weight)
    for name, values in (("time_ms", times), ("weight", weights)):
        if values is not None and values.shape != prediction.shape:
            raise InputError(f"{name} must be as long as p, got {values.size} and {prediction.size}")
    # Checked before the unknown ones are left out, so that indices are those of the caller.
    check(outcome, np.isnan(outcome) | (outcome == 0.0) | (outcome == 1.0), "y must be 0 or 1")
    if weights is not None:
        check(weights, np.isfinite(weights) & (weights >= 0.0), "weight must be finite and at least 0")
    return CheckedEvents(prediction, outcome, weights, times)


def _require_weighable(measures: Mapping[str, Measure]) -> None:
    """Raise InputError if no measure that is wanted takes weights: there would be events enough, and no answer."""
    if measures and all(each.needs_whole_counts for each in measures.values()):
        names = " and ".join(measures)
        takes = " or ".join(name for name, each in WINDOW_MEASURES.items() if not each.needs_whole_counts)
        raise InputError(
            f"{names} {'needs' if len(measures) == 1 else 'need'} whole counts, and there are weights: leave weight "
            f"out, or ask for a measure that takes weights, such as {takes}"
        )
