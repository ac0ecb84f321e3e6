"""The bodies of alerts."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from monitor.events.times import format_time
from monitor.http.schemas import NEXT_CURSOR, Body, field
from monitor.store.alerts import Alert, AlertChange, AlertState, Kind, Resolution

_ID: Final = "al_5e2c8f0b7d1a4936"
_TIME: Final = "2026-11-21T08:05:13.000Z"


class ChangePointBody(Body):
    """When the change came that the evidence is about: times of predictions, RFC 3339."""

    at: str = field("2026-11-20T14:05:00.000Z", "the most likely")
    from_: str = field("2026-11-20T13:30:00.000Z", "the earliest that fits the data", alias="from")
    to: str = field("2026-11-20T14:40:00.000Z", "the latest")


class AlertSummaryBody(Body):
    """An alert, without its document and history."""

    id: str = field(_ID)
    model: str = field("churn")
    version: str = field("7")
    kind: Kind = field(
        "calibration",
        "calibration: predictions are wrong; change: calibration is not that of the reference any more; map: the "
        "recalibration map that serves does harm",
    )
    state: AlertState = field(
        "firing",
        "pending: within a factor of ten of the line; firing: the line was reached; acknowledged: firing, and somebody "
        "has it; resolved: over",
    )
    summary: str = field("Predictions of churn 7 are too sure of themselves since 2026-11-20 14:05 UTC.")
    log10_evidence: float = field(7.2, "decimal logarithm of the evidence; of an alert that fired the most there was")
    log10_line: float = field(5.1, "that of the line at which an alert fires: the budget of false alarms draws it")
    change_point: ChangePointBody = field(ChangePointBody.example())
    events: int = field(5210, "settled labelled events since the change point")
    settled_to: str = field("2026-11-21T07:00:00.000Z", "time of predictions up to which the evidence looks")
    pending_since: str = field("2026-11-21T07:55:01.000Z", "RFC 3339, like all times")
    firing_since: str | None = field(_TIME, "null while it is pending")
    acknowledged_by: str | None = field(None, "who acknowledged it last")
    resolved_at: str | None = field(None)
    resolved_because: Resolution | None = field(
        None,
        "over: the data speak against it; stopped: the version has no more events; promoted, rolled_back: another map "
        "serves, or none; settings: its detector was switched off, or starts again at 0 with other settings",
    )


class AlertsBody(Body):
    """Alerts, the newest first."""

    alerts: list[AlertSummaryBody] = field([AlertSummaryBody.example()])
    next_cursor: str | None = field(None, NEXT_CURSOR)


class AlertChangeBody(Body):
    """A change of an alert."""

    at: str = field(_TIME)
    state: AlertState = field("acknowledged", "into which it came")
    actor: str = field("key:ada", "who did it; service: the service itself")
    note: str = field("the upstream join was fixed")


class AlertBody(AlertSummaryBody):
    """An alert."""

    document: dict[str, Any] = field(
        {
            "label": "shape",
            "segment": None,
            "since": {"predictions": 5604, "labelled": 5210, "hours": 16.92},
            "remedy": {
                "text": "Refit on the events since then.",
                "command": "monitor recalibrate churn --version 7 --since 2026-11-20T14:05:00Z --wait",
            },
        },
        "what is wrong (label), the change point, how much has come since, the segments to blame, before and after, "
        "and the remedy with its command",
    )
    history: list[AlertChangeBody] = field([AlertChangeBody.example()], "the oldest change first")


# As dicts, and times in columns: a page of 1,000 bodies would take several times as long.


def summaries_of(alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """What AlertSummaryBody describes, of each."""
    times_ms = [
        (
            of.since_ms,
            of.from_ms,
            of.to_ms,
            of.settled_ms,
            alert.pending_ms,
            alert.firing_ms or 0,
            alert.resolved_ms or 0,
        )
        for alert in alerts
        for of in [alert.finding]
    ]
    moments = np.array(times_ms, np.int64).reshape(-1, 7).astype("M8[ms]")
    texts = np.datetime_as_string(moments, timezone="UTC").tolist()
    return [
        {
            "id": alert.id,
            "model": alert.finding.model,
            "version": alert.finding.version,
            "kind": alert.finding.kind,
            "state": alert.state,
            "summary": alert.finding.summary,
            "log10_evidence": alert.finding.log10_evidence,
            "log10_line": alert.finding.log10_line,
            "change_point": {"at": since, "from": first, "to": last},
            "events": alert.finding.events,
            "settled_to": settled,
            "pending_since": pending,
            "firing_since": None if alert.firing_ms is None else firing,
            "acknowledged_by": alert.acknowledged_by,
            "resolved_at": None if alert.resolved_ms is None else resolved,
            "resolved_because": alert.reason,
        }
        for alert, (since, first, last, settled, pending, firing, resolved) in zip(alerts, texts, strict=True)
    ]


def change_of(change: AlertChange) -> dict[str, Any]:
    """What AlertChangeBody describes."""
    return {"at": format_time(change.at_ms), "state": change.state, "actor": change.actor, "note": change.note}


def document_of(alert: Alert, changes: Sequence[AlertChange]) -> dict[str, Any]:
    """What AlertBody describes."""
    (summary,) = summaries_of([alert])
    return summary | {"document": alert.finding.document, "history": [change_of(one) for one in changes]}
