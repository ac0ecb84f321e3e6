"""The evaluation: every few seconds, all windows of all series become one immutable snapshot."""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import structlog

from monitor.clock import Clock, SystemClock
from monitor.errors import EvaluationFailed, InputError, SettingsError, UnknownSeries
from monitor.events.model import ALL, SeriesKey
from monitor.inference.prevalence import TOLERANCE
from monitor.inference.resampling import MIN_DRAWS
from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.reports.evaluation.assess import Assessment, Minimum, assess, point_values, with_uncertainty
from monitor.reports.evaluation.diagnosis import diagnosed
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.reports.evaluation.uncertainty import WINDOW_DRAWS, Uncertainty, uncertainty
from monitor.scores import ScoreTable
from monitor.windows.cohort import Cohort, cohort, cohort_as_of, labelled
from monitor.windows.lookup import current_version, find_series, listed
from monitor.windows.maturity import CoverageByAge
from monitor.windows.snapshot import Snapshot
from monitor.windows.window_report import window_report
from monitor.windows.windows import PaneReader, Window

_WAIT_SECONDS: Final = 0.05
"""A clock's sleep cannot be cut short, so waiting is cut into pieces: `stop` takes effect after at most one."""

_log = structlog.get_logger(__name__)


class _Tick(NamedTuple):
    """One evaluation: its number, and the wall-clock time at which it began."""

    number: int
    now_ms: int


@dataclass(slots=True)
class _Entry:
    """What is remembered of a report from one evaluation to the next.

    ``revision`` is that of the panes as they were before they were summed. ``table`` is kept from the evaluation that
    found it changed, ``stale_since``, until the uncertainty is of it. ``problem`` says why it has none, where it could
    not be had.
    """

    revision: Hashable
    fingerprint: int
    report: Report
    uncertainty: Mapping[str, Uncertainty]
    table: ScoreTable | None
    stale_since: _Tick
    problem: str | None = None


