"""The evaluator measures all windows of the models that it is given: values first, then intervals and levels."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import structlog

from monitor.clock import Clock
from monitor.errors import SettingsError
from monitor.events.model import ALL, SeriesKey
from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.options import MIN_DRAWS, TOLERANCE
from monitor.reports.evaluation.assess import (
    WINDOW_DRAWS,
    Assessment,
    Minimum,
    Uncertainty,
    assess,
    point_values,
    uncertainty,
    with_uncertainty,
)
from monitor.reports.evaluation.diagnosis import diagnosed
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.scores import ScoreTable
from monitor.windows.contents import (
    Contents,
    moment_of,
    read_window,
    window_report,
)
from monitor.windows.lookup import current_version
from monitor.windows.maturity import AgeCohort, CoverageByAge
from monitor.windows.panes import ClosedPanes
from monitor.windows.snapshot import ModelSnapshot, Snapshot
from monitor.windows.windows import Moment, Window

_log = structlog.get_logger(__name__)


class _Tick(NamedTuple):
    """The number of an evaluation, and the wall-clock time at which it began."""

    number: int
    now_ms: int


@dataclass(slots=True)
class _Entry:
    """A report, and what the next evaluation needs of it."""

    revision: Hashable
    """Revision of the panes before they were summed."""
    fingerprint: int
    report: Report
    uncertainty: Mapping[str, Uncertainty]
    table: ScoreTable | None
    """The labelled predictions, while intervals and levels are of earlier ones."""
    stale_since: _Tick
    """The evaluation that found the table changed."""
    problem: str | None = None
    """Why intervals and levels could not be renewed."""


class Evaluator:
    """Measures all series and windows of models. One thread calls it, but for :meth:`report`.

    Each evaluation has two steps. :meth:`measure` measures the windows that changed and returns all values, with the
    previous intervals (shifted with the values), levels under calibration and error bounds. :meth:`renew` renews those,
    the longest outdated first, in the rest of the interval; reports that it does not reach wait for the next evaluation
    and say since when. Where values take more than half of the interval, renewing gets as much time
    as they took, and the next evaluation begins later: so a report waits at most twice the time that renewing all
    reports takes. A report whose predictions did not change stays as it is.

    Values and renewed intervals depend on the panes alone, not on when or how often they are evaluated: resampling is
    seeded by the table. So a replay of the log gives the same reports.

    Parameters
    ----------
    panes
        The counted events.
    windows
        The windows of every series; names must differ. The first is the default of requests.
    interval_seconds
        Time from the start of one evaluation to the start of the next.
    minimum
        How much data a window needs before it is measured.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    measures
        Measures of every window, by name.
    tolerance
        Model -> error of its logits up to which nothing is called a fault; 0.05 for all models if left out.
    max_series
        Series beyond this number are not evaluated, segments before whole models, and are counted.
    clock
        Measures how long evaluations take.

    Raises
    ------
    SettingsError
        There is no window, two have one name, or a number is out of range.
    """

    def __init__(
        self,
        panes: ClosedPanes,
        windows: Sequence[Window],
        *,
        interval_seconds: float = 10.0,
        minimum: Minimum | None = None,
        draws: int = WINDOW_DRAWS,
        measures: Mapping[str, Measure] = WINDOW_MEASURES,
        tolerance: Callable[[str], float] | None = None,
        max_series: int = 1000,
        clock: Clock,
    ) -> None:
        _check(windows, interval_seconds, draws, max_series)
        self._panes = panes
        self.windows: Sequence[Window] = list(windows)
        """The windows of every series, in the order in which they were given."""
        # Within a series, reports are in the order of their keys.
        self._ordered = sorted(windows, key=lambda window: window.name)
        self.interval_seconds = interval_seconds
        """Time from the start of one evaluation to the start of the next."""
        self._minimum = minimum or Minimum()
        self._draws = draws
        self.measures = measures
        """The measures of every window, by name."""
        self._tolerance = tolerance or (lambda _: TOLERANCE)
        self._max_series = max_series
        self._clock = clock
        self._coverage = CoverageByAge(panes, windows)
        self._failures: Mapping[ReportKey, str] = {}
        """Failures of the last evaluation."""
        self._entries: dict[ReportKey, _Entry] = {}
        self._renewal_seconds = 0.0
        self.evaluations_total = 0
        """Evaluations made."""
        self.failures_total = 0
        """Reports that could not be made, over all evaluations; an evaluation that failed as a whole counts as one."""
        self.series_held = 0
        """Series that had panes at the last evaluation."""
        self.series_dropped = 0
        """Series that the last evaluation left out because there were more than ``max_series``."""

    @property
    def staleness(self) -> int:
        """For how many evaluations the longest outdated interval or level has been waiting."""
        waiting = [entry.stale_since.number for entry in list(self._entries.values()) if entry.table is not None]
        return self.evaluations_total - min(waiting) + 1 if waiting else 0

    def evaluate(self) -> Snapshot:
        """Measure all models that have panes, and renew their intervals and levels: of an offline computation."""
        started = self._clock.monotonic()
        models = {key.model for key in self._panes.series()}
        return self.renew(self.measure(dict.fromkeys(models, 0), Snapshot()), started)

    def count_failure(self) -> None:
        """Count an evaluation that failed as a whole."""
        self.failures_total += 1

    def measure(self, epochs: Mapping[str, int], known: Snapshot) -> Snapshot:
        """Measure the windows that changed; returns the values of all.

        Parameters
        ----------
        epochs
            Model -> epoch of its lease, of the models that are evaluated here.
        known
            The latest snapshot: of models that another replica evaluated, intervals stay until they are renewed here.
        """
        started = self._clock.monotonic()
        self.evaluations_total += 1
        tick = _Tick(self.evaluations_total, self._clock.now_ms())
        series = self._within_cap([key for key in self._panes.series() if key.model in epochs])
        moments = {model: moment_of(self._panes, model) for model in sorted({key.model for key in series})}
        entries: dict[ReportKey, _Entry] = {}
        failures: dict[ReportKey, str] = {}
        for one_series in series:
            for window in self._ordered:
                key = ReportKey(one_series, window.name)
                try:
                    entry = entries[key] = self._measure(key, window, moments[one_series.model], tick, known)
                    if entry.problem is not None:
                        failures[key] = entry.problem
                except Exception as error:  # noqa: BLE001 - one failing report never stops the others
                    failures[key] = self._failed(key, error)
        coverage: dict[str, dict[tuple[str, str], Sequence[AgeCohort]]] = {model: {} for model in moments}
        for version, cohorts in self._coverage.update(
            [key for key in series if key.segment == ALL], tick.number
        ).items():
            coverage[version[0]][version] = cohorts
        self._entries = entries
        evaluated_ms = self._clock.now_ms()
        models = {
            model: ModelSnapshot(
                evaluated_ms,
                at.watermark_ms,
                at.edge_ms,
                self._panes.held_back_by(model),
                current_version(self._panes, self._ordered, series, model),
                {},
                {},
                coverage[model],
                epoch=epochs[model],
            )
            for model, at in moments.items()
        }
        duration = self._clock.monotonic() - started
        if duration > self.interval_seconds:
            _log.warning(
                "evaluation takes longer than its interval: lengthen the interval or declare fewer segments",
                duration_seconds=round(duration, 3),
                interval_seconds=self.interval_seconds,
                series=self.series_held - self.series_dropped,
                windows=len(self._ordered),
            )
        return self._with_reports(Snapshot(tick.number, evaluated_ms, duration, models), failures)

    def renew(self, snapshot: Snapshot, started: float, seconds: float = math.inf) -> Snapshot:
        """Renew intervals and levels of the last values, the longest outdated first, while the next may end in time.

        Returns the snapshot with the renewed reports; the very same where nothing was outdated.

        Parameters
        ----------
        snapshot
            What :meth:`measure` returned.
        started
            When the evaluation began, on the monotonic clock.
        seconds
            Takes no longer than this, either.
        """
        deadline = started + max(self.interval_seconds, 2 * snapshot.duration_seconds)
        deadline = min(deadline, self._clock.monotonic() + seconds)
        waiting = sorted((entry.stale_since, key) for key, entry in self._entries.items() if entry.table is not None)
        failures = dict(snapshot.failures)
        # Expect as long as the longest renewal of this evaluation or, for the first, of the last evaluation.
        expected, longest = self._renewal_seconds, 0.0
        for done, (_, key) in enumerate(waiting):
            started = self._clock.monotonic()
            if done and started + max(expected, longest) > deadline:
                break
            entry = self._entries[key]
            try:
                self._renew_one(entry)
            except Exception as error:  # noqa: BLE001 - one failing report never stops the others
                entry.problem = failures[key] = self._failed(key, error)
            # Also after a failure: the same table would fail again and delay the others.
            entry.table = None
            longest = max(longest, self._clock.monotonic() - started)
        if not waiting:
            return snapshot
        self._renewal_seconds = longest
        return self._with_reports(snapshot, failures)

    def _with_reports(self, snapshot: Snapshot, failures: Mapping[ReportKey, str]) -> Snapshot:
        """The snapshot with the reports as they are now."""
        self._failures = failures
        reports: dict[str, dict[ReportKey, Report]] = {model: {} for model in snapshot.models}
        failed: dict[str, dict[ReportKey, str]] = {model: {} for model in snapshot.models}
        for key, entry in self._entries.items():
            reports[key.series.model][key] = entry.report
        for key, reason in failures.items():
            failed[key.series.model][key] = reason
        models = {
            model: replace(part, reports=reports[model], failures=failed[model])
            for model, part in snapshot.models.items()
        }
        return replace(snapshot, models=models)

    def _renew_one(self, entry: _Entry) -> None:
        if entry.table is None:
            return
        chosen = {name: self.measures[name] for name in entry.report.measures}
        values = {name: result.value for name, result in entry.report.measures.items()}
        entry.uncertainty = uncertainty(entry.table, chosen, values, draws=self._draws)
        renewed = with_uncertainty(Assessment(entry.report.measures), entry.uncertainty)
        renewed_report = replace(entry.report, measures=renewed.measures, intervals_outdated_since_ms=None)
        entry.report = self._diagnosed(renewed_report, entry.table)

    def _measure(self, key: ReportKey, window: Window, at: Moment, tick: _Tick, known: Snapshot) -> _Entry:
        """Measure a report, or return the entry of the last evaluation where nothing has changed since."""
        before = self._entries.get(key)
        policy = self._panes.policy(key.series.model)
        span = window.span(at)
        # Read before the panes are summed: changes in between are found at the next evaluation.
        revision = (policy, span, self._panes.revision(key.series, span[1]))
        # A report of nothing says when there will be something, which depends on the moment.
        if before is not None and before.revision == revision and before.report.predictions:
            return before
        contents = read_window(self._panes, key.series, window, at)
        fingerprint = contents.fingerprint()
        if before is not None and before.fingerprint == fingerprint:
            before.revision = revision
            if (before.report.from_ms, before.report.to_ms) != (contents.from_ms, contents.to_ms):
                before.report = replace(before.report, from_ms=contents.from_ms, to_ms=contents.to_ms)
            return before
        table = contents.table.to_scores()
        assessment = point_values(table, measures=self.measures, minimum=self._minimum)
        carried = before.uncertainty if before is not None else {}
        report = self._report(key, contents, table, with_uncertainty(assessment, carried))
        since = before.stale_since if before is not None and before.table is not None else tick
        if not report.measures:
            return _Entry(revision, fingerprint, self._diagnosed(report, table), carried, None, since)
        shown = known.reports.get(key) if before is None else None
        if shown is not None and _has_same_values(shown, report):
            # Of another replica, or of before a restart: intervals and levels stay until they are renewed here.
            return _Entry(revision, fingerprint, shown, carried, table, since)
        outdated_ms = None
        if before is not None:
            # An interval whose renewal failed has been outdated for longer than the table waits.
            outdated_ms = before.report.intervals_outdated_since_ms
            if before.report.measures:
                # As intervals and levels, the diagnosis stays until it is renewed.
                report = replace(report, diagnosis=before.report.diagnosis, decomposition=before.report.decomposition)
        report = replace(report, intervals_outdated_since_ms=since.now_ms if outdated_ms is None else outdated_ms)
        return _Entry(revision, fingerprint, report, carried, table, since)

    def report(self, key: ReportKey, contents: Contents) -> Report:
        """The report on contents of a window, with intervals and levels. Any thread."""
        table = contents.table.to_scores()
        assessment = assess(table, measures=self.measures, minimum=self._minimum, draws=self._draws)
        return self._diagnosed(self._report(key, contents, table, assessment), table)

    def _report(self, key: ReportKey, contents: Contents, table: ScoreTable, assessment: Assessment) -> Report:
        has_classes = bool(self._panes.policy(key.series.model).classes)
        return window_report(key, contents, table, assessment, has_classes=has_classes)

    def _diagnosed(self, report: Report, table: ScoreTable) -> Report:
        return diagnosed(report, table, draws=self._draws, tolerance=self._tolerance(report.model))

    def _within_cap(self, series: Sequence[SeriesKey]) -> list[SeriesKey]:
        # So that invented models take no place of what the settings name.
        declared = {model: self._panes.policy(model).declared for model in {key.model for key in series}}
        in_order = sorted(series, key=lambda key: (not declared[key.model], key.segment != ALL, key))
        dropped = max(0, len(series) - self._max_series)
        if dropped and not self.series_dropped:
            _log.warning(
                "more series than are evaluated: raise max_series or declare fewer segments",
                series=len(series),
                max_series=self._max_series,
            )
        self.series_held, self.series_dropped = len(series), dropped
        return sorted(in_order[: self._max_series])

    def _failed(self, key: ReportKey, error: Exception) -> str:
        self.failures_total += 1
        reason = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
        if self._failures.get(key) != reason:  # logged once, not at every evaluation
            _log.error("report failed", **key.series._asdict(), window=key.window, reason=reason, exc_info=error)
        return reason


def _has_same_values(one: Report, other: Report) -> bool:
    """Whether two reports are of the same span, numbers and values."""
    of = attrgetter("from_ms", "to_ms", "n", "positives", "predictions")
    values = ({name: result.value for name, result in report.measures.items()} for report in (one, other))
    return bool(of(one) == of(other)) and next(values) == next(values)


def _check(windows: Sequence[Window], interval_seconds: float, draws: int, max_series: int) -> None:
    names = [window.name for window in windows]
    if not names:
        raise SettingsError("windows must hold at least one window")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingsError(f"windows must differ in name, got {twice!r} twice")
    if not interval_seconds > 0:
        raise SettingsError(f"interval_seconds must be positive, got {interval_seconds}")
    if draws != 0 and draws < MIN_DRAWS:
        raise SettingsError(f"draws must be 0 or at least {MIN_DRAWS}, got {draws}")
    if max_series < 1:
        raise SettingsError(f"max_series must be at least 1, got {max_series}")
