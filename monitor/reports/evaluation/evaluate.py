"""Report on predictions in memory, of two classes or of many."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats
from monitor.classes import CLASS_MEASURES, ClassMeasure
from monitor.classes.hypothesis_tests import table_seed
from monitor.errors import InputError
from monitor.events.model import ALL, UNVERSIONED, SeriesKey
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.options import TOLERANCE, Option
from monitor.progress import Progress, no_progress
from monitor.reports.evaluation.assess import DRAWS, FILE_MINIMUM, WINDOW_DRAWS, Minimum, assess, build_report
from monitor.reports.evaluation.classes import (
    ClassReport,
    VectorMeasures,
    calibrated_means,
    means_over_classes,
    measure_vectors,
)
from monitor.reports.evaluation.diagnosis import diagnosed
from monitor.reports.evaluation.inputs import (
    Measures,
    Resampling,
    Times,
    check_events,
    check_vectors,
    holds_vectors,
    measures_by_name,
    predictions_of,
    require_tolerance,
    times_ms,
)
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.scores import ClassTable, GridTable, ScoreTable
from monitor.scores.arguments import require_same_index
from monitor.scores.table import relative_weights

UNNAMED: Final = "unnamed"
"""The model of data that names none."""

MAX_CLASS_REPORTS: Final = 50
"""Classes up to which each has a report of its own unless the caller asks for them: more take minutes."""


class ScoreOptions(TypedDict, total=False):
    """Options of every report: see :func:`evaluate_scores`."""

    measures: Measures
    minimum: Minimum
    seed: int | None
    progress: Progress
    tolerance: float
    model: str
    version: str
    segment: str


class Options(ScoreOptions, total=False):
    """Options that reports of two classes and of many have in common: see :func:`evaluate_binary`."""

    time_ms: Times | None


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    draws: int | None = None,
    of_classes: bool = False,
    **options: Unpack[Options],
) -> Report | ClassReport:
    """Report on predictions P(y = 1), shape (n,) or (n, 2), or on probability vectors, shape (n, K).

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), or the probabilities of 0 and 1, shape (n, 2); or probability vectors, shape
        (n, K).
    y
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan or masked where unknown.
    weight
        shape (n,); not with probability vectors.
    draws
        Resamples for intervals and levels; 0 leaves both out. 999 if left out, for many classes 199.
    of_classes
        Whether the shape (n, 2) is of many classes, too: two classes that were declared.
    options
        See :func:`evaluate_binary`; of vectors, ``measures`` are those of the top label.

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
    require_same_index(p=p, y=y, weight=weight, time_ms=options.get("time_ms"))
    prediction = predictions_of(p, of_classes=of_classes)
    if not holds_vectors(prediction):
        return evaluate_binary(prediction, y, weight=weight, draws=DRAWS if draws is None else draws, **options)
    if weight is not None:
        raise InputError("weight must be left out for probability vectors, whose measures count whole events")
    return evaluate_classes(prediction, y, draws=WINDOW_DRAWS if draws is None else draws, **options)


class ScoredRows(NamedTuple):
    """Predictions of two classes as a report needs them: a score table, and counts."""

    table: ScoreTable
    """The predictions with an outcome."""
    n: int
    """Number of predictions with an outcome."""
    positives: int
    predictions: int
    span_ms: tuple[int, int] | None
    """Times from the first prediction to after the last one, milliseconds since the epoch."""

    @classmethod
    def of_events(
        cls, p: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, time_ms: Times | None = None
    ) -> "ScoredRows":
        """Score predictions; arguments and errors are those of :func:`evaluate_binary`."""
        prediction, outcome, weights, times = check_events(p, y, weight=weight, time_ms=time_ms)
        labelled = ~np.isnan(outcome)
        if weights is not None:
            weights = relative_weights(weights[labelled]) if labelled.any() else None
        return cls(
            ScoreTable.from_events(prediction[labelled], outcome[labelled], weights),
            n=int(np.count_nonzero(labelled)),
            positives=int(np.count_nonzero(outcome == 1.0)),
            predictions=int(prediction.size),
            span_ms=None if times is None or not times.size else (int(times.min()), int(times.max()) + 1),
        )

    @classmethod
    def of_cells(cls, cells: GridTable, span_ms: tuple[int, int] | None = None) -> "ScoredRows":
        """Predictions that were counted on the grid; values differ by at most each measure's error bound."""
        table = cells.to_scores()
        return cls(table, cells.labelled, int(table.positives.sum()), cells.predictions, span_ms)


