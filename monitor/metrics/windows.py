"""The series of the latest snapshot: windows, their diagnosis, and the evaluation itself."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from threading import Lock
from typing import Any, Final, NamedTuple

import structlog

from monitor.events.model import ALL
from monitor.measures.base import Measure
from monitor.metrics.measures import CANONICAL, measure_series
from monitor.metrics.series import (
    REPORT_LABELS,
    VERSION_LABELS,
    Family,
    Labels,
    Level,
    Rows,
    SampleWriter,
    Series,
    Value,
    WrittenFamily,
    read_families,
)
from monitor.reports.evaluation.report import Diagnosis, ReliabilityBin, Report, Verdict
from monitor.windows.evaluator import Evaluator
from monitor.windows.maturity import AgeCohort
from monitor.windows.snapshot import Snapshot

_log = structlog.get_logger(__name__)


def _window(name: str, meaning: str, read: Callable[[Report], Value], level: Level = Level.VALUES) -> Series[Report]:
    return Series(name, meaning, read, REPORT_LABELS, level)


def _diagnosis(
    name: str,
    meaning: str,
    read: Callable[[Diagnosis], Value],
    level: Level = Level.VALUES,
    *,
    label: str | None = None,
    is_ratio: bool = False,
) -> Series[Report]:
    labels = REPORT_LABELS if label is None else (*REPORT_LABELS, label)
    return Series(
        name,
        meaning,
        lambda report: None if report.diagnosis is None else read(report.diagnosis),
        labels,
        level,
        is_ratio=is_ratio,
    )


def _end(interval: tuple[float, float] | None, at: int) -> float | None:
    return None if interval is None else interval[at]


DIAGNOSIS: Final = (
    _diagnosis(
        "calibration_verdict",
        "1 for the verdict on the window, 0 for the others. All are absent while there is none.",
        lambda diagnosis: [((verdict.value,), diagnosis.verdict is verdict) for verdict in Verdict],
        label="verdict",
    ),
    _diagnosis(
        "calibration_severity",
        "How large the fault of the verdict is: 0 no fault, 1 slight (logits off by up to 0.2), 2 moderate (up to "
        "0.5), 3 severe.",
        lambda diagnosis: None if diagnosis.severity is None else diagnosis.severity.rank,
    ),
    _diagnosis(
        "calibration_offset_logit",
        "What has to be added to every logit so that the mean prediction is right: 0 is none, and it compares across "
        "prevalences. Absent when the data is insufficient, as all of the diagnosis.",
        lambda diagnosis: diagnosis.offset,
    ),
    _diagnosis(
        "calibration_offset_logit_lower",
        "Lower end of the offset's 95% confidence interval.",
        lambda diagnosis: _end(diagnosis.offset_interval, 0),
    ),
    _diagnosis(
        "calibration_offset_logit_upper",
        "Upper end of the offset's 95% confidence interval.",
        lambda diagnosis: _end(diagnosis.offset_interval, 1),
    ),
    _diagnosis(
        "calibration_slope",
        "Slope of the true logits over the predicted ones: 1 is right, below 1 predictions are too sure of themselves. "
        "Absent where it is not finite.",
        lambda diagnosis: diagnosis.slope,
    ),
    _diagnosis(
        "calibration_slope_lower",
        "Lower end of the slope's 95% confidence interval.",
        lambda diagnosis: _end(diagnosis.slope_interval, 0),
        Level.INTERVALS,
    ),
    _diagnosis(
        "calibration_slope_upper",
        "Upper end of the slope's 95% confidence interval.",
        lambda diagnosis: _end(diagnosis.slope_interval, 1),
        Level.INTERVALS,
    ),
    _diagnosis(
        "calibration_p_value",
        "Combined p-value of the hypothesis that the model is calibrated: of one window, and no guard against many "
        "looks.",
        lambda diagnosis: diagnosis.p_value,
        is_ratio=True,
    ),
    _diagnosis(
        "calibration_prior_shift_p_value",
        "p-value of the hypothesis that a shift of the prior is all there is.",
        lambda diagnosis: diagnosis.prior_shift_p_value,
        is_ratio=True,
    ),
    _diagnosis(
        "calibration_error_after_offset",
        "smCE of the predictions after their best offset: what an update of the intercept leaves.",
        lambda diagnosis: diagnosis.error_after_offset,
        Level.INTERVALS,
        is_ratio=True,
    ),
    _diagnosis(
        "calibration_logit_error_after_offset",
        "Root mean square by which logits are off after their best offset, by stretches, slope or contradictions.",
        lambda diagnosis: diagnosis.logit_error_after_offset,
    ),
)

WINDOWS: Final = (
    _window(
        "calibration_window_predictions",
        "Predictions of the window, with or without an outcome.",
        lambda report: report.predictions,
    ),
    _window(
        "calibration_window_labelled",
        "Predictions of the window whose outcome is known or implied: what the measures are of.",
        lambda report: report.n,
    ),
    _window(
        "calibration_window_positives",
        "Positive outcomes in the window.",
        lambda report: report.positives,
    ),
    _window(
        "calibration_prevalence_ratio",
        "Share of positives among the labelled predictions of the window. Absent when there are none.",
        lambda report: report.prevalence,
    ),
    _window(
        "calibration_mean_prediction_ratio",
        "Mean of the labelled predictions of the window. Absent when there are none.",
        lambda report: report.mean_prediction,
    ),
    _window(
        "calibration_label_coverage_ratio",
        "Share of the window's predictions whose outcome is known or implied. Absent without predictions.",
        lambda report: report.label_coverage,
    ),
    _window(
        "calibration_insufficient_data",
        "1 if the window holds too little data for any measure, which are absent then; 0 otherwise. The report says "
        "why in words.",
        lambda report: report.insufficient is not None,
    ),
    _window(
        "calibration_window_end_timestamp_seconds",
        "Prediction time at which the window ends, seconds since the epoch.",
        lambda report: None if report.to_ms is None else report.to_ms / 1000,
        Level.INTERVALS,
    ),
)
WATERMARK: Final = Series[int](
    "calibration_watermark_timestamp_seconds",
    "Newest event time seen of the model, seconds since the epoch.",
    lambda watermark_ms: watermark_ms / 1000,
    ("model",),
)
SETTLED: Final = Series[int](
    "calibration_settled_timestamp_seconds",
    "Settled edge of the model, seconds since the epoch: predictions before it are final in all partitions, and mature "
    "windows end there. Absent until something is settled.",
    lambda edge_ms: edge_ms / 1000 if edge_ms >= 0 else None,
    ("model",),
)


def _bin(name: str, meaning: str, read: Callable[[ReliabilityBin], float]) -> Series[Report]:
    """A series of the bins of reliability diagrams. ``bin`` is the lower edge of one of ten: ``0.0`` to ``0.9``."""

    def read_bins(report: Report) -> Rows:
        return [((part.lower,), read(part)) for part in report.bins]

    return Series(name, meaning, read_bins, (*REPORT_LABELS, "bin"), Level.ALL)


RELIABILITY: Final = (
    _bin(
        "calibration_bin_labelled",
        "Labelled predictions of the window in one of ten bins of equal width, named by its lower edge; of several "
        "classes it is the top label's probability that is binned. Absent where the bin is empty.",
        lambda part: part.labelled,
    ),
    _bin(
        "calibration_bin_positives",
        "Positive outcomes in the bin; of several classes, how often the top label came true. "
        "Absent where the bin is empty.",
        lambda part: part.positives,
    ),
    # Not `_sum`: Prometheus keeps that ending for histograms and summaries.
    _bin(
        "calibration_bin_summed_predictions",
        "Sum of the labelled predictions in the bin. Absent where the bin is empty.",
        lambda part: part.prediction_sum,
    ),
)
COVERAGE: Final[tuple[Series[Sequence[AgeCohort]], ...]] = (
    Series(
        "calibration_cohort_predictions",
        "Predictions of an age, which is told in quarters of the horizon, back from the newest event; mature: beyond "
        "the horizon and settled, as far as a window reaches.",
        lambda cohorts: [((cohort.cohort,), cohort.predictions) for cohort in cohorts],
        (*VERSION_LABELS, "cohort"),
    ),
    Series(
        "calibration_cohort_labelled",
        "Predictions of that age that have an outcome; implied negatives are none.",
        lambda cohorts: [((cohort.cohort,), cohort.labelled) for cohort in cohorts],
        (*VERSION_LABELS, "cohort"),
    ),
)


class _Scrape(NamedTuple):
    """The evaluator, the snapshot that is exported, and how many series of it are."""

    evaluator: Evaluator
    snapshot: Snapshot
    exported: int
    dropped_total: int

    @property
    def outdated_ms(self) -> list[int]:
        """Since when reports wait for intervals, those that do."""
        since = (report.intervals_outdated_since_ms for report in self.snapshot.reports.values())
        return [since_ms for since_ms in since if since_ms is not None]

    @property
    def longest_outdated_seconds(self) -> float:
        """Time that the first of them had been waiting at the evaluation."""
        return (self.snapshot.evaluated_ms - min(self.outdated_ms, default=self.snapshot.evaluated_ms)) / 1000


EVALUATION: Final[tuple[Series[_Scrape], ...]] = (
    Series(
        "calibration_evaluations_total",
        "Evaluations of all windows since the process started.",
        lambda scrape: scrape.evaluator.evaluations_total,
    ),
    Series(
        "calibration_evaluation_failures_total",
        "Reports that could not be made, since the process started; an evaluation that failed whole counts as one.",
        lambda scrape: scrape.evaluator.failures_total,
    ),
    Series(
        "calibration_failed_reports",
        "Reports that the last evaluation could not make.",
        lambda scrape: len(scrape.snapshot.failures),
    ),
    Series(
        "calibration_held_series",
        "Combinations of model, version and segment whose panes this process holds, of all partitions: those that the "
        "last evaluation measured, and those that it left out.",
        lambda scrape: scrape.evaluator.series_held,
    ),
    Series(
        "calibration_unevaluated_series",
        "Combinations of model, version and segment that the last evaluation left out because there were too many.",
        lambda scrape: scrape.evaluator.series_dropped,
    ),
    Series(
        "calibration_stale_evaluations",
        "For how many evaluations the longest outdated interval or level has been waiting to be renewed.",
        lambda scrape: scrape.evaluator.staleness,
    ),
    Series(
        "calibration_outdated_seconds",
        "For how long the longest outdated intervals, levels and verdict of a report had been waiting to be renewed at "
        "the last evaluation; 0 while all are of the same predictions as their values.",
        lambda scrape: scrape.longest_outdated_seconds,
    ),
    Series(
        "calibration_outdated_reports",
        "Reports whose intervals, levels and verdict wait to be renewed: they are of earlier predictions than the "
        "values.",
        lambda scrape: len(scrape.outdated_ms),
    ),
    Series(
        "calibration_evaluation_duration_seconds",
        "What the values of the last evaluation took, without renewing intervals. Absent before the first.",
        lambda scrape: scrape.snapshot.duration_seconds if scrape.snapshot.number else None,
    ),
    Series(
        "calibration_evaluation_timestamp_seconds",
        "When the last evaluation was, seconds since the epoch. Absent before the first.",
        lambda scrape: scrape.snapshot.evaluated_ms / 1000 if scrape.snapshot.number else None,
    ),
    Series(
        "calibration_series_exported",
        "Time series about windows in this answer; see the setting that caps them.",
        lambda scrape: scrape.exported,
    ),
    Series(
        "calibration_series_dropped_total",
        "Time series about windows that the cap left out, counted once an evaluation. Segments are left out first.",
        lambda scrape: scrape.dropped_total,
    ),
)


def report_series(measures: Iterable[Measure], level: Level) -> tuple[Series[Report], ...]:
    """The series about a window that are exported at a level."""
    series = (*measure_series(measures), *CANONICAL, *DIAGNOSIS, *WINDOWS, *RELIABILITY)
    return tuple(one for one in series if one.level <= level)


Coverage = Mapping[tuple[str, str], Sequence[AgeCohort]]
"""(model, version) -> its predictions by age."""


class WindowFamilies:
    """The families of the latest snapshot. What is no longer in the snapshot is no longer exported.

    Parameters
    ----------
    evaluator
        Counts evaluations and failures.
    exported
        Returns the part of the latest snapshot that this process exports.
    measures
        The measures whose series are exported.
    max_series
        Cap on time series about windows. A report is exported whole or not at all; declared models come first, and
        whole models before segments, so that a flood of names pushes out no model that the settings name.
    declared
        The models that the settings name.
    level
        How much is exported of each window.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        measures: Iterable[Measure],
        *,
        exported: Callable[[], Snapshot],
        max_series: int,
        declared: Collection[str],
        level: Level,
    ) -> None:
        self._evaluator = evaluator
        self._exported = exported
        self._series = report_series(measures, level)
        self._max_series = max_series
        self._declared = declared
        self._whole, self._capped = _ModelTexts(self._families), _ModelTexts(self._families)
        self._lock = Lock()
        self._dropped = self._dropped_total = 0
        self._dropped_in = -1

    def __call__(self) -> Iterator[Family | WrittenFamily]:
        """Read the latest snapshot."""
        snapshot = self._exported()
        reports = list(snapshot.reports.values())
        texts = self._whole.write(reports, snapshot.coverage)
        total = exported = sum(text.rows for text in texts)
        if total > self._max_series:
            kept = self._within_cap(reports, snapshot.coverage)
            texts = self._capped.write(kept, snapshot.coverage)
            exported = sum(text.rows for text in texts)
        series: tuple[Series[Any], ...] = (*self._series, *COVERAGE)
        for at, one in enumerate(series):
            yield WrittenFamily(one, [text.by_series[at] for text in texts])
        yield from read_families([WATERMARK], [((name,), of.watermark_ms) for name, of in snapshot.models.items()])
        yield from read_families([SETTLED], [((name,), of.edge_ms) for name, of in snapshot.models.items()])
        dropped_total = self._count_dropped(snapshot.number, total - exported)
        scrape = _Scrape(self._evaluator, snapshot, exported, dropped_total)
        yield from read_families(EVALUATION, [((), scrape)])

    def _families(self, reports: Sequence[Report], coverage: Coverage) -> list[Family]:
        """The families about reports, and the coverage of versions that have a report of all their predictions."""
        subjects = [((report.model, report.version, report.segment, report.window), report) for report in reports]
        whole = {(report.model, report.version) for report in reports if report.segment == ALL}
        versions: list[tuple[Labels, Sequence[AgeCohort]]] = [
            (version, cohorts) for version, cohorts in sorted(coverage.items()) if version in whole
        ]
        return [*read_families(self._series, subjects), *read_families(COVERAGE, versions)]

    def _within_cap(self, reports: Sequence[Report], coverage: Coverage) -> list[Report]:
        """The reports that fit, in the order of the cap; the first of a version brings its coverage with it."""
        left, kept = dict(coverage), []
        used = 0
        # The sort is stable: among equals the snapshot's own order stays, so the choice does not flicker.
        for report in sorted(reports, key=lambda report: (report.model not in self._declared, report.segment != ALL)):
            used += _count_rows(self._families([report], left))
            if used > self._max_series:
                break
            kept.append(report)
            if report.segment == ALL:
                left.pop((report.model, report.version), None)
        return kept

    def _count_dropped(self, number: int, dropped: int) -> int:
        """Total of dropped series, to which each snapshot adds once; logs when series begin to be left out."""
        with self._lock:
            if number > self._dropped_in:
                if dropped and not self._dropped:
                    _log.warning(
                        "windows are left out of /metrics, those of segments first: raise exposition.max_series, or "
                        "lower exposition.level, evaluation.measures or the number of windows",
                        series=dropped,
                        max_series=self._max_series,
                    )
                self._dropped_in, self._dropped = number, dropped
                self._dropped_total += dropped
            return self._dropped_total


