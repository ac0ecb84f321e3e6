"""Reports for requests: from the latest snapshot, or summed from panes as of an earlier time."""

from collections.abc import Sequence

from monitor.errors import EvaluationFailed, InputError
from monitor.events.model import ALL, SeriesKey
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.contents import (
    Contents,
    moment_of,
    read_span,
    read_window_of_then,
    sum_panes,
    unevaluated_moment,
)
from monitor.windows.evaluator import Evaluator
from monitor.windows.lookup import find_series, no_window
from monitor.windows.panes import ClosedPanes
from monitor.windows.snapshot import Snapshot
from monitor.windows.snapshots import SharedSnapshots
from monitor.windows.windows import Moment, Window


class Reports:
    """Answers requests for single reports, and for the predictions that they are of. Any thread.

    Parameters
    ----------
    panes
        Of all partitions.
    evaluator
        Measures what is in no snapshot.
    snapshots
        What was evaluated.
    """

    def __init__(self, panes: ClosedPanes, evaluator: Evaluator, snapshots: SharedSnapshots) -> None:
        self._panes = panes
        self._evaluator = evaluator
        self._snapshots = snapshots
        self.windows: Sequence[Window] = evaluator.windows
        """The windows of every series; the first is the default of requests."""
        self._windows_by_name = {window.name: window for window in self.windows}
        self._ordered = sorted(self.windows, key=lambda window: window.name)
        self.measures = evaluator.measures
        """The measures of every window, by name."""

    @property
    def latest(self) -> Snapshot:
        """The latest snapshot of all models, from all replicas."""
        return self._snapshots.latest

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
        return self._evaluator.report(*self._read(model, version, segment, chosen, as_of_ms))

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

    def report_of(self, key: ReportKey, contents: Contents) -> Report:
        """The report on these predictions, such as a map makes of those of :meth:`predictions`."""
        return self._evaluator.report(key, contents)

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
