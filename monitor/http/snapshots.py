"""The latest snapshot as the routes serve it: each body is encoded once per snapshot, on its first request."""

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from monitor.events.times import format_known, format_time
from monitor.http.responses import TaggedBody, encode_json, tagged
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.evidence_state import EvidenceState
from monitor.windows.snapshot import Snapshot


class SnapshotView:
    """One snapshot. Any thread: at worst two of them encode the same body.

    ``keys``, ``listing`` and ``models`` go through all reports and take up to 0.1 s for a thousand of them: call them
    in a worker thread.
    """

    def __init__(self, snapshot: Snapshot, revision: Callable[[str, str], int]) -> None:
        self.snapshot = snapshot
        self._revision = revision
        self._reports: dict[ReportKey, tuple[int, TaggedBody]] = {}

    @cached_property
    def keys(self) -> Sequence[ReportKey]:
        """The keys of its reports and failures, ascending."""
        return sorted({*self.snapshot.reports, *self.snapshot.failures})

    def report(self, key: ReportKey) -> TaggedBody | None:
        """The body of a report, or None if the snapshot has no such report."""
        model, version, _ = key.series
        revision, (encoded_at, body) = self._revision(model, version), self._reports.get(key, (0, None))
        if body is None or encoded_at != revision:
            report = self.snapshot.reports.get(key)
            if report is None:
                return None
            body = tagged({**report.to_dict(), "evidence": self.evidence(model, version)})
            self._reports[key] = revision, body
        return body

    def evidence(self, model: str, version: str) -> dict[str, Any]:
        """State of the evidence on a version as it serves now: an ``EvidenceStateBody``."""
        return document_of(self.snapshot.state(model, version, self._revision(model, version)))

    def listing(self, keys: Sequence[ReportKey], next_cursor: str | None) -> bytes:
        """Several reports in one body."""
        snapshot = self.snapshot
        bodies = [body.data for key in keys if (body := self.report(key)) is not None]
        failures = [
            {**key.series._asdict(), "window": key.window, "reason": reason}
            for key in keys
            if (reason := snapshot.failures.get(key)) is not None
        ]
        times = (snapshot.models[model].evaluated_ms for model in {key.series.model for key in keys})
        evaluated_ms = min(times, default=snapshot.evaluated_ms)
        head = encode_json(
            {
                "evaluated_at": format_time(evaluated_ms) if snapshot.number else None,
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
            view = views.setdefault(key.series.model, ModelView({}, []))
            parts = view.versions.setdefault(key.series.version, {"segments": {}, "windows": {}})
            parts["segments"][key.series.segment] = parts["windows"][key.window] = None
            report = self.snapshot.reports.get(key)
            if report is not None:
                view.reports.append(report)
        return views


class DifferentSnapshots:
    """Counts the snapshots that differ from the one before in more than their time. Any thread.

    Parameters
    ----------
    first
        Where the count begins: that of no earlier process is to be met again, so a time.
    """

    def __init__(self, first: int) -> None:
        self._lock = threading.Lock()
        # Weakly: while no stream is open, nobody would let an old one go.
        self._last: weakref.ref[Snapshot] | None = None
        self._number = first

    def number(self, latest: Snapshot) -> int:
        """The number of the last one that differs. It goes through all reports of a new one."""
        with self._lock:
            last = None if self._last is None else self._last()
            if last is not latest:
                self._number += last is None or not _is_same(last, latest)
                self._last = weakref.ref(latest)
            return self._number


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return one.models.keys() == other.models.keys() and all(
        part.same_reports(other.models[model]) and part.same_summary(other.models[model])
        for model, part in one.models.items()
    )


class ModelView(NamedTuple):
    """One model in a snapshot: version -> its segments and windows, in order; and the reports."""

    versions: dict[str, dict[str, dict[str, None]]]
    reports: list[Report]


def document_of(state: EvidenceState) -> dict[str, Any]:
    """State of the evidence as JSON has it: an ``EvidenceStateBody``."""
    document = state._asdict()
    since_ms, to_ms = document.pop("since_ms"), document.pop("to_ms")
    document["since"] = format_known(since_ms)
    document["settled_to"] = format_known(to_ms)
    return document


def flat_key(key: ReportKey) -> tuple[str, str, str, str]:
    """(model, version, segment, window), as in cursors."""
    return (*key.series, key.window)
