"""The report: one immutable value for a file, a window and a REST answer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from math import isfinite
from typing import Any, Final, NamedTuple, Self

import numpy as np

from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_known
from monitor.inference import NullLevel
from monitor.measures import MEASURES, Decomposition, log_loss
from monitor.measures.base import Unit
from monitor.measures.binned_errors import first_rows
from monitor.reports.formatting import rounded_share
from monitor.scores import ScoreTable

REACH: Final = 1.96
"""Standard errors from an estimate to the ends of its 95% interval."""
THRESHOLD: Final = 0.5
"""Predictions from here on count as positive where accuracy is taken."""


@dataclass(frozen=True, slots=True)
class Performance:
    """Scores of a model; None where one is not defined on these outcomes, or not finite.

    Attributes
    ----------
    accuracy
        Share of the events that a threshold of 1/2 classifies correctly; a prediction of 1/2 counts as positive.
    auc
        Area under the ROC curve: probability that a positive has a higher prediction than a negative; ties count one
        half. A recalibration that keeps the order of the predictions does not change it.
    average_precision
        Mean of the precision at each threshold, weighted by the recall that it adds; equal predictions are one
        threshold. A model without skill has the prevalence.
    log_loss
        Mean of -log of the predicted probability of the actual outcome.
    """

    accuracy: float
    auc: float | None
    average_precision: float | None
    log_loss: float | None


def performance(table: ScoreTable) -> Performance:
    """Accuracy, AUC, average precision and log loss of a table of at least one row.

    In a table of cells, the predictions of a cell count as equal: AUC and average precision are then those of
    predictions rounded to their cell.

    Notes
    -----
    Source: ``accuracy_score``, ``roc_auc_score``, ``average_precision_score`` and ``log_loss`` of scikit-learn; the
    tests compare with its values, with weights and ties.
    """
    positives, negatives = table.positives, table.negatives
    all_positives, all_negatives = float(positives.sum()), float(negatives.sum())
    correct = np.where(table.score >= THRESHOLD, positives, negatives)
    auc, precision = None, None
    if all_positives > 0.0 and all_negatives > 0.0:
        lower = np.cumsum(negatives) - negatives / 2.0
        auc = float(positives @ lower) / (all_positives * all_negatives)
    if all_positives > 0.0:
        hits = np.cumsum(positives[::-1])
        precision = float(positives[::-1] @ (hits / np.cumsum(table.counts[::-1]))) / all_positives
    loss = log_loss(table)
    return Performance(float(correct.sum()) / table.total, auc, precision, loss if np.isfinite(loss) else None)


BINS: Final = 10
"""As many as ECE has by default."""


class ReliabilityBin(NamedTuple):
    """The labelled predictions in [lower, lower + 1/10); in the last bin, up to and with 1.

    ``prediction_sum / labelled`` over ``positives / labelled`` is a point of the reliability diagram.
    """

    lower: str
    """Lower edge, as text: ``0.3``."""
    labelled: int
    positives: int
    prediction_sum: float


def reliability_bins(table: ScoreTable) -> tuple[ReliabilityBin, ...]:
    """Sum up the non-empty bins of a window's reliability diagram, ascending.

    Parameters
    ----------
    table
        m rows, without weights. For a table from the grid the bins are exact.
    """
    first = first_rows(table, "equal_width", BINS).tolist()
    predictions = table.positive_sum + table.negative_sum
    return tuple(
        ReliabilityBin(
            f"{at / BINS:.1f}",
            int(table.counts[start:end].sum()),
            int(table.positives[start:end].sum()),
            float(predictions[start:end].sum()),
        )
        for at, (start, end) in enumerate(pairwise(first))
        if start < end
    )


_MAIN: Final = ("tce", "kce", "smce", "intce", "ece")
"""The measures that a report is printed with, where it has them."""

_COUNTS: Final = ("n", "positives", "prevalence", "mean_prediction", "predictions", "label_coverage")
"""Attributes of a report that JSON shows as they are."""

_RARE: Final = 0.05
_ROUNDING: Final = 1e-9
"""Rounding of a mean of equal draws, as for predictions of 1/2."""


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """One measure of one window.

    Attributes
    ----------
    value
        The measure, in ``unit``.
    unit
        ``percent`` (0 to 100), ``ratio`` (0 to 1), ``nats`` or ``sigma``.
    lower, upper
        95% confidence interval, or None where the measure has none or it is not computed yet.
    null_mean, null_q95
        Mean and 95% point of the measure if the model were perfectly calibrated on the same predictions.
    p_value
        Share of perfectly calibrated resamples that are at least as far off.
    error_bound
        How far ``value`` can lie from that of the raw predictions; 0 for a file. For a measure whose bins follow the
        data (TCE) an estimate, which holds nearly always.
    """

    value: float
    unit: Unit
    lower: float | None = None
    upper: float | None = None
    null_mean: float | None = None
    null_q95: float | None = None
    p_value: float | None = None
    error_bound: float | None = None

    def with_level(self, level: NullLevel | None) -> Self:
        """Add the level under calibration, if there is one, and the p-value of this value."""
        if level is None:
            return self
        return replace(self, null_mean=level.mean, null_q95=level.q95, p_value=level.p_value_of(self.value))

    @property
    def below_chance(self) -> bool:
        """Whether at most 5% of calibrated models score as low; never but for a proper score."""
        return False

    @property
    def significant(self) -> bool | None:
        """Whether the value is outside the range of 95 in 100 calibrated models; None without their level."""
        return None if self.null_q95 is None else self.value > self.null_q95 or self.below_chance

    @property
    def verdict(self) -> str:
        """Verdict in words: ``within chance``, ``beyond chance``, ``below chance`` or ``not judged``."""
        if self.significant is None:
            return "not judged"
        return "below chance" if self.below_chance else "beyond chance" if self.significant else "within chance"

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON shows it: without an infinite bound, which JSON cannot hold."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.error_bound is not None and not isfinite(self.error_bound):
            shown["error_bound"] = None
        return shown


@dataclass(frozen=True, slots=True)
class ScoreResult(MeasureResult):
    """A proper score, Brier score or log loss, compared with the scores of a calibrated model.

    A calibrated model that makes these predictions scores about ``null_mean``, so a value far below it is evidence
    against the model as one far above is: fewer of the unlikely outcomes came true than were predicted.
    """

    @property
    def below_chance(self) -> bool:
        """Whether at most 5% of calibrated models score as low: the counterpart of a value above ``null_q95``.

        That is p > .95, as the data count among the draws. Where the smallest score has a probability of its own, as
        that of no positives at all, p is 1 however likely it is: so the value must also lie as far below the mean as
        the 95% point lies above.
        """
        if self.p_value is None or self.null_mean is None or self.null_q95 is None:
            return False
        beyond = self.null_mean - self.value
        return self.p_value > 1.0 - _RARE and beyond > _ROUNDING and beyond >= self.null_q95 - self.null_mean


class Verdict(StrEnum):
    """What is wrong with a model, if anything, as the command line, REST, pages and Prometheus name it."""

    CALIBRATED = "calibrated"
    PRIOR_SHIFT = "prior_shift"
    SHAPE = "shape_miscalibration"
    BOTH = "both"
    INSUFFICIENT = "insufficient_data"

    @property
    def words(self) -> str:
        """The verdict in words: ``prior shift``."""
        return _WORDS.get(self.value, self.value.replace("_", " "))


_WORDS: Final = {"both": "prior and shape"}


class Severity(StrEnum):
    """The size of a fault: the root mean square by which the logits are off.

    The limits are the same for every model; only the tolerance, below which there is no fault, is each model's own.
    """

    NONE = "none"
    SLIGHT = "slight"
    MODERATE = "moderate"
    SEVERE = "severe"

    @classmethod
    def of(cls, logit_error: float) -> "Severity":
        """Classify a fault of this size."""
        if logit_error <= _SLIGHT:
            return cls.SLIGHT
        return cls.MODERATE if logit_error <= _MODERATE else cls.SEVERE

    @property
    def rank(self) -> int:
        """0 to 3, in the order of size."""
        return list(Severity).index(self)


_SLIGHT: Final = 0.2
"""Logits that are off by up to this change odds by up to 22%."""
_MODERATE: Final = 0.5
"""Likewise by up to 65%."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Is the prior wrong or the shape? Logits are z = logit p. Numbers are None where these data do not give them.

    Attributes
    ----------
    verdict
        The verdict.
    sentence
        The result in words, and what to do about it.
    p_value
        Combined p-value of the window's tests of calibration, of any kind.
    offset, offset_error
        b of sigmoid(z + b), what has to be added to every logit, and its standard error.
    slope, slope_error
        a of sigmoid(a z + c), below 1 where the model is overconfident, and its standard error.
    slope_lower, slope_upper
        95% interval of the slope, by the profile likelihood.
    error, error_after_offset
        smCE as it is, and of the predictions after the best offset alone.
    logit_error_after_offset
        Root mean square by which logits are off after the best offset: by ranges of predictions, less what chance adds,
        by the slope, or by contradictions of the most confident predictions.
    prior_shift_p_value
        p-value of the hypothesis that a shift of the prior is the only fault.
    severity
        Size of the fault that the verdict names.
    tolerance
        Error of the logits up to which nothing is called a fault.
    detectable_offset, detectable_slope_below, detectable_slope_above
        The smallest faults detected on these predictions with probability .8: an offset of either sign, a slope below 1
        and one above.
    """

    verdict: Verdict
    sentence: str
    p_value: float | None = None
    offset: float | None = None
    offset_error: float | None = None
    slope: float | None = None
    slope_error: float | None = None
    slope_lower: float | None = None
    slope_upper: float | None = None
    error: float | None = None
    error_after_offset: float | None = None
    logit_error_after_offset: float | None = None
    prior_shift_p_value: float | None = None
    severity: Severity | None = None
    tolerance: float | None = None
    detectable_offset: float | None = None
    detectable_slope_below: float | None = None
    detectable_slope_above: float | None = None

    @property
    def offset_interval(self) -> tuple[float, float] | None:
        """95% interval of the offset, if there is one."""
        if self.offset is None or self.offset_error is None:
            return None
        reach = REACH * self.offset_error
        return self.offset - reach, self.offset + reach

    @property
    def slope_interval(self) -> tuple[float, float] | None:
        """95% interval of the slope, if there is one."""
        if self.slope_lower is None or self.slope_upper is None:
            return None
        return self.slope_lower, self.slope_upper

    @property
    def words(self) -> str:
        """Verdict and severity in words: ``moderate prior shift``."""
        if self.severity in {None, Severity.NONE}:
            return self.verdict.words
        return f"{self.severity} {self.verdict.words}"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The calibration of one series in one window.

    Attributes
    ----------
    from_ms, to_ms
        Prediction times covered, [from, to), milliseconds since the epoch; None where the data has no times.
    n
        Predictions whose outcome is known (or implied): the measures are of these.
    predictions
        All predictions of the window, with or without an outcome.
    measures
        By name; empty when ``insufficient``.
    insufficient
        Why there are no measures, in words, or None.
    omitted
        Requested measures that are missing: name -> why, in words.
    decomposition
        Proper scores in parts: ``brier`` and ``log_loss``, where they are finite.
    diagnosis
        Whether the prior or the shape is wrong; None where it was not requested or is not computed yet.
    canonical
        Measures of whole probability vectors, by name: ``skce`` of a window of a model of several classes whose panes
        hold sketches. The other measures of the same report are of the top label.
    performance
        Accuracy, AUC, average precision and log loss; None where there are no measures, and for the top label of many
        classes.
    bins
        The reliability diagram of a window's labelled predictions. Empty for a file, and not in JSON: raw predictions
        allow better bins.
    intervals_outdated_since_ms
        Since when intervals, levels under calibration, p-values and diagnosis lag behind the values, in milliseconds
        since the epoch: they are of earlier predictions, or not there yet. None where they are of the same.
    """

    model: str
    version: str
    segment: str
    window: str
    from_ms: int | None
    to_ms: int | None
    n: int
    positives: int
    predictions: int
    prevalence: float | None
    mean_prediction: float | None
    measures: Mapping[str, MeasureResult] = field(default_factory=dict)
    insufficient: str | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)
    decomposition: Mapping[str, Decomposition] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    canonical: Mapping[str, MeasureResult] = field(default_factory=dict)
    performance: Performance | None = None
    bins: tuple[ReliabilityBin, ...] = ()
    intervals_outdated_since_ms: int | None = None

    def __repr__(self) -> str:
        about = self.model if self.segment == ALL else f"{self.model}, {self.segment}"
        counts = f"{self.predictions:,} predictions, {self.n:,} with an outcome"
        rate, mean = (rounded_share(share, "unknown") for share in (self.prevalence, self.mean_prediction))
        lines = [f"Calibration of {about}: {counts}, prevalence {rate}, mean prediction {mean}"]
        if self.diagnosis is not None:
            words = self.diagnosis.words
            lines.append(f"{words[:1].upper()}{words[1:]}. {self.diagnosis.sentence}")
        if self.insufficient is not None:
            lines.append(f"no measures: {self.insufficient}")
        main = [name for name in _MAIN if name in self.measures] or list(self.measures)
        if main:
            titles = {name: MEASURES[name].title if name in MEASURES else name for name in main}
            lines.append(numbers_text((titles[name], self.measures[name]) for name in main))
        return "\n".join(lines)

    @property
    def key(self) -> "ReportKey":
        """Its key in a snapshot."""
        return ReportKey(SeriesKey(self.model, self.version, self.segment), self.window)

    @property
    def label_coverage(self) -> float | None:
        """Share of the window's predictions whose outcome is known; None without predictions."""
        return self.n / self.predictions if self.predictions else None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON shows it."""
        return {
            **{name: getattr(self, name) for name in ("model", "version", "segment", "window")},
            "from": format_known(self.from_ms),
            "to": format_known(self.to_ms),
            **{name: getattr(self, name) for name in _COUNTS},
            "measures": {name: result.to_dict() for name, result in self.measures.items()},
            "canonical": {name: result.to_dict() for name, result in self.canonical.items()},
            "insufficient": self.insufficient,
            "omitted": dict(self.omitted),
            "decomposition": {
                score: {name: getattr(parts, name) for name in ("miscalibration", "discrimination", "uncertainty")}
                for score, parts in self.decomposition.items()
            },
            "diagnosis": None if self.diagnosis is None else asdict(self.diagnosis),
            "performance": None if self.performance is None else asdict(self.performance),
            "intervals_outdated_since": format_known(self.intervals_outdated_since_ms),
        }


def leading_measure(names: Iterable[str]) -> str:
    """The measure that speaks for the others where there is room for one: smCE, or the first there is."""
    known = dict.fromkeys(names)
    return "smce" if "smce" in known or not known else next(iter(known))


def numbers_text(results: Iterable[tuple[str, MeasureResult]]) -> str:
    """Measures with their titles in a line, each with the 95% point of calibrated models."""
    texts = []
    for title, result in results:
        chance = "" if result.null_q95 is None else f" (chance {_amount(result.null_q95, result.unit)})"
        texts.append(f"{title} {_amount(result.value, result.unit)}{chance}")
    return ", ".join(texts)


def _amount(value: float, unit: Unit) -> str:
    return f"{value:.1f}%" if unit == "percent" else f"{value:.4f}"


class ReportKey(NamedTuple):
    """Names one report of a snapshot."""

    series: SeriesKey
    window: str
