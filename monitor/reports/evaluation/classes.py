"""Reports of models of many classes: as whole vectors, by top label, and each class against the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.classes import CLASS_MEASURES, ClassMeasure
from monitor.classes.base import Prepared
from monitor.classes.hypothesis_tests import table_seed
from monitor.errors import InputError, NotEnoughData
from monitor.events.model import ALL, UNVERSIONED
from monitor.inference import NullLevel, Progress
from monitor.inference.prevalence import TOLERANCE
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.measures.base import LARGEST, Limit, Measure, SemiNorm
from monitor.reports.evaluation.assess import GIVEN, Minimum
from monitor.reports.evaluation.class_laws import ends, null_laws
from monitor.reports.evaluation.data import UNNAMED, evaluate
from monitor.reports.evaluation.inputs import (
    Measures,
    Times,
    column,
    measures_by_name,
    numbers,
    require_resampling,
    require_unmasked,
    times_ms,
)
from monitor.reports.evaluation.report import MeasureResult, Report, numbers_text
from monitor.reports.evaluation.uncertainty import WINDOW_DRAWS
from monitor.scores import ClassTable
from monitor.scores.arguments import require_same_index

Floats = NDArray[np.float64]

MOST_CLASS_REPORTS: Final = 50
"""Classes up to which each has a report of its own unless asked otherwise: more take minutes, and nobody reads them."""

_MAIN: Final = ("skce", "canonical_ece", "mmce")
"""The measures of whole vectors that a report is printed with."""

_CHANCE: Final = 0.05
"""p-value above which a measure, or its mean over the classes, is what chance gives a calibrated model."""


@dataclass(frozen=True, slots=True)
class ClassMeasureResult(MeasureResult):
    """One measure of whole vectors.

    Attributes
    ----------
    method
        How it was computed, in words, where that depends on the number of events.
    """

    method: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ClassReport:
    """What is known of the calibration of a model of K classes.

    Attributes
    ----------
    classes
        K.
    prevalence, mean_prediction
        Share of each class among the outcomes, and mean of its probability; empty without outcomes.
    top_label
        The report of the largest probability of each event, and whether its class came true. It says what this report
        is about, how many events there are and which times they cover; its prevalence is the accuracy.
    each_class
        The report of each class against the rest, from class 0 on, each of the segment ``class=NAME`` as in windows.
    measures
        Measures of whole vectors, by name; empty when ``insufficient``.
    classwise
        Mean over the classes of their measures against the rest, by name. A class of too little data is left out of
        it, as its own report says.
    insufficient
        Why there are no measures, in words, or None.
    omitted
        Measures of whole vectors that were asked for and are not there: name -> why, in words.
    """

    classes: int
    prevalence: tuple[float, ...]
    mean_prediction: tuple[float, ...]
    top_label: Report
    each_class: tuple[Report, ...] = ()
    measures: Mapping[str, ClassMeasureResult] = field(default_factory=dict)
    classwise: Mapping[str, MeasureResult] = field(default_factory=dict)
    insufficient: str | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"{self.classes} classes; of the most probable one:", repr(self.top_label)]
        if self.measures:
            main = [(CLASS_MEASURES[name].title, self.measures[name]) for name in _MAIN if name in self.measures]
            lines.append(f"whole vectors: {numbers_text(main)}")
        return "\n".join(lines)

    @property
    def n(self) -> int:
        """Predictions whose outcome is known, which the measures are of."""
        return self.top_label.n

    @property
    def accuracy(self) -> float | None:
        """Share of the events whose most probable class came true; None without outcomes."""
        return self.top_label.prevalence

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON shows it."""
        top_label = self.top_label.to_dict()
        shared = ("model", "version", "segment", "window", "from", "to", "n", "predictions", "label_coverage")
        return {
            **{key: top_label[key] for key in shared},
            "classes": self.classes,
            "accuracy": self.accuracy,
            "prevalence": list(self.prevalence),
            "mean_prediction": list(self.mean_prediction),
            "measures": {name: _shown(result) for name, result in self.measures.items()},
            "classwise": {name: _shown(result) for name, result in self.classwise.items()},
            "insufficient": self.insufficient,
            "omitted": dict(self.omitted),
            "top_label": top_label,
            "each_class": [report.to_dict() for report in self.each_class],
        }


