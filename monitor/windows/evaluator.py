"""The evaluator: every few seconds it measures all windows of its models and publishes one immutable snapshot."""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

import structlog

from monitor.clock import Clock
from monitor.errors import EvaluationFailed, InputError, SettingsError, StoreUnavailable
from monitor.events.model import ALL, SeriesKey
from monitor.inference.prevalence import TOLERANCE
from monitor.inference.resampling import MIN_DRAWS
from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.outage_log import Outage
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
from monitor.tracing import span
from monitor.windows.contents import (
    Contents,
    moment_of,
    read_span,
    read_window,
    read_window_of_then,
    sum_panes,
    unevaluated_moment,
    window_report,
)
from monitor.windows.lookup import current_version, find_series, no_window
from monitor.windows.maturity import AgeCohort, CoverageByAge
from monitor.windows.panes import ClosedPanes
from monitor.windows.snapshot import ModelEvidence, ModelSnapshot, Snapshot
from monitor.windows.snapshots import Snapshots
from monitor.windows.windows import Moment, Window

_WAIT_SECONDS: Final = 0.05
"""A clock's sleep cannot be cut short, so waiting is cut into pieces: `stop` takes effect after at most one."""

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
    """Evaluates all series and windows periodically, and answers requests for single reports.

    Each evaluation has two steps. The first measures the windows that changed and publishes all values, with the
    previous intervals (shifted with the values), levels under calibration and error bounds. The second renews those,
    the longest outdated first, in the rest of the interval, and publishes them; reports that it does not reach wait for
    the next evaluation and say since when. Where values take more than half of the interval, renewing gets as much time
    as they took, and the next evaluation begins later: so a report waits at most twice the time that renewing all
    reports takes. A report whose predictions did not change stays as it is.

    Values and renewed intervals depend on the panes alone, not on when or how often they are evaluated: resampling is
    seeded by the table. So a replay of the log gives the same reports.

    One thread calls :meth:`run`; everything else may be called from any.

    Parameters
    ----------
    panes
        The counted events.
    windows
        The windows of every series; names must differ. The first is the default of requests.
    interval_seconds
        From the start of one evaluation to the start of the next.
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
    refresh
        Brings the panes up to date, before each evaluation.
    evidence
        Model -> epoch of its lease -> the evidence on each, brought up to date.
    snapshots
        Says which models are evaluated here, and takes the result; all of them, kept in this process, if left out.

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
        refresh: Callable[[], None] = lambda: None,
        evidence: Callable[[Mapping[str, int]], Mapping[str, ModelEvidence]] = lambda _: {},
        snapshots: Snapshots | None = None,
        clock: Clock,
    ) -> None:
        _check(windows, interval_seconds, draws, max_series)
        self._panes = panes
        self._windows_by_name = {window.name: window for window in windows}
        self.windows: Sequence[Window] = list(windows)
        """The windows of every series, in the order in which they were given."""
        # Within a series, reports are in the order of their keys.
        self._ordered = sorted(windows, key=lambda window: window.name)
        self._interval_seconds = interval_seconds
        self._minimum = minimum or Minimum()
        self._draws = draws
        self.measures = measures
        """The measures of every window, by name."""
        self._tolerance = tolerance or (lambda _: TOLERANCE)
        self._max_series = max_series
        self._refresh = refresh
        self._evidence = evidence
        self._clock = clock
        self._coverage = CoverageByAge(panes, windows)
        self._snapshots = snapshots or Snapshots()
        self._own = Snapshot()
        """The result of the last evaluation; the empty snapshot before the first."""
        self._entries: dict[ReportKey, _Entry] = {}
        self._renewal_seconds = 0.0
        self.evaluations_total = 0
        """Evaluations made, including those that failed."""
        self.failures_total = 0
        """Reports that could not be made, over all evaluations; an evaluation that failed as a whole counts as one."""
        self.series_held = 0
        """Series that had panes at the last evaluation."""
        self.series_dropped = 0
        """Series that the last evaluation left out because there were more than ``max_series``."""
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()

    @property
    def latest(self) -> Snapshot:
        """The latest snapshot: of the last evaluation, and of models that other replicas evaluate."""
        return self._snapshots.latest

    @property
    def staleness(self) -> int:
        """For how many evaluations the longest outdated interval or level has been waiting."""
        waiting = [entry.stale_since.number for entry in list(self._entries.values()) if entry.table is not None]
        return self._own.number - min(waiting) + 1 if waiting else 0

    def run(self) -> None:
        """Evaluate every ``interval_seconds`` until :meth:`stop`: the body of a thread.

        An evaluation that takes longer than that is followed by the next at once; none is made up for.
        """
        outage = Outage(_log, "windows are not evaluated", "windows are evaluated again", self._clock)
        while not self._stopping.is_set():
            started = self._clock.monotonic()
            try:
                self.evaluate()
            except StoreUnavailable as error:
                outage.failed(error)
            except Exception:  # noqa: BLE001 - the panes could not be read: the last snapshot stays until they can
                self.failures_total += 1
                _log.exception("evaluation failed", evaluation=self.evaluations_total)
            else:
                outage.over()
            self._wait_until(started + self._interval_seconds)

    def stop(self) -> None:
        """Make :meth:`run` return after the current evaluation."""
        self._stopping.set()

    def evaluate(self) -> Snapshot:
        """Evaluate once, publish and return the snapshot.

        Returns
        -------
        Snapshot
            Its duration is that of the values. How many intervals and levels it renews depends on the time left; all
            of them where the clock does not move, as in a replay.
        """
        with self._one_at_a_time, span("evaluation"):
            self.evaluations_total += 1
            started = self._clock.monotonic()
            self._refresh()
            self._publish_values(started)
            self._renew(started + max(self._interval_seconds, 2 * self._own.duration_seconds))
            return self.latest

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
            Names of the report. Without a version, the one with the newest predictions (at that time); without a
            window, the first.
        as_of_ms
            The model's watermark at which windows end, in milliseconds since the epoch; a time in the future means now.
            A mature window is recomputed as it was then, bit for bit.

        Raises
        ------
        UnknownSeries
            There is no such series or window. The message names those that there are.
        NoLongerKept
            The panes of that time are gone. The message says since when panes are kept.
        EvaluationFailed
            The report could not be made at the last evaluation.
        """
        chosen, snapshot = self._window(window), self.latest
        if as_of_ms is None:
            wanted = version if version is not None else snapshot.current_version(model)
            if wanted is not None:
                key = ReportKey(SeriesKey(model, wanted, segment), chosen.name)
                if key in snapshot.reports:
                    return snapshot.reports[key]
                if key in snapshot.failures:
                    raise EvaluationFailed(f"the report could not be made: {snapshot.failures[key]}")
        return self._recompute(*self._read(model, version, segment, chosen, as_of_ms))

    def predictions(
        self,
        model: str,
        version: str | None = None,
        segment: str = ALL,
        window: str | None = None,
        as_of_ms: int | None = None,
    ) -> tuple[ReportKey, Contents]:
        """The predictions of a report, with the outcomes known now. Parameters and errors are those of :meth:`report`.

        They are there even where the report could not be made.
        """
        chosen, snapshot = self._window(window), self.latest
        if as_of_ms is None:
            current = version if version is not None else snapshot.current_version(model)
            report = snapshot.reports.get(ReportKey(SeriesKey(model, current or "", segment), chosen.name))
            if report is not None and report.from_ms is not None and report.to_ms is not None:
                table = sum_panes(self._panes, report.key.series, chosen, report.from_ms, report.to_ms)
                return report.key, Contents(report.from_ms, report.to_ms, table)
        return self._read(model, version, segment, chosen, as_of_ms)

    def predictions_between(
        self, model: str, version: str | None, segment: str, from_ms: int, to_ms: int | None = None
    ) -> tuple[SeriesKey, Contents]:
        """The settled predictions of a span, in whole panes; up to the settled edge if ``to_ms`` is left out.

        Raises
        ------
        UnknownSeries, NoLongerKept
            As :meth:`report`.
        InputError
            The span holds no whole pane.
        """
        series = find_series(self._panes, self._ordered, model=model, version=version, segment=segment, until_ms=to_ms)
        end_ms = self._panes.edge_ms(model) if to_ms is None else to_ms
        return series, read_span(self._panes, series, {window.slide_ms for window in self.windows}, from_ms, end_ms)

    def _window(self, name: str | None) -> Window:
        chosen = self._windows_by_name.get(name) if name is not None else self.windows[0]
        if chosen is None:
            raise no_window(str(name), self._windows_by_name)
        return chosen

    def _read(
        self, model: str, version: str | None, segment: str, window: Window, as_of_ms: int | None
    ) -> tuple[ReportKey, Contents]:
        """Sum a window that is not in the snapshot: of an earlier time, new since then, or beyond the cap."""
        if as_of_ms is not None and as_of_ms < 0:
            raise InputError(f"as_of must not lie before 1970, got {as_of_ms} ms")
        at, current = self._moment(model, window, as_of_ms)
        if version is None and current is not None and SeriesKey(model, current, ALL) in self._panes.series():
            version = current
        series = find_series(
            self._panes, self._ordered, model=model, version=version, segment=segment, until_ms=as_of_ms
        )
        return ReportKey(series, window.name), read_window_of_then(self._panes, series, window, at)

    def _moment(self, model: str, window: Window, as_of_ms: int | None) -> tuple[Moment, str | None]:
        """The moment of a model at a watermark, and the version that was current; None where that is not known."""
        now = moment_of(self._panes, model)
        if as_of_ms is None or as_of_ms >= now.watermark_ms:
            return now, None
        before, after = self._snapshots.moments(model, as_of_ms)
        last_edge_ms, shown_to_ms = now.edge_ms, -1
        if after is not None:
            last_edge_ms, shown_to_ms = after.edge_ms, after.before_to_ms
        elif model in self.latest.models:
            shown_to_ms = self.latest.models[model].watermark_ms
        # What one evaluation answered was answered until the next; but not for days of a log that was read in seconds.
        if before is not None and as_of_ms <= max(before.watermark_ms, shown_to_ms) + window.slide_ms:
            return Moment(as_of_ms, before.edge_ms), before.version
        first_edge_ms = -1 if before is None else before.edge_ms
        return unevaluated_moment(self._panes, model, as_of_ms, first_edge_ms, last_edge_ms), None

    def _publish_values(self, started: float) -> None:
        tick = _Tick(self._own.number + 1, self._clock.now_ms())
        all_series = self._panes.series()
        epochs = self._snapshots.acquire({key.model for key in all_series})
        series = self._within_cap([key for key in all_series if key.model in epochs])
        moments = {model: moment_of(self._panes, model) for model in sorted({key.model for key in series})}
        entries: dict[ReportKey, _Entry] = {}
        failures: dict[ReportKey, str] = {}
        for one_series in series:
            for window in self._ordered:
                key = ReportKey(one_series, window.name)
                try:
                    entry = entries[key] = self._evaluate(key, window, moments[one_series.model], tick)
                    if entry.problem is not None:
                        failures[key] = entry.problem
                except Exception as error:  # noqa: BLE001 - one failing report never stops the others
                    failures[key] = self._failed(key, error)
        coverage: dict[str, dict[tuple[str, str], Sequence[AgeCohort]]] = {model: {} for model in moments}
        for version, cohorts in self._coverage.update(
            [key for key in series if key.segment == ALL], tick.number
        ).items():
            coverage[version[0]][version] = cohorts
        evidence = self._evidence({model: epochs[model] for model in moments})
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
                evidence.get(model, ModelEvidence()),
                epochs[model],
            )
            for model, at in moments.items()
        }
        duration = self._clock.monotonic() - started
        self._own = self._with_reports(Snapshot(tick.number, evaluated_ms, duration, models), failures)
        self._snapshots.publish(self._own)
        if duration > self._interval_seconds:
            _log.warning(
                "evaluation takes longer than its interval: lengthen the interval or declare fewer segments",
                duration_seconds=round(duration, 3),
                interval_seconds=self._interval_seconds,
                series=len(series),
                windows=len(self._ordered),
            )

    def _renew(self, deadline: float) -> None:
        """Renew intervals and levels, the longest outdated first, as long as the next is expected to end in time."""
        waiting = sorted((entry.stale_since, key) for key, entry in self._entries.items() if entry.table is not None)
        failures = dict(self._own.failures)
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
        self._renewal_seconds = longest
        if waiting:
            self._own = self._with_reports(self._own, failures)
            self._snapshots.publish(self._own)

    def _with_reports(self, snapshot: Snapshot, failures: Mapping[ReportKey, str]) -> Snapshot:
        """The snapshot with the reports as they are now."""
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

    def _evaluate(self, key: ReportKey, window: Window, at: Moment, tick: _Tick) -> _Entry:
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
        known = self.latest.reports.get(key) if before is None else None
        if known is not None and _has_same_values(known, report):
            # Of another replica, or of before a restart: intervals and levels stay until they are renewed here.
            return _Entry(revision, fingerprint, known, carried, table, since)
        outdated_ms = None
        if before is not None:
            # An interval whose renewal failed has been outdated for longer than the table waits.
            outdated_ms = before.report.intervals_outdated_since_ms
            if before.report.measures:
                # As intervals and levels, the diagnosis stays until it is renewed.
                report = replace(report, diagnosis=before.report.diagnosis, decomposition=before.report.decomposition)
        report = replace(report, intervals_outdated_since_ms=since.now_ms if outdated_ms is None else outdated_ms)
        return _Entry(revision, fingerprint, report, carried, table, since)

    def _recompute(self, key: ReportKey, contents: Contents) -> Report:
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
        if self._own.failures.get(key) != reason:  # logged once, not at every evaluation
            _log.error("report failed", **key.series._asdict(), window=key.window, reason=reason, exc_info=error)
        return reason

    def _wait_until(self, moment: float) -> None:
        while not self._stopping.is_set() and (left := moment - self._clock.monotonic()) > 0:
            self._clock.sleep(min(left, _WAIT_SECONDS))


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