def evaluate_binary(
    p: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    time_ms: Times | None = None,
    draws: int = DRAWS,
    **options: Unpack[ScoreOptions],
) -> Report:
    """Report on predictions of two classes, in the window ``all``.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), every value in [0, 1].
    y
        Outcomes, shape (n,): 0 or 1 (or bool), nan (or masked) for a prediction whose outcome is unknown.
    weight
        shape (n,), every value finite and >= 0; 1 each if left out. Only their ratios matter: they say how much an
        event counts, not how often it was seen. Measures that need whole counts are left out then; ``n`` and
        ``positives`` still count predictions, and ``minimum`` is compared with the number of equal ones they are worth.
    time_ms
        Times of the predictions, shape (n,), milliseconds since the epoch or datetimes (numpy's of any unit, or
        Python's and pandas' with or without a zone; without one they are UTC).
    draws, options
        See :func:`evaluate_scores`.

    Raises
    ------
    InputError
        A value is out of its range, lengths differ, an option is wrong, or there are weights and every measure wanted
        needs whole counts. The message names the first such value.

    Examples
    --------
    >>> report = evaluate_binary([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19], [1, 0, 1, 1, 0, 1, 0, 0])
    >>> round(report.measures["smce"].value, 5)
    0.10575
    """
    return evaluate_scores(ScoredRows.of_events(p, y, weight=weight, time_ms=time_ms), draws=draws, **options)


def evaluate_scores(
    rows: ScoredRows,
    *,
    measures: Measures = REPORT_MEASURES,
    minimum: Minimum = FILE_MINIMUM,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress = no_progress,
    tolerance: float = TOLERANCE,
    model: str = UNNAMED,
    version: str = UNVERSIONED,
    segment: str = ALL,
) -> Report:
    """Measure and diagnose a score table, in the window ``all``.

    Parameters
    ----------
    rows
        Raw predictions or counted ones.
    measures
        Names, one name, or a mapping such as :data:`monitor.measures.MEASURES`.
    minimum
        How much data a report needs. By default all data of at least two outcomes are measured.
    draws
        Resamples for intervals and levels under calibration, at least 19; 0 leaves both out.
    seed
        Seed of the resamples; derived from the data if left out, so that the same data give the same report.
    progress
        Called with the share of the work done.
    tolerance
        Error of the logits up to which the verdict calls nothing a fault: 0.05 changes odds by 5%.
    model, version, segment
        Names in the report.

    Raises
    ------
    InputError
        An option is wrong, or there are weights and every measure wanted needs whole counts.
    """
    Resampling(draws, seed).check()
    require_tolerance(tolerance)
    wanted = measures_by_name(measures)
    if rows.table.weighted:
        require_weighable(wanted)
    from_ms, to_ms = rows.span_ms or (None, None)
    report = build_report(
        ReportKey(SeriesKey(model, version, segment), ALL),
        rows.table,
        assess(rows.table, measures=wanted, minimum=minimum, draws=draws, seed=seed, progress=progress),
        from_ms=from_ms,
        to_ms=to_ms,
        n=rows.n,
        positives=rows.positives,
        predictions=rows.predictions,
        emptiness=None if rows.predictions else "there are no predictions",
    )
    return diagnosed(report, rows.table, draws=draws, seed=seed, tolerance=tolerance)