def evaluate_classes(
    p: ArrayLike,
    y: ArrayLike,
    *,
    time_ms: Times | None = None,
    class_measures: Mapping[str, ClassMeasure] = CLASS_MEASURES,
    measures: Measures = REPORT_MEASURES,
    each_class: Measures | None = None,
    minimum: Minimum = GIVEN,
    draws: int = WINDOW_DRAWS,
    seed: int | None = None,
    progress: Progress | None = None,
    tolerance: float = TOLERANCE,
    model: str = UNNAMED,
    version: str = UNVERSIONED,
    segment: str = ALL,
    class_names: Sequence[str] = (),
) -> ClassReport:
    """The whole report of predictions of many classes and their outcomes.

    Parameters
    ----------
    p
        Probability vectors, shape (n, K), K >= 2, every row >= 0 and of sum 1 within 0.01. Rows of sum 1 within 1e-6
        stay as they are, others are divided by it.
    y
        The class that came true, shape (n,): whole numbers in [0, K), nan (or masked) where it is not known.
    time_ms
        Times of the predictions, shape (n,), milliseconds since the epoch or datetimes.
    class_measures
        Those wanted of whole vectors, by name.
    measures
        Binary measures wanted of the top label: names, one name, or a mapping of them.
    each_class
        Binary measures wanted of each class against the rest, and of which the mean over the classes is taken. With
        none, there are no reports of single classes. If left out, those of windows up to 50 classes, and none beyond.
    minimum
        How much must be known before anything is said; of positives and negatives, in the binary reports.
    draws
        Resamples for intervals and levels under calibration, at least 19; 0 leaves both out, but for SKCE, whose level
        and interval follow from theory.
    seed
        For the resamples; the data themselves if left out, so that the same data give the same report.
    progress
        Told the share of the work done, now and then.
    tolerance
        See :func:`~monitor.reports.evaluation.data.evaluate`.
    model, version, segment
        What the report says it is about.
    class_names
        Names of the K classes, for the reports of each; their numbers if left out.

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
    require_resampling(draws, seed)
    require_same_index(p=p, y=y, time_ms=time_ms)
    every, known = check_vectors(p, y)
    names = _names(class_names, every.classes)
    wanted_of_each = WINDOW_MEASURES if every.classes <= MOST_CLASS_REPORTS else {}
    if each_class is not None:
        wanted_of_each = measures_by_name(each_class) if each_class else {}
    times = None if time_ms is None else times_ms(time_ms)
    table = _in_order(ClassTable(every.prediction[known], every.outcome[known]))

    def report(prediction: Floats, hit: NDArray[np.bool_], wanted: Measures, step: int, about: str) -> Report:
        return evaluate(
            prediction,
            np.where(known, hit, np.nan),
            time_ms=times,
            measures=wanted,
            minimum=minimum,
            draws=draws,
            seed=seed,
            progress=_part(progress, step, steps),
            tolerance=tolerance,
            model=model,
            version=version,
            segment=about,
        )

    labels = range(every.classes if wanted_of_each else 0)
    steps = len(labels) + 2  # the top label, each class and whole vectors take about as long
    top = np.argmax(every.prediction, axis=1)
    top_label = report(every.prediction[np.arange(every.rows), top], top == every.outcome, measures, 0, segment)
    reports = tuple(
        report(
            every.prediction[:, label],
            every.outcome == label,
            wanted_of_each,
            1 + label,
            f"class={names[label]}" if segment == ALL else f"{segment}, class={names[label]}",
        )
        for label in labels
    )
    found, counted = _Found({}, {}, {}), list[int]()
    shortfall = _shortfall(table, minimum) if every.rows else "there are no predictions"
    if shortfall is None:
        counted = [label for label, each in enumerate(reports) if each.insufficient is None]
        own_seed = table_seed(table) if seed is None else seed
        found = _measure(table, class_measures, wanted_of_each, counted, draws=draws, seed=own_seed)
    if progress is not None:
        progress(1.0)
    return ClassReport(
        classes=every.classes,
        prevalence=tuple(
            (np.bincount(table.outcome, minlength=table.classes) / table.rows).tolist() if table.rows else ()
        ),
        mean_prediction=tuple(table.prediction.mean(axis=0).tolist() if table.rows else ()),
        top_label=replace(top_label, performance=None),
        each_class=reports,
        measures=found.measures,
        classwise=_classwise(
            [each for each in reports if each.insufficient is None], found.laws, _least(table, wanted_of_each, counted)
        ),
        insufficient=shortfall,
        omitted=found.omitted,
    )


def _shown(result: MeasureResult) -> dict[str, Any]:
    """A result as JSON shows it, which has no infinite bounds."""
    bound = result.error_bound
    return {**asdict(result), "error_bound": bound if bound is not None and isfinite(bound) else None}


class _Found(NamedTuple):
    """What whole vectors say, and the law of each class-wise mean under calibration."""

    measures: Mapping[str, ClassMeasureResult]
    omitted: Mapping[str, str]
    laws: Mapping[str, Floats]


def check_vectors(p: ArrayLike, y: ArrayLike) -> tuple[ClassTable, NDArray[np.bool_]]:
    """Check probability vectors and classes, as :func:`evaluate_classes` takes them.

    Returns
    -------
    ClassTable, array
        Every prediction, with class 0 where the outcome is not known; and where it is known, bool, shape (n,).

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. The message names the first such row.
    """
    require_unmasked("p", p)
    outcome = column("y", y)
    known = ~np.isnan(outcome)
    return ClassTable.from_events(numbers("p", p), np.where(known, outcome, 0.0), names=("p", "y")), known


def _names(names: Sequence[str], classes: int) -> Sequence[str]:
    if names and len(names) != classes:
        raise InputError(f"class_names must name each of the {classes} classes, got {len(names)}")
    return names or [str(label) for label in range(classes)]


def _in_order(table: ClassTable) -> ClassTable:
    """The events in the order of their content, so that what is drawn does not depend on how they came."""
    order = np.lexsort((table.outcome, *table.prediction.T))
    return ClassTable(table.prediction[order], table.outcome[order])


def _shortfall(table: ClassTable, minimum: Minimum) -> str | None:
    """What is missing, in words, or None."""
    if table.rows >= minimum.events:
        return None
    if table.rows == 0:
        return f"no prediction has an outcome: at least {minimum.events} are needed"
    return f"only {table.rows} of at least {minimum.events} predictions have an outcome"


def _measure(
    table: ClassTable,
    class_measures: Mapping[str, ClassMeasure],
    each_class: Mapping[str, Measure],
    counted: Sequence[int],
    *,
    draws: int,
    seed: int,
) -> _Found:
    results: dict[str, ClassMeasureResult] = {}
    omitted: dict[str, str] = {}
    drawn: dict[str, Prepared] = {}
    for name, measure in class_measures.items():
        try:
            if measure.findings is not None:
                found = measure.findings(table)
                results[name] = ClassMeasureResult(unit=measure.unit, **asdict(found))
            else:
                results[name] = ClassMeasureResult(measure.value(table), measure.unit, error_bound=0.0)
                if draws and measure.prepare is not None:
                    drawn[name] = measure.prepare(table)
        except NotEnoughData as error:
            omitted[name] = str(error)
    if draws == 0:
        return _Found(results, omitted, {})
    laws, classwise_laws = null_laws(table, drawn, each_class, counted, draws=draws, seed=seed)
    values = {name: results[name].value for name in drawn}
    for name, (lower, upper) in ends(table, drawn, values, draws, seed).items():
        point = results[name]
        level = NullLevel.of(laws[name], point.value)
        results[name] = replace(
            point,
            # Of many bins that hold a handful the bootstrap varies a little too little, which at calibration decides.
            lower=0.0 if level.p_value > _CHANCE else lower,
            upper=min(LARGEST[point.unit], upper),
            null_mean=level.mean,
            null_q95=level.q95,
            p_value=level.p_value,
        )
    return _Found(results, omitted, classwise_laws)


def _classwise(
    reports: Sequence[Report], laws: Mapping[str, Floats], least: Mapping[str, float]
) -> dict[str, MeasureResult]:
    """Means over the classes of what their reports say, with the law of the mean under calibration.

    The mean of the intervals' ends is an interval of the mean, and no narrower than need be: a mean varies less than
    what it is of, unless that moves together. But a lower end of 0 is as far down as one of a single class goes, so of
    a calibrated model the mean of K of them lies above 0 about K times as often as one alone. Where the mean is within
    chance, the lower end is therefore no higher than what the mean of a calibrated model's law is, ``least``.
    """
    result: dict[str, MeasureResult] = {}
    for name in reports[0].measures if reports else ():
        each = [report.measures[name] for report in reports if name in report.measures]
        if len(each) < len(reports):
            continue
        value = float(np.mean([one.value for one in each]))
        level = NullLevel.of(laws[name], value) if name in laws else None
        lower = _mean([one.lower for one in each])
        if lower is not None and level is not None and level.p_value > _CHANCE:
            lower = min(lower, least.get(name, lower))
        result[name] = type(each[0])(
            value,
            each[0].unit,
            lower=lower,
            upper=_mean([one.upper for one in each]),
            null_mean=None if level is None else level.mean,
            null_q95=None if level is None else level.q95,
            p_value=None if level is None else level.p_value,
            error_bound=_mean([one.error_bound for one in each]),
        )
    return result


def _least(table: ClassTable, measures: Mapping[str, Measure], counted: Sequence[int]) -> dict[str, float]:
    """The mean over the classes that count of the law of a calibrated model: 0, but for what predictions alone add."""
    result: dict[str, float] = {}
    for name, measure in measures.items() if counted else ():
        if isinstance(measure, SemiNorm | Limit):
            result[name] = float(np.mean([measure.smallest(table.one_against_rest(label)) for label in counted]))
    return result


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if len(there) == len(values) else None


def _part(progress: Progress | None, step: int, steps: int) -> Progress | None:
    """Progress of one step of several."""
    if progress is None:
        return None
    return lambda share: progress((step + share) / steps)
