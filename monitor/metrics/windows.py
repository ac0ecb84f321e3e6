"""What the latest snapshot says, as series."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final, Protocol

from monitor.events.model import ALL
from monitor.measures.base import Measure
from monitor.metrics import reliability_series, series
from monitor.metrics.catalogue import CANONICAL, MeasureSeries, measure_series
from monitor.metrics.family import Family, Labels
from monitor.metrics.levels import Level, LevelSwitch
from monitor.reports.evaluation.diagnosis import offset_interval, slope_interval
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Report, Verdict
from monitor.windows.maturity import AgeCohort
from monitor.windows.snapshot import Snapshot

MAX_SERIES: Final = 150_000
"""Default cap on time series about windows: what a thousand windows with all measures and bins need, with room to
spare."""


def _end(interval: tuple[float, float] | None, at: int) -> float | None:
    return None if interval is None else interval[at]


Coverage = Mapping[tuple[str, str], Sequence[AgeCohort]]
"""(model, version) -> its predictions by age."""

_NUMBERS: Final[tuple[tuple[series.Series, Callable[[Diagnosis], float | None]], ...]] = (
    (series.SEVERITY, lambda found: None if found.severity is None else found.severity.rank),
    (series.OFFSET, lambda found: found.offset),
    (series.OFFSET_LOWER, lambda found: _end(offset_interval(found), 0)),
    (series.OFFSET_UPPER, lambda found: _end(offset_interval(found), 1)),
    (series.SLOPE, lambda found: found.slope),
    (series.SLOPE_LOWER, lambda found: _end(slope_interval(found), 0)),
    (series.SLOPE_UPPER, lambda found: _end(slope_interval(found), 1)),
    (series.P_VALUE, lambda found: found.p_value),
    (series.PRIOR_SHIFT_P_VALUE, lambda found: found.prior_shift_p_value),
    (series.ERROR_AFTER_OFFSET, lambda found: found.error_after_offset),
    (series.LOGIT_ERROR_AFTER_OFFSET, lambda found: found.logit_error_after_offset),
)
"""The numbers of a diagnosis, each with its series."""


class Evaluations(Protocol):
    """What the evaluation shows of itself."""

    @property
    def latest(self) -> Snapshot:
        """The last snapshot."""
        ...

    @property
    def evaluations_total(self) -> int:
        """Evaluations since the process started."""
        ...

    @property
    def failures_total(self) -> int:
        """Failures since the process started."""
        ...

    @property
    def series_dropped(self) -> int:
        """Series that the last evaluation left out."""
        ...

    @property
    def staleness(self) -> int:
        """For how many evaluations the longest outdated interval has been waiting."""
        ...


class WindowFamilies:
    """The series of the latest snapshot. What is no longer in the snapshot is no longer exported.

    Parameters
    ----------
    evaluations
        Where the latest snapshot is.
    measures
        The measures whose series are exported.
    max_series
        Cap on time series about windows. A report is exported whole or not at all; the whole models come first and
        their segments after them, so that a flood of segments cannot push a model out.
    bins
        Whether the windows' reliability diagrams are exported, at the level that has them.
    levels
        How much is exported of each window.
    """

    def __init__(
        self,
        evaluations: Evaluations,
        measures: Iterable[Measure],
        *,
        max_series: int = MAX_SERIES,
        bins: bool = True,
        levels: LevelSwitch | None = None,
    ) -> None:
        self._evaluations = evaluations
        self._measures = measure_series(measures)
        self._levels = levels or LevelSwitch()
        self._max_series = max_series
        self._bins = bins
        self._lock = Lock()
        self._dropped_total = 0
        self._dropped_in = -1

    def __call__(self) -> Iterator[Family]:
        """Read the latest snapshot."""
        evaluations, failures = self._evaluations.evaluations_total, self._evaluations.failures_total
        snapshot = self._evaluations.latest
        level = self._levels.choose(len(snapshot.watermarks_ms))
        families, exported, dropped = self._of_reports(snapshot, level)
        yield from families
        yield Family(
            series.WATERMARK, [((model,), time_ms / 1000) for model, time_ms in snapshot.watermarks_ms.items()]
        )
        yield Family(series.EVALUATIONS, [((), evaluations)])
        yield Family(series.EVALUATION_FAILURES, [((), failures)])
        yield Family(series.FAILED_REPORTS, [((), len(snapshot.failures))])
        yield Family(series.UNEVALUATED, [((), self._evaluations.series_dropped)])
        yield Family(series.STALENESS, [((), self._evaluations.staleness)])
        outdated_ms = [
            report.intervals_outdated_since_ms
            for report in snapshot.reports.values()
            if report.intervals_outdated_since_ms is not None
        ]
        longest_ms = snapshot.evaluated_ms - min(outdated_ms, default=snapshot.evaluated_ms)
        yield Family(series.OUTDATED_SECONDS, [((), longest_ms / 1000)])
        yield Family(series.OUTDATED_REPORTS, [((), len(outdated_ms))])
        evaluated = snapshot.number > 0
        yield Family(series.EVALUATION_DURATION, [((), snapshot.duration_seconds)] if evaluated else [])
        yield Family(series.EVALUATION_TIMESTAMP, [((), snapshot.evaluated_ms / 1000)] if evaluated else [])
        yield Family(series.EXPORTED, [((), exported)])
        yield Family(series.DROPPED, [((), self._count_dropped(snapshot.number, dropped))])
        yield Family(series.EXPOSITION_LEVEL, [((each.label,), each is level) for each in Level])

    def _of_reports(self, snapshot: Snapshot, level: Level) -> tuple[list[Family], int, int]:
        """The families about reports, the number of time series in them, and of those left out."""
        reports = list(snapshot.reports.values())
        families = self._families(reports, snapshot.coverage, level)
        total = _count_rows(families)
        if total <= self._max_series:
            return families, total, 0
        kept = self._within_cap(reports, self._sizes(reports, snapshot.coverage, level))
        families = self._families(kept, snapshot.coverage, level)
        exported = _count_rows(families)
        return families, exported, total - exported

    def _families(self, reports: Sequence[Report], coverage: Coverage, level: Level) -> list[Family]:
        labels = [(report.model, report.version, report.segment, report.window) for report in reports]
        return [
            *_of_measures(_at(level, self._measures), labels, [report.measures for report in reports]),
            *_of_measures(_at(level, CANONICAL), labels, [report.canonical for report in reports]),
            *_of_diagnoses(reports, labels, level),
            *_of_windows(reports, labels),
            *(_of_bins(reports, labels) if self._has_bins(level) else ()),
            *_of_coverage(coverage, {report[:2] for report in labels if report[2] == ALL}),
        ]

    def _has_bins(self, level: Level) -> bool:
        return self._bins and level >= Level.ALL

    def _sizes(self, reports: Iterable[Report], coverage: Coverage, level: Level) -> list[int]:
        """Time series that each report needs; the first of a whole version brings the version's coverage with it."""
        measures = ((_at(level, self._measures), "measures"), (_at(level, CANONICAL), "canonical"))
        numbers = [of for listed, of in _NUMBERS if listed.level <= level]
        bins = len(reliability_series.RELIABILITY) if self._has_bins(level) else 0
        sizes, seen = [], set[Labels]()
        for report in reports:
            optional = (report.prevalence, report.mean_prediction, report.label_coverage, report.to_ms)
            size = 4 + sum(value is not None for value in optional) + bins * len(report.bins)
            if report.diagnosis is not None:
                size += len(Verdict) + sum(of(report.diagnosis) is not None for of in numbers)
            for series_of, field in measures:
                found = getattr(report, field)
                size += sum(
                    getattr(found[each.measure], each.statistic) is not None
                    for each in series_of
                    if each.measure in found
                )
            version = (report.model, report.version)
            if report.segment == ALL and version not in seen:
                seen.add(version)
                size += 2 * len(coverage.get(version, ()))
            sizes.append(size)
        return sizes

    def _within_cap(self, reports: Sequence[Report], sizes: Sequence[int]) -> list[Report]:
        # The sort is stable: inside each half the snapshot's own order stays, so the choice does not flicker.
        order = sorted(range(len(reports)), key=lambda at: reports[at].segment != ALL)
        kept, used = [], 0
        for at in order:
            if used + sizes[at] > self._max_series:
                break
            used += sizes[at]
            kept.append(reports[at])
        return kept

    def _count_dropped(self, number: int, dropped: int) -> int:
        """Total of dropped series: each snapshot counts once, however often it is scraped."""
        with self._lock:
            if number > self._dropped_in:
                self._dropped_in = number
                self._dropped_total += dropped
            return self._dropped_total