def evaluate_classes(
    p: ArrayLike,
    y: ArrayLike,
    *,
    class_measures: Mapping[str, ClassMeasure] = CLASS_MEASURES,
    each_class: Measures | None = None,
    draws: int = WINDOW_DRAWS,
    class_names: Sequence[str] = (),
    **options: Unpack[Options],
) -> ClassReport:
    """Report on predictions of many classes.

    Parameters
    ----------
    p
        Probability vectors, shape (n, K), K >= 2, every row >= 0 and of sum 1 within 0.01. Rows of sum 1 within 1e-6
        stay as they are, others are divided by it.
    y
        The class that came true, shape (n,): whole numbers in [0, K), nan (or masked) where unknown.
    class_measures
        Measures of whole vectors, by name.
    each_class
        Binary measures of each class against the rest, and of their mean over the classes. With none, there are no
        reports of single classes. If left out, those of windows up to 50 classes, and none beyond.
    draws
        Resamples for intervals and levels under calibration, at least 19; 0 leaves both out, but for SKCE, whose level
        and interval follow from theory.
    class_names
        Names of the K classes, for the reports of each; their numbers if left out.
    options
        See :func:`evaluate_binary`; ``measures`` are those of the top label, and the minimum of positives and negatives
        applies to the binary reports.

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. The message names the first such row.

    Examples
    --------
    >>> report = evaluate_classes([[0.7, 0.2, 0.1]] * 100, [0] * 50 + [1] * 30 + [2] * 20)
    >>> round(report.measures["top_label_ece"].value, 3), round(report.classwise["ece"].value, 3)
    (0.2, 0.133)
    """
    seed, segment, progress = options.get("seed"), options.get("segment", ALL), options.get("progress", no_progress)
    time_ms, minimum = options.get("time_ms"), options.get("minimum", FILE_MINIMUM)
    Resampling(draws, seed).check()
    require_same_index(p=p, y=y, time_ms=time_ms)
    vectors, labelled = check_vectors(p, y)
    if class_names and len(class_names) != vectors.classes:
        raise InputError(f"class_names must name each of the {vectors.classes} classes, got {len(class_names)}")
    names = class_names or [str(label) for label in range(vectors.classes)]
    class_wise: Mapping[str, Measure] = WINDOW_MEASURES if vectors.classes <= MAX_CLASS_REPORTS else {}
    if each_class is not None:
        class_wise = measures_by_name(each_class) if each_class else {}
    if time_ms is not None:
        options["time_ms"] = times_ms(time_ms)
    labels = range(vectors.classes if class_wise else 0)
    steps = len(labels) + 2  # the top label, each class and whole vectors take about as long

    def report(prediction: Floats, hit: Bools, step: int, changes: Options) -> Report:
        wanted: Options = {**options, **changes, "progress": lambda share: progress((step + share) / steps)}
        return evaluate_binary(prediction, np.where(labelled, hit, np.nan), draws=draws, **wanted)

    top = np.argmax(vectors.prediction, axis=1)
    top_label = report(vectors.prediction[np.arange(vectors.rows), top], top == vectors.outcome, 0, {})
    prefix = "" if segment == ALL else f"{segment}, "
    reports = tuple(
        report(
            vectors.prediction[:, label],
            vectors.outcome == label,
            1 + label,
            {"measures": class_wise, "segment": f"{prefix}class={names[label]}"},
        )
        for label in labels
    )
    measured = VectorMeasures()
    counted = [label for label in labels if reports[label].insufficient is None]
    # In the order of their content, so that what is drawn does not depend on the order of the rows.
    prediction, outcome = vectors.prediction[labelled], vectors.outcome[labelled]
    order = np.lexsort((outcome, *prediction.T))
    table = ClassTable(prediction[order], outcome[order])
    shortfall = minimum.shortfall_of_events(table.rows) if vectors.rows else "there are no predictions"
    if shortfall is None:
        own_seed = table_seed(table) if seed is None else seed
        measured = measure_vectors(table, class_measures, class_wise, counted, draws=draws, seed=own_seed)
    progress(1.0)
    return ClassReport(
        classes=vectors.classes,
        prevalence=tuple((np.bincount(outcome, minlength=table.classes) / table.rows).tolist() if table.rows else ()),
        mean_prediction=tuple(table.prediction.mean(axis=0).tolist() if table.rows else ()),
        top_label=replace(top_label, performance=None),
        each_class=reports,
        measures=measured.results,
        classwise=means_over_classes(
            [reports[label] for label in counted],
            measured.laws,
            {} if shortfall else calibrated_means(table, class_wise, counted),
        ),
        insufficient=shortfall,
        omitted=measured.omitted,
    )


def require_weighable(measures: Mapping[str, Measure]) -> None:
    """Raise InputError if no measure that is wanted takes weights."""
    if measures and all(measure.needs_whole_counts for measure in measures.values()):
        names = " and ".join(measures)
        takes = " or ".join(name for name, measure in WINDOW_MEASURES.items() if not measure.needs_whole_counts)
        raise InputError(
            f"{names} {'needs' if len(measures) == 1 else 'need'} whole counts, and there are weights: leave "
            f"{Option.WEIGHT} out, or choose a measure that takes weights, such as {takes}"
        )