class _ModelText(NamedTuple):
    """The samples of a model as text, and what they were written from."""

    reports: Sequence[Report]
    coverage: Coverage
    by_series: Sequence[str]
    """The lines of each exported series."""
    rows: int


class _ModelTexts:
    """Writes the samples of models, each anew only where its reports have changed.

    Prometheus wants the samples of one series together, over all models: each scrape joins those of the models.

    Parameters
    ----------
    families
        Reads the families of reports and coverage.
    """

    def __init__(self, families: Callable[[Sequence[Report], Coverage], Sequence[Family]]) -> None:
        self._families = families
        self._texts: dict[str, _ModelText] = {}

    def write(self, reports: Sequence[Report], coverage: Coverage) -> list[_ModelText]:
        """The texts of the reports' models, in their order; texts of other models are dropped."""
        coverages: dict[str, dict[tuple[str, str], Sequence[AgeCohort]]] = {}
        for version, cohorts in coverage.items():
            coverages.setdefault(version[0], {})[version] = cohorts
        by_model = groupby(sorted(reports, key=_model), key=_model)
        # A dictionary of its own: another scrape may be reading the old one.
        texts = {model: self._written(model, list(part), coverages.get(model, {})) for model, part in by_model}
        self._texts = texts
        return list(texts.values())

    def _written(self, model: str, reports: Sequence[Report], coverage: Coverage) -> _ModelText:
        before = self._texts.get(model)
        if (
            before is not None
            and before.coverage == coverage
            and len(before.reports) == len(reports)
            # Reports never change, and what has not changed is the same object: to compare values takes longer.
            and all(one is other for one, other in zip(before.reports, reports, strict=True))
        ):
            return before
        families = self._families(reports, coverage)
        writer = SampleWriter()
        by_series = ["".join(writer.write(family.series, family.rows)) for family in families]
        return _ModelText(reports, coverage, by_series, _count_rows(families))


def _model(report: Report) -> str:
    return report.model


def _count_rows(families: Iterable[Family]) -> int:
    return sum(len(family.rows) for family in families)
