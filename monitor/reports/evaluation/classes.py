"""Reports of models of many classes, and the measures of whole probability vectors with their laws by resampling."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.classes import CLASS_MEASURES, ClassMeasure
from monitor.classes.base import Outcomes, Prepared
from monitor.classes.class_loops import categorical_draws, hits_of_draws
from monitor.errors import NotEnoughData
from monitor.inference import NullLevel, coarsen
from monitor.inference.interval import interval_of_norm
from monitor.measures.base import LARGEST, Limit, MeanLoss, Measure, SemiNorm
from monitor.reports.evaluation.report import MeasureResult, Report, numbers_text
from monitor.scores import ClassTable, ScoreTable, grid

_MAIN: Final = ("skce", "canonical_ece", "mmce")
"""The measures of whole vectors that a report is printed with."""

_SIGNIFICANT: Final = 0.05
"""A larger p-value of a measure, or of its mean over the classes, is not significant."""

_MAX_DRAWN: Final = 4_000_000
"""Drawn numbers held at a time: 32 MB."""

_NULL, _BOOTSTRAP = 20, 21
"""Streams of random numbers: what one caller draws must not depend on what others draw."""

_PAIRS: Final = 2
"""Draws of which the raw predictions are measured beside their cells, to estimate the effect of cells on a measure."""


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
    """The calibration of a model of K classes.

    Attributes
    ----------
    classes
        K.
    prevalence, mean_prediction
        Share of each class among the outcomes, and mean of its probability; empty without outcomes.
    top_label
        The report of the largest probability of each event, and whether its class came true. It also holds the names,
        the number of events and the times of this report; its prevalence is the accuracy.
    each_class
        The report of each class against the rest, from class 0 on, each of the segment ``class=NAME`` as in windows.
    measures
        Measures of whole vectors, by name; empty when ``insufficient``.
    classwise
        Mean over the classes of their measures against the rest, by name, without classes that have too little data.
    insufficient
        Why there are no measures, in words, or None.
    omitted
        Requested measures of whole vectors that are missing: name -> why, in words.
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
        """Predictions whose outcome is known: the measures are of these."""
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
            "measures": {name: result.to_dict() for name, result in self.measures.items()},
            "classwise": {name: result.to_dict() for name, result in self.classwise.items()},
            "insufficient": self.insufficient,
            "omitted": dict(self.omitted),
            "top_label": top_label,
            "each_class": [report.to_dict() for report in self.each_class],
        }


class VectorMeasures(NamedTuple):
    """Measures of whole vectors, and the law of each mean over the classes under calibration."""

    results: Mapping[str, ClassMeasureResult] = {}
    omitted: Mapping[str, str] = {}
    laws: Mapping[str, Floats] = {}


def measure_vectors(
    table: ClassTable,
    class_measures: Mapping[str, ClassMeasure],
    binary_measures: Mapping[str, Measure],
    labels: Sequence[int],
    *,
    draws: int,
    seed: int,
) -> VectorMeasures:
    """Measure whole vectors, and draw the laws of the means of binary measures over these classes."""
    results: dict[str, ClassMeasureResult] = {}
    omitted: dict[str, str] = {}
    prepared: dict[str, Prepared] = {}
    for name, measure in class_measures.items():
        try:
            if measure.findings is not None:
                results[name] = ClassMeasureResult(unit=measure.unit, **asdict(measure.findings(table)))
            else:
                results[name] = ClassMeasureResult(measure.value(table), measure.unit, error_bound=0.0)
                if draws and measure.prepare is not None:
                    prepared[name] = measure.prepare(table)
        except NotEnoughData as error:
            omitted[name] = str(error)
    if draws == 0:
        return VectorMeasures(results, omitted)
    laws, laws_of_means = _null_laws(table, prepared, binary_measures, labels, draws=draws, seed=seed)
    values = {name: results[name].value for name in prepared}
    for name, (lower, upper) in _intervals(table, prepared, values, draws, seed).items():
        result = results[name]
        level = NullLevel.of(laws[name], result.value)
        results[name] = replace(
            result.with_level(level),
            # Of many bins that hold a handful the bootstrap varies a little too little, which at calibration decides.
            lower=0.0 if level.p_value > _SIGNIFICANT else lower,
            upper=min(LARGEST[result.unit], upper),
        )
    return VectorMeasures(results, omitted, laws_of_means)


def means_over_classes(
    reports: Sequence[Report], laws: Mapping[str, Floats], calibrated: Mapping[str, float]
) -> dict[str, MeasureResult]:
    """Average the measures of the classes' reports, with the law of the mean under calibration.

    The mean of the intervals' ends is an interval of the mean, and no narrower than need be: a mean varies less than
    what it is of, unless that moves together. But a lower end of 0 is as far down as one of a single class goes, so of
    a calibrated model the mean of K of them lies above 0 about K times as often as one alone. Where the mean is not
    significant, the lower end is therefore at most ``calibrated``, the value of a calibrated model without chance.
    """
    result: dict[str, MeasureResult] = {}
    for name in reports[0].measures if reports else ():
        results = [report.measures[name] for report in reports if name in report.measures]
        if len(results) < len(reports):
            continue
        value = float(np.mean([one.value for one in results]))
        level = NullLevel.of(laws[name], value) if name in laws else None
        lower = _mean([one.lower for one in results])
        if lower is not None and level is not None and level.p_value > _SIGNIFICANT:
            lower = min(lower, calibrated.get(name, lower))
        upper, bound = _mean([one.upper for one in results]), _mean([one.error_bound for one in results])
        mean = type(results[0])(value, results[0].unit, lower, upper, error_bound=bound)
        result[name] = mean.with_level(level)
    return result