def _at(level: Level, series_of: Iterable[MeasureSeries]) -> list[MeasureSeries]:
    """Those that are exported at a level."""
    return [each for each in series_of if each.series.level <= level]


def _count_rows(families: Iterable[Family]) -> int:
    return sum(len(family.rows) for family in families)


def _of_measures(
    series_of: Iterable[MeasureSeries], labels: Sequence[Labels], results: Sequence[Mapping[str, MeasureResult]]
) -> Iterator[Family]:
    measured: dict[str, list[tuple[Labels, MeasureResult]]] = {}
    for label, found in zip(labels, results, strict=True):
        for name, result in found.items():
            measured.setdefault(name, []).append((label, result))
    for each in series_of:
        values = ((label, getattr(result, each.statistic)) for label, result in measured.get(each.measure, ()))
        yield Family(each.series, [(label, value * each.scale) for label, value in values if value is not None])


def _of_diagnoses(reports: Sequence[Report], labels: Sequence[Labels], level: Level) -> Iterator[Family]:
    pairs = [
        (label, report.diagnosis) for label, report in zip(labels, reports, strict=True) if report.diagnosis is not None
    ]
    yield Family(
        series.VERDICT,
        [((*label, verdict.value), found.verdict is verdict) for label, found in pairs for verdict in Verdict],
    )
    for listed, of in _NUMBERS:
        if listed.level > level:
            continue
        values = ((label, of(found)) for label, found in pairs)
        yield Family(listed, [(label, value) for label, value in values if value is not None])


