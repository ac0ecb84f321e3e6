"""The latest snapshot as the routes serve it: bodies made once a snapshot, on the first request for each."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from monitor.events.model import SeriesKey
from monitor.events.times import format_time
from monitor.http.answers import Body, encode_json, make_body
from monitor.http.pages import Key
from monitor.http.parts import Evaluator
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.snapshot import Snapshot


class SnapshotView:
    """One snapshot. May be read by several threads: at worst two of them make the same thing.

    What concerns one report is quick. What goes through all of them (``keys``, ``listing``, ``models``) takes up to a
    tenth of a second where there are a thousand, and is to be called in a worker thread: nothing else would be answered
    meanwhile.

    Attributes
    ----------
    snapshot
        What it shows.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._reports: dict[ReportKey, Body] = {}

    @cached_property
    def keys(self) -> Sequence[Key]:
        """(model, version, segment, window) of its reports, and of those that failed, ascending."""
        return sorted(_flat(key) for key in {*self.snapshot.reports, *self.snapshot.failures})

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

    @cached_property
    def models(self) -> Mapping[str, "ModelView"]:
        """What there is of each model, by name, ascending."""
        found: dict[str, ModelView] = {}
        for key in self.keys:
            model, version, segment, window = key
            view = found.setdefault(model, ModelView({}, []))
            known = view.versions.setdefault(version, {"segments": {}, "windows": {}})
            known["segments"][segment] = known["windows"][window] = None
            report = self.snapshot.reports.get(_nested(key))
            if report is not None:
                view.reports.append(report)
        return found


class ModelView(NamedTuple):
    """What a snapshot has of one model: version -> its segments and windows, in order; and the reports."""

    versions: dict[str, dict[str, dict[str, None]]]
    reports: list[Report]


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