def calibrated_means(table: ClassTable, measures: Mapping[str, Measure], labels: Sequence[int]) -> dict[str, float]:
    """Average what a calibrated model shows without chance: 0, but for what predictions alone add."""
    return {
        name: float(np.mean([measure.smallest(_one_class(table, label, table.outcome)) for label in labels]))
        for name, measure in measures.items()
        if labels and isinstance(measure, SemiNorm | Limit)
    }


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def _one_class(table: ClassTable, label: int, outcome: NDArray[np.integer[Any]]) -> ScoreTable:
    return ScoreTable.from_events(table.prediction[:, label], outcome == label)


def _null_laws(
    table: ClassTable,
    measures: Mapping[str, Prepared],
    binary_measures: Mapping[str, Measure],
    labels: Sequence[int],
    *,
    draws: int,
    seed: int,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Draw each measure of outcomes that follow the predictions, and the mean over the classes of each binary one.

    All measures share the drawn outcomes, so the law of a mean includes the dependence between classes.
    """
    rng = np.random.default_rng([seed, _NULL])
    cumulative = np.cumsum(table.prediction, axis=1)
    parts: dict[str, list[Floats]] = {name: [] for name in measures}
    classes = _OneAgainstRest.of(table, labels)
    means: dict[str, list[Floats]] = {name: [] for name in binary_measures} if labels else {}
    effects: dict[str, float] = {}
    done = 0
    for size in _chunks(draws, max(table.rows, classes.size)):
        outcomes = categorical_draws(rng, cumulative, size)
        for name, measure in measures.items():
            parts[name].append(measure.draws(outcomes))
        positives = hits_of_draws(classes.rows, outcomes, classes.size)
        for name, mean in means.items():
            left = binary_measures[name].max_draws - done
            if left > 0:
                mean.append(classes.mean(binary_measures[name], positives[:left]))
        if done == 0:
            effects = classes.effects(table, {name: binary_measures[name] for name in means}, outcomes, means)
        done += size
    return (
        {name: np.concatenate(chunks) for name, chunks in parts.items()},
        {name: np.concatenate(chunks) + effects.get(name, 0.0) for name, chunks in means.items()},
    )


@dataclass(frozen=True, slots=True)
class _OneAgainstRest:
    """The score tables of single classes, on cells where they have more rows than the grid.

    Attributes
    ----------
    labels
        The classes.
    tables
        Their tables.
    rows
        int32, shape (n, K): the row of each probability, labels through all tables; -1 for classes that are left out.
    """

    labels: tuple[int, ...]
    tables: tuple[ScoreTable, ...]
    rows: NDArray[np.int32]

    @classmethod
    def of(cls, table: ClassTable, labels: Sequence[int]) -> "_OneAgainstRest":
        rows: NDArray[np.int32] = np.full(table.prediction.shape, -1, np.int32)
        tables = []
        first = 0
        for label in labels:
            scores, prediction = table.one_against_rest(label), table.prediction[:, label]
            if scores.rows > grid.cell_count():
                place = np.unique(grid.locate(prediction), return_inverse=True)[1]
                scores = coarsen(scores)
            else:
                place = np.searchsorted(scores.score, prediction)
            rows[:, label] = first + place
            first += scores.rows
            tables.append(scores)
        return cls(tuple(labels), tuple(tables), rows)

    @property
    def size(self) -> int:
        """Rows of all tables together."""
        return sum(table.rows for table in self.tables)

    def mean(self, measure: Measure, positives: Floats) -> Floats:
        """Mean over the classes of a measure of drawn positives, (draws, size) -> (draws,)."""
        total = np.zeros(len(positives))
        first = 0
        for table in self.tables:
            total += measure.of_outcomes(table, np.ascontiguousarray(positives[:, first : first + table.rows]))
            first += table.rows
        return total / len(self.tables)

    def effects(
        self, table: ClassTable, measures: Mapping[str, Measure], outcomes: Outcomes, means: Mapping[str, list[Floats]]
    ) -> dict[str, float]:
        """Estimate from a few draws by how much the mean of raw predictions exceeds that of their cells.

        Semi-norms and mean losses are left out: cells change them by far less than they vary.
        """
        if all(scores.exact for scores in self.tables):
            return {}
        effects = {}
        for name, measure in measures.items():
            if not isinstance(measure, SemiNorm | MeanLoss):
                differences = [
                    np.mean([measure.value(_one_class(table, label, drawn)) for label in self.labels]) - mean
                    for drawn, mean in zip(outcomes[:_PAIRS], means[name][0], strict=False)
                ]
                effects[name] = float(np.mean(differences))
        return effects


def _intervals(
    table: ClassTable, measures: Mapping[str, Prepared], values: Mapping[str, float], draws: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Compute the interval of each semi-norm N from N(v* - v), where v* is a Poisson bootstrap of events.

    As for the measures of P(y = 1), see :func:`monitor.inference.interval`.
    """
    rng = np.random.default_rng([seed, _BOOTSTRAP])
    parts: dict[str, list[Floats]] = {name: [] for name in measures}
    for size in _chunks(draws, table.rows):
        weight = rng.poisson(1.0, (size, table.rows)).astype(np.float64) - 1.0
        for name, measure in measures.items():
            parts[name].append(measure.norms(weight))
    result = {}
    for name, measure in measures.items():
        # Weights of Poisson(1) - 1 have the variance 1.
        spread = float(np.linalg.norm(measure.shares()))
        result[name] = interval_of_norm(values[name], np.concatenate(parts[name]), spread)[:2]
    return result


def _chunks(draws: int, numbers: int) -> Iterator[int]:
    """Sizes of the chunks of draws of so many numbers each."""
    at_once = max(1, min(draws, _MAX_DRAWN // max(1, numbers)))
    for start in range(0, draws, at_once):
        yield min(at_once, draws - start)
