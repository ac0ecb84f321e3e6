"""The latest snapshot as the routes serve it: bodies made once a snapshot, on the first request for each."""

from collections.abc import Sequence
from typing import Any

from monitor.api.answers import Body, encode_json, make_body
from monitor.api.pages import Key
from monitor.api.parts import Evaluator
from monitor.evaluation.report import Report, ReportKey, Snapshot
from monitor.events.model import SeriesKey
from monitor.events.times import format_time


class SnapshotView:
    """One snapshot. Belongs to the event loop's thread.

    Attributes
    ----------
    snapshot
        What it shows.
    keys
        (model, version, segment, window) of its reports, and of those that failed, ascending.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.keys: list[Key] = sorted(_flat(key) for key in {*snapshot.reports, *snapshot.failures})
        self._reports: dict[ReportKey, Body] = {}

    def report(self, key: ReportKey) -> Body | None:
        """The body of a report, or None if the snapshot has none of that key."""
        body = self._reports.get(key)
        if body is None:
            report = self.snapshot.reports.get(key)
            if report is None:
                return None
            body = self._reports[key] = make_body(report.to_dict())
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

    def versions(self) -> dict[str, dict[str, Any]]:
        """Model -> version -> its segments and windows, in the order of their keys."""
        found: dict[str, dict[str, Any]] = {}
        for model, version, segment, window in self.keys:
            known = found.setdefault(model, {}).setdefault(version, {"segments": {}, "windows": {}})
            known["segments"][segment] = known["windows"][window] = None
        return found

    def reports_of(self, model: str) -> list[Report]:
        """The reports of a model."""
        return [report for key, report in self.snapshot.reports.items() if key.series.model == model]


class LatestView:
    """The view of the latest snapshot: made anew when the evaluation has swapped in another one."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._view = SnapshotView(evaluator.latest)

    def __call__(self) -> SnapshotView:
        """The view, as of now."""
        snapshot = self._evaluator.latest
        # By identity: one evaluation publishes twice under one number, its values and then their intervals.
        if snapshot is not self._view.snapshot:
            self._view = SnapshotView(snapshot)
        return self._view


def _flat(key: ReportKey) -> Key:
    return (*key.series, key.window)


def _nested(key: Key) -> ReportKey:
    model, version, segment, window = key
    return ReportKey(SeriesKey(model, version, segment), window)