class Evaluator:
    """Evaluates all series and windows again and again, and answers for single ones.

    Each evaluation first measures what changed and publishes all values, with the intervals (moved along), the levels
    under calibration and the error bounds of up to now. The rest of its time it spends on renewing those, the longest
    outdated first, and publishes them in a second step; what it does not reach waits for the next, and its report says
    since when. Where values take more than half of the interval, renewing takes as long as they did, and the next
    evaluation begins later: so a report waits at the most twice the time that renewing all reports takes, whatever the
    values take. A report whose predictions are those of the last evaluation is taken over as it is.

    Values depend on the panes alone, and renewed intervals and levels do too, not on when or how often they were
    evaluated: resampling is seeded by the table that it is of. So a replay of the log gives the same reports.

    One thread calls :meth:`run`; everything else may be called from any.

    Parameters
    ----------
    panes
        What has been counted.
    windows
        The windows of every series; names must differ. The first is the one meant when nobody names one.
    interval_seconds
        From the start of one evaluation to the start of the next.
    minimum
        How much must be known before a window is measured.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    measures
        Those wanted, by name.
    tolerance
        Model -> the error of its logits up to which nothing is called a fault; 0.05 of all models if left out.
    max_series
        Series beyond this number are not evaluated, those of whole models last to go, and are counted.
    clock
        The one clock.

    Raises
    ------
    SettingsError
        There is no window, two have one name, or a number is out of range.
    """

    def __init__(
        self,
        panes: PaneReader,
        windows: Sequence[Window],
        *,
        interval_seconds: float = 10.0,
        minimum: Minimum | None = None,
        draws: int = WINDOW_DRAWS,
        measures: Mapping[str, Measure] = WINDOW_MEASURES,
        tolerance: Callable[[str], float] | None = None,
        max_series: int = 1000,
        clock: Clock | None = None,
    ) -> None:
        _check(windows, interval_seconds, draws, max_series)
        self._panes = panes
        self._windows = {window.name: window for window in windows}
        # Within a series, reports stand in the order of their keys.
        self._ordered = sorted(windows, key=lambda window: window.name)
        self._interval_seconds = interval_seconds
        self._minimum = minimum or Minimum()
        self._draws = draws
        self._measures = measures
        self._tolerance = tolerance or (lambda _: TOLERANCE)
        self._max_series = max_series
        self._clock = clock or SystemClock()
        self._coverage = CoverageByAge(panes, windows)
        self._snapshot = Snapshot()
        self._entries: dict[ReportKey, _Entry] = {}
        self._renewal_seconds = 0.0
        self._series_dropped = 0
        self._evaluations = 0
        self._failures = 0
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()

    @property
    def latest(self) -> Snapshot:
        """What the last evaluation found; the empty snapshot before the first."""
        return self._snapshot

    @property
    def windows(self) -> Sequence[Window]:
        """The windows of every series, in the order in which they were given."""
        return list(self._windows.values())

    @property
    def measures(self) -> Mapping[str, Measure]:
        """The measures of every window, by name."""
        return self._measures

    @property
    def evaluations_total(self) -> int:
        """Evaluations made, also those that failed."""
        return self._evaluations

    @property
    def failures_total(self) -> int:
        """Reports that could not be made, over all evaluations; an evaluation that failed as a whole counts as one."""
        return self._failures

    @property
    def series_dropped(self) -> int:
        """Series that the last evaluation left out because there were more than ``max_series``."""
        return self._series_dropped

    @property
    def staleness(self) -> int:
        """For how many evaluations the longest outdated interval or level of ``latest`` has been waiting."""
        waiting = [entry.stale_since.number for entry in list(self._entries.values()) if entry.table is not None]
        return self._snapshot.number - min(waiting) + 1 if waiting else 0

    def run(self) -> None:
        """Evaluate every ``interval_seconds`` until :meth:`stop`: the body of a thread.

        An evaluation that takes longer than that is followed by the next at once; none is made up for.
        """
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            try:
                self.evaluate()
            except Exception:  # noqa: BLE001 - the panes could not be read: the last snapshot stays until they can
                self._failures += 1
                _log.exception("evaluation failed", evaluation=self._evaluations)
            self._wait_until(started + self._interval_seconds)

    def stop(self) -> None:
        """Let :meth:`run` return after the evaluation that it is at."""
        self._stopping.set()

    def evaluate(self) -> Snapshot:
        """Evaluate once, publish, and return what was found.

        Returns
        -------
        Snapshot
            Its duration is that of the values. How many intervals and levels it renews depends on the time that is
            left; all of them where the clock does not move, as in a replay.
        """
        with self._one_at_a_time:
            self._evaluations += 1
            started = self._clock.monotonic()
            self._publish_values(started)
            self._renew(started + max(self._interval_seconds, 2 * self._snapshot.duration_seconds))
            return self._snapshot

    def report(
        self,
        model: str,
        version: str | None = None,
        segment: str = ALL,
        window: str | None = None,
        as_of_ms: int | None = None,
    ) -> Report:
        """One report: from the last snapshot, or recomputed as of an earlier time.

        Parameters
        ----------
        model, version, segment, window
            What it is about. Without a version, the one with the newest predictions (at that time); without a window,
            the first that was given.
        as_of_ms
            The model's watermark at which windows end, in milliseconds since the epoch; a time that is still to come
            means now. A mature window is recomputed as it was then, to the last bit of its values.

        Raises
        ------
        UnknownSeries
            Nothing is called that. Names what there is.
        NoLongerKept
            The panes of that time are gone. Names what is kept.
        EvaluationFailed
            The report could not be made at the last evaluation.
        """
        chosen = self._windows.get(window) if window is not None else next(iter(self._windows.values()))
        if chosen is None:
            raise UnknownSeries(f"no window {window!r}; windows are {listed(self._windows)}")
        if as_of_ms is not None and as_of_ms < 0:
            raise InputError(f"as_of must not lie before 1970, got {as_of_ms} ms")
        snapshot = self._snapshot
        if as_of_ms is None:
            wanted = version if version is not None else snapshot.current_versions.get(model)
            if wanted is not None:
                key = ReportKey(SeriesKey(model, wanted, segment), chosen.name)
                if key in snapshot.reports:
                    return snapshot.reports[key]
                if key in snapshot.failures:
                    raise EvaluationFailed(f"the report could not be made: {snapshot.failures[key]}")
        series = find_series(
            self._panes, self._ordered, model=model, version=version, segment=segment, until_ms=as_of_ms
        )
        # Not in the snapshot: of an earlier time, new since the last evaluation, or beyond the cap.
        until_ms = as_of_ms if as_of_ms is not None else self._panes.watermark_ms(model)
        return self._recompute(ReportKey(series, chosen.name), cohort_as_of(self._panes, series, chosen, until_ms))

    def scores(self, report: Report) -> ScoreTable:
        """The labelled predictions that one of its reports is of, as they are known now."""
        window, from_ms, to_ms = self._windows[report.window], report.from_ms, report.to_ms
        if from_ms is None or to_ms is None:
            raise ValueError("a report of the evaluator covers a span of time")
        return labelled(self._panes, report.key.series, window, from_ms, to_ms).to_scores()

    def _publish_values(self, started: float) -> None:
        tick = _Tick(self._snapshot.number + 1, self._clock.now_ms())
        series = self._within_cap(self._panes.series())
        watermarks = {model: self._panes.watermark_ms(model) for model in sorted({each.model for each in series})}
        entries: dict[ReportKey, _Entry] = {}
        failures: dict[ReportKey, str] = {}
        for each in series:
            for window in self._ordered:
                key = ReportKey(each, window.name)
                try:
                    entry = entries[key] = self._evaluated(key, window, watermarks[each.model], tick)
                    if entry.problem is not None:
                        failures[key] = entry.problem
                except Exception as error:  # noqa: BLE001 - one failing report never stops the others
                    failures[key] = self._failed(key, error)
        coverage = self._coverage.take([each for each in series if each.segment == ALL], tick.number)
        versions = {model: current_version(self._panes, self._ordered, series, model) for model in watermarks}
        self._entries = entries
        duration = self._clock.monotonic() - started
        self._snapshot = Snapshot(
            number=tick.number,
            evaluated_ms=self._clock.now_ms(),
            duration_seconds=duration,
            watermarks_ms=watermarks,
            current_versions=versions,
            reports={key: entry.report for key, entry in entries.items()},
            failures=failures,
            coverage=coverage,
        )
        if duration > self._interval_seconds:
            _log.warning(
                "evaluation takes longer than its interval: lengthen the interval or declare fewer segments",
                duration_seconds=round(duration, 3),
                interval_seconds=self._interval_seconds,
                series=len(series),
                windows=len(self._ordered),
            )

    def _renew(self, deadline: float) -> None:
        """Renew intervals and levels, the longest outdated first, while the next is expected to be done in time."""
        waiting = sorted((entry.stale_since, key) for key, entry in self._entries.items() if entry.table is not None)
        failures = dict(self._snapshot.failures)
        # One takes about as long as the longest of now, or of last time as long as none is known.
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
            # Also after a failure: the same table would fail again, and hold up the others.
            entry.table = None
            longest = max(longest, self._clock.monotonic() - started)
        self._renewal_seconds = longest
        if waiting:
            reports = {key: entry.report for key, entry in self._entries.items()}
            self._snapshot = replace(self._snapshot, reports=reports, failures=failures)

    def _renew_one(self, entry: _Entry) -> None:
        if entry.table is None:
            return
        chosen = {name: self._measures[name] for name in entry.report.measures}
        values = {name: result.value for name, result in entry.report.measures.items()}
        entry.uncertainty = uncertainty(entry.table, chosen, values, draws=self._draws)
        renewed = with_uncertainty(Assessment(entry.report.measures), entry.uncertainty)
        renewed_report = replace(entry.report, measures=renewed.measures, intervals_outdated_since_ms=None)
        entry.report = self._diagnosed(renewed_report, entry.table)

    def _evaluated(self, key: ReportKey, window: Window, watermark_ms: int, tick: _Tick) -> _Entry:
        """The entry of a report, taken over where its panes are those of the last evaluation, of the same time."""
        before = self._entries.get(key)
        policy = self._panes.policy(key.series.model)
        span = window.span(watermark_ms, policy)
        # Before they are summed: what changes in between is found changed the next time.
        revision = (policy, span, self._panes.revision(key.series, window.slide_ms, *span))
        if before is not None and before.revision == revision:
            return before
        return self._entry(key, cohort(self._panes, key.series, window, watermark_ms), revision, tick)

    def _entry(self, key: ReportKey, found: Cohort, revision: Hashable, tick: _Tick) -> _Entry:
        before = self._entries.get(key)
        fingerprint = found.fingerprint()
        if before is not None and before.fingerprint == fingerprint:
            before.revision = revision
            if (before.report.from_ms, before.report.to_ms) != (found.from_ms, found.to_ms):
                before.report = replace(before.report, from_ms=found.from_ms, to_ms=found.to_ms)
            return before
        table = found.table.to_scores()
        assessment = point_values(table, measures=self._measures, minimum=self._minimum)
        carried = before.uncertainty if before is not None else {}
        report = self._report(key, found, table, with_uncertainty(assessment, carried))
        if not report.measures:
            report = self._diagnosed(report, table)
        elif before is not None and before.report.measures:
            # What was said up to now stands until it is renewed, as intervals and levels do.
            report = replace(report, diagnosis=before.report.diagnosis, decomposition=before.report.decomposition)
        since = before.stale_since if before is not None and before.table is not None else tick
        if not report.measures:
            return _Entry(revision, fingerprint, report, carried, None, since)
        # Those of a renewal that failed are older than this wait.
        outdated_ms = before.report.intervals_outdated_since_ms if before is not None else None
        report = replace(report, intervals_outdated_since_ms=since.now_ms if outdated_ms is None else outdated_ms)
        return _Entry(revision, fingerprint, report, carried, table, since)

    def _recompute(self, key: ReportKey, found: Cohort) -> Report:
        table = found.table.to_scores()
        assessment = assess(table, measures=self._measures, minimum=self._minimum, draws=self._draws)
        return self._diagnosed(self._report(key, found, table, assessment), table)

    def _report(self, key: ReportKey, found: Cohort, table: ScoreTable, assessment: Assessment) -> Report:
        of_classes = bool(self._panes.policy(key.series.model).classes)
        return window_report(key, found, table, assessment, of_classes=of_classes)

    def _diagnosed(self, report: Report, table: ScoreTable) -> Report:
        return diagnosed(report, table, draws=self._draws, tolerance=self._tolerance(report.model))

    def _within_cap(self, series: Sequence[SeriesKey]) -> list[SeriesKey]:
        whole_models_first = sorted(series, key=lambda each: (each.segment != ALL, each))
        dropped = max(0, len(series) - self._max_series)
        if dropped and not self._series_dropped:
            _log.warning(
                "more series than are evaluated: raise max_series or declare fewer segments",
                series=len(series),
                max_series=self._max_series,
            )
        self._series_dropped = dropped
        return sorted(whole_models_first[: self._max_series])

    def _failed(self, key: ReportKey, error: Exception) -> str:
        self._failures += 1
        reason = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
        if self._snapshot.failures.get(key) != reason:  # said once, not at every evaluation
            _log.error("report failed", **key.series._asdict(), window=key.window, reason=reason, exc_info=error)
        return reason

    def _wait_until(self, moment: float) -> None:
        while not self._stopping.is_set() and (left := moment - self._clock.monotonic()) > 0:
            self._clock.sleep(min(left, _WAIT_SECONDS))


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
