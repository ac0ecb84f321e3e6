"""The bodies of alerts, made of the fields that :mod:`monitor.store.alert` declares."""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import GenericAlias
from typing import Any, Final

import numpy as np
from pydantic import create_model

from monitor.events.times import format_time
from monitor.http.schemas import NEXT_CURSOR, Body, field
from monitor.store.alert import SHOWN, Alert, AlertChange, AlertState, ShownField

_POINT: Final = "change_point"


def _definitions(shown: Iterable[ShownField]) -> dict[str, Any]:
    """Name -> type and field, as :func:`pydantic.create_model` takes them."""
    return {one.place[-1]: (_type(one), field(one.shown.example, one.shown.about)) for one in shown}


def _type(shown: ShownField) -> Any:
    if not shown.is_time:
        return shown.type
    return str if shown.type is int else str | None


_ChangePoint: Final = create_model(
    "ChangePointBody",
    __base__=Body,
    __doc__="When the change came that the evidence is about: times of predictions, RFC 3339.",
    **_definitions(one for one in SHOWN if one.place[0] == _POINT),
)
_SUMMARY: Final = _definitions(one for one in SHOWN if one.place[0] != _POINT)
_SUMMARY[_POINT] = _ChangePoint, field(_ChangePoint.example())
AlertSummaryBody: Final = create_model(
    "AlertSummaryBody",
    __base__=Body,
    __doc__="An alert, without its document and history.",
    **_SUMMARY,
)
_summaries: Any = GenericAlias(list, (AlertSummaryBody,))


class AlertChangeBody(Body):
    """A change of an alert."""

    at: str = field("2026-11-21T08:05:13.000Z")
    state: AlertState = field("acknowledged", "into which it came")
    actor: str = field("key:ada", "who did it; service: the service itself")
    note: str = field("the upstream join was fixed")


AlertsBody: Final = create_model(
    "AlertsBody",
    __base__=Body,
    __doc__="Alerts, the newest first.",
    alerts=(_summaries, field([AlertSummaryBody.example()])),
    next_cursor=(str | None, field(None, NEXT_CURSOR)),
)
AlertBody: Final = create_model(
    "AlertBody",
    __base__=AlertSummaryBody,
    __doc__="An alert.",
    document=(
        dict[str, Any],
        field(
            {
                "label": "shape",
                "segment": None,
                "since": {"predictions": 5604, "labelled": 5210, "hours": 16.92},
                "remedy": {
                    "text": "Refit on the events since then.",
                    "command": "monitor recalibrate churn --version 7 --since 2026-11-20T14:05:00Z --wait",
                },
            },
            "what is wrong (label), the change point, how much has come since, the segments to blame, before and "
            "after, and the remedy with its command",
        ),
    ),
    history=(list[AlertChangeBody], field([AlertChangeBody.example()], "the oldest change first")),
)


# As dicts, and times in columns: a page of 1,000 bodies would take several times as long.
_TIMES: Final = [attrgetter(one.attribute) for one in SHOWN if one.is_time]
_READ: Final = [(one.place, one.is_time, attrgetter(one.attribute)) for one in SHOWN]


def summaries_of(alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """What AlertSummaryBody describes, of each."""
    times_ms = [[read(alert) or 0 for read in _TIMES] for alert in alerts]
    moments = np.array(times_ms, np.int64).reshape(-1, len(_TIMES)).astype("M8[ms]")
    summaries = []
    for alert, texts in zip(alerts, np.datetime_as_string(moments, timezone="UTC").tolist(), strict=True):
        summary: dict[str, Any] = {}
        written = iter(texts)
        for (*objects, name), is_time, read in _READ:
            value, text = read(alert), next(written) if is_time else None
            place = summary
            for one in objects:
                place = place.setdefault(one, {})
            place[name] = value if text is None or value is None else text
        summaries.append(summary)
    return summaries


def change_of(change: AlertChange) -> dict[str, Any]:
    """What AlertChangeBody describes."""
    return {"at": format_time(change.at_ms), "state": change.state, "actor": change.actor, "note": change.note}


def document_of(alert: Alert, changes: Sequence[AlertChange]) -> dict[str, Any]:
    """What AlertBody describes."""
    (summary,) = summaries_of([alert])
    return summary | {"document": alert.finding.document, "history": [change_of(one) for one in changes]}
