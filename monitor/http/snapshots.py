"""The latest snapshot as the routes serve it: each body is encoded once per snapshot, on its first request."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from monitor.events.model import SeriesKey
from monitor.events.times import format_time
from monitor.http.request_parsing import Key
from monitor.http.responses import TaggedBody, encode_json, tagged
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.snapshot import Snapshot


class SnapshotView:
    """One snapshot. Any thread: at worst two of them encode the same body.

    ``keys``, ``listing`` and ``models`` go through all reports and take up to 0.1 s for a thousand of them: call them
    in a worker thread.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._reports: dict[ReportKey, TaggedBody] = {}

    @cached_property
    def keys(self) -> Sequence[Key]:
        """(model, version, segment, window) of its reports and failures, ascending."""
        return sorted(_flat(key) for key in {*self.snapshot.reports, *self.snapshot.failures})

    def report(self, key: ReportKey) -> TaggedBody | None:
        """The body of a report, or None if the snapshot has no such report."""
        body = self._reports.get(key)
        if body is None:
            report = self.snapshot.reports.get(key)
            if report is None:
                return None
            body = self._reports[key] = tagged(report.to_dict())
        return body

    def listing(self, keys: Sequence[Key], next_cursor: str | None) -> bytes:
        """Several reports in one body."""
        snapshot = self.snapshot
        bodies = [body.data for key in keys if (body := self.report(_nested(key))) is not None]
        failures = [
            {"model": key[0], "version": key[1], "segment": key[2], "window": key[3], "reason": reason}
            for key in keys
            if (reason := snapshot.failures.get(_nested(key))) is not None
        ]
        head = encode_json(
            {
                "evaluated_at": format_time(snapshot.evaluated_ms) if snapshot.number else None,
                "evaluation": snapshot.number,
                "failures": failures,
                "next_cursor": next_cursor,
            }
        )
        return head[:-1] + b',"reports":[' + b",".join(bodies) + b"]}"

    @cached_property
    def models(self) -> Mapping[str, "ModelView"]:
        """The versions and reports of each model, by name, ascending."""
        views: dict[str, ModelView] = {}
        for key in self.keys:
            model, version, segment, window = key
            view = views.setdefault(model, ModelView({}, []))
            parts = view.versions.setdefault(version, {"segments": {}, "windows": {}})
            parts["segments"][segment] = parts["windows"][window] = None
            report = self.snapshot.reports.get(_nested(key))
            if report is not None:
                view.reports.append(report)
        return views


class ModelView(NamedTuple):
    """One model in a snapshot: version -> its segments and windows, in order; and the reports."""

    versions: dict[str, dict[str, dict[str, None]]]
    reports: list[Report]


class LatestView:
    """The view of the latest snapshot; a new one for each new snapshot."""

    def __init__(self, latest: Callable[[], Snapshot]) -> None:
        self._latest = latest
        self._view = SnapshotView(latest())

    def __call__(self) -> SnapshotView:
        """The current view."""
        snapshot = self._latest()
        # By identity: one evaluation publishes twice under one number, first its values and then their intervals.
        if snapshot is not self._view.snapshot:
            self._view = SnapshotView(snapshot)
        return self._view


def _flat(key: ReportKey) -> Key:
    return (*key.series, key.window)


def _nested(key: Key) -> ReportKey:
    model, version, segment, window = key
    return ReportKey(SeriesKey(model, version, segment), window)