def _of_windows(reports: Sequence[Report], labels: Sequence[Labels]) -> Iterator[Family]:
    pairs = list(zip(labels, reports, strict=True))
    yield Family(series.PREDICTIONS, [(label, report.predictions) for label, report in pairs])
    yield Family(series.LABELLED, [(label, report.n) for label, report in pairs])
    yield Family(series.POSITIVES, [(label, report.positives) for label, report in pairs])
    optional = (
        (series.PREVALENCE, [(label, report.prevalence) for label, report in pairs]),
        (series.MEAN_PREDICTION, [(label, report.mean_prediction) for label, report in pairs]),
        (series.LABEL_COVERAGE, [(label, report.label_coverage) for label, report in pairs]),
    )
    for listed, values in optional:
        yield Family(listed, [(label, value) for label, value in values if value is not None])
    yield Family(series.INSUFFICIENT, [(label, report.insufficient is not None) for label, report in pairs])
    yield Family(
        series.WINDOW_END, [(label, report.to_ms / 1000) for label, report in pairs if report.to_ms is not None]
    )


def _of_bins(reports: Sequence[Report], labels: Sequence[Labels]) -> Iterator[Family]:
    rows = [
        ((*label, found.lower), found) for label, report in zip(labels, reports, strict=True) for found in report.bins
    ]
    yield Family(reliability_series.BIN_LABELLED, [(label, found.labelled) for label, found in rows])
    yield Family(reliability_series.BIN_POSITIVES, [(label, found.positives) for label, found in rows])
    yield Family(reliability_series.BIN_SUMMED, [(label, found.prediction_sum) for label, found in rows])


def _of_coverage(coverage: Coverage, versions: Collection[Labels]) -> Iterator[Family]:
    rows = [
        ((*version, found.cohort), found)
        for version, cohorts in sorted(coverage.items())
        if version in versions
        for found in cohorts
    ]
    yield Family(reliability_series.COHORT_PREDICTIONS, [(label, found.predictions) for label, found in rows])
    yield Family(reliability_series.COHORT_LABELLED, [(label, found.labelled) for label, found in rows])
