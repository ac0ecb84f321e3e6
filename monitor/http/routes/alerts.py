"""GET /v1/alerts, one alert, its acknowledgement, and the stream of their changes.

Bodies are made of the fields that :mod:`monitor.store.alert` declares.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any, Final, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import create_model
from starlette.responses import Response, StreamingResponse

from monitor.access.model import Role
from monitor.errors import InputError, StoreUnavailable, UnknownAlert
from monitor.events.fields import MAX_NAME_CHARACTERS, wrong_name
from monitor.events.times import format_time
from monitor.http.authorization import Of, caller_of, needs, principal_of, readable
from monitor.http.event_stream import HEARTBEAT_SECONDS, POLL_SECONDS, EventStream, event_response
from monitor.http.problems import Problem, wrong_parameter
from monitor.http.request_parsing import (
    MAX_NOTE,
    NO_PARAMETERS,
    PageParameters,
    checked_note,
    first_page,
    parameter,
    parse_body,
    parse_end,
    parse_time,
    read_id,
    read_optional_body,
    wrong_cursor,
)
from monitor.http.responses import (
    BODY_PROBLEMS,
    NOT_MODIFIED,
    encode_json,
    problems,
    tagged,
    tagged_response,
)
from monitor.http.schemas import NEXT_CURSOR, Body, field, reader, request_body
from monitor.http.services import Services, ServicesOf
from monitor.store.alert import OPEN, SHOWN, Alert, AlertChange, AlertState, ShownField
from monitor.store.alerts import AlertStore

_POINT: Final = "change_point"

router: Final = APIRouter(tags=["alerts"])

_CHANGES_AT_ONCE: Final = 100
_MAX_TOGETHER: Final = 1000
"""Open alerts, the newest, among which those are looked for that changed together."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_STATES: Final[Mapping[str, Sequence[str]]] = {"": (), "all": (), "open": OPEN}
"""State in a request -> states of the alerts that are listed, where it is not that state alone."""
_UNKNOWN: Final = {404: ("unknown-alert", "no alert is called 'al_17'")}
_NOT_FIRING: Final = {
    409: ("conflict", "the alert al_5e2c8f0b7d1a4936 is resolved: only one that is firing can be acknowledged")
}
_EVENT: Final = (
    'id: 17\nevent: firing\ndata: {"number":17,"at":"2026-11-21T08:05:13.000Z","state":"firing","actor":"service",'
    '"note":"","alert":{"id":"al_5e2c8f0b7d1a4936"}}\n\n'
)


class AcknowledgementBody(Body):
    """The acknowledgement of an alert: who works on it, until when it is silent, and a note."""

    note: str = field("the upstream join was fixed", "kept in the audit trail", "", max_length=MAX_NOTE)
    assigned_to: str | None = field("ada", "who works on it", None, max_length=MAX_NAME_CHARACTERS)
    until: str | None = field(
        "8h", "when it fires again, unless it is over: RFC 3339, or how long from now; never if left out", None
    )


_read_acknowledgement: Final = reader(AcknowledgementBody)


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


class TogetherBody(Body):
    """An open alert on another model, or version, that changed about the same time."""

    id: str = field("al_17c0ffee5eed2bad")
    model: str = field("fraud")
    version: str = field("3")


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
    together=(
        list[TogetherBody],
        field([], "open alerts whose change came within a horizon of this one: look for what they have in common"),
    ),
)


# As dicts, and times in columns: a page of 1,000 bodies would take several times as long.
_TIMES: Final = [attrgetter(one.attribute) for one in SHOWN if one.is_time]
_READ: Final = [(one.place, one.is_time, attrgetter(one.attribute)) for one in SHOWN]


def summaries_of(alerts: Sequence[Alert]) -> list[dict[str, Any]]:
    """The bodies of alerts, as AlertSummaryBody describes them."""
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
    """The body of a change, as AlertChangeBody describes it."""
    return {"at": format_time(change.at_ms), "state": change.state, "actor": change.actor, "note": change.note}


class AlertsQuery(PageParameters):
    """Which alerts are listed."""

    limit: int = parameter("alerts on a page", default=100, ge=1, le=1000)
    state: Literal["", "all", "open", "pending", "firing", "acknowledged", "resolved"] = parameter(
        "only those in this state; open: firing or acknowledged; all, as without it: in any", "open"
    )
    kind: Literal["", "calibration", "change", "map"] = parameter("only of this kind", "calibration")
    model: str = parameter("only of this model", "churn")
    version: str = parameter("only of this version", "7")
    since: str = parameter(
        "only those that were not resolved before: RFC 3339, or milliseconds since the epoch", "2026-11-20T10:00:00Z"
    )


@router.get(
    "/v1/alerts",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="Alerts about models",
    description="The newest first, without their documents.",
    response_model=AlertsBody,
    response_description="A page of alerts",
    responses=NOT_MODIFIED | problems(422, 503),
)
async def alerts(request: Request, services: ServicesOf, query: Annotated[AlertsQuery, Query()]) -> Response:
    since_ms = parse_time(query.since, "since") if query.since else None
    models = readable(request)
    if query.model:
        models = [query.model] if models is None or query.model in models else []

    def page() -> Response:
        listed, next_cursor = _page(services.alerts, models, query, since_ms)
        body = {"alerts": summaries_of(listed), "next_cursor": next_cursor}
        return tagged_response(request, body)

    return await services.lookups.run(page)


@router.get(
    "/v1/alerts/stream",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    summary="Changes of alerts as they come",
    description="Server-sent events: each time an alert fires, is acknowledged or resolved, with the alert as it is "
    "when the event is sent. `id` is the number of the change; send the last one as `Last-Event-ID` to get all that "
    "came after it, as browsers do by themselves. Without it the stream begins with the next change. It ends after a "
    "while, and with the service: connect again. A comment comes every 15 seconds.",
    response_class=StreamingResponse,
    responses=event_response(_EVENT) | problems(422, 503),
    openapi_extra={
        "parameters": [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "number of the last change that the client has",
                "schema": {"type": "string"},
            }
        ]
    },
)
async def stream(request: Request, services: ServicesOf) -> Response:
    models, store = readable(request), services.alerts
    newest = await services.lookups.run(store.newest_change)
    # A number of another store would wait for ever.
    after = min(_last_event_id(request, newest), newest)
    return EventStream(services.streams, caller_of(request), _events(services, models, after), "poll GET /v1/alerts")


@router.get(
    "/v1/alerts/{id}",
    dependencies=[needs(Role.READ, Of.ALERT), NO_PARAMETERS],
    summary="An alert",
    response_model=AlertBody,
    response_description="The alert, with its document, its history and notes",
    responses=NOT_MODIFIED | problems(404, 422, 503, other=_UNKNOWN),
)
async def alert(request: Request, services: ServicesOf, id: str) -> Response:  # noqa: A002 - the name in the path
    models = readable(request)
    return tagged_response(request, await services.lookups.run(lambda: tagged(_whole(services, models, id))))


@router.post(
    "/v1/alerts/{id}/acknowledgement",
    dependencies=[needs(Role.WRITE, Of.ALERT), NO_PARAMETERS],
    summary="Acknowledge an alert",
    description="Says that somebody has it: reminders stop until it is over, or until the time that is given. It may "
    "be repeated, with another note, person or time. 409 if it is not firing.",
    response_model=AlertBody,
    response_description="The alert, acknowledged",
    responses=problems(*BODY_PROBLEMS, 404, 409, other=_UNKNOWN | _NOT_FIRING),
    openapi_extra=request_body(AcknowledgementBody, required=False),
)
async def acknowledge(request: Request, services: ServicesOf, id: str) -> Response:  # noqa: A002 - the name in the path
    body = await read_optional_body(request, services.body_seconds)
    wanted = parse_body(body, _read_acknowledgement, '{"note": "the upstream join was fixed", "until": "8h"}')
    note, name = checked_note(wanted.note), wanted.assigned_to or None
    wrong = name and wrong_name(name)
    if wrong:
        raise InputError(f"assigned_to {wrong}")
    now_ms = services.clock.now_ms()
    until_ms = None if wanted.until is None else parse_end(wanted.until, "until", now_ms)
    actor, models = principal_of(request).name, readable(request)

    def change() -> Response:
        services.alerts.acknowledge(
            id, actor=actor, note=note, now_ms=now_ms, assigned_to=name, muted_until_ms=until_ms
        )
        return Response(encode_json(_whole(services, models, id)), media_type="application/json")

    return await services.lookups.run(change)


def _whole(services: Services, models: Collection[str] | None, alert_id: str) -> dict[str, Any]:
    """The body of an alert, as AlertBody describes it, for a caller who may read these models."""
    alert = services.alerts.alert(alert_id)
    (summary,) = summaries_of([alert])
    return summary | {
        "document": alert.finding.document,
        "history": [change_of(one) for one in services.alerts.changes_of(alert_id)],
        "together": _together(services, models, alert) if alert.state in OPEN else [],
    }


def _together(services: Services, models: Collection[str] | None, alert: Alert) -> list[dict[str, Any]]:
    """The open alerts whose change may have come within a horizon of this one's."""
    policy, found = services.policy(alert.finding.model), alert.finding
    horizon_ms = 0 if policy is None else policy.horizon_ms
    return [
        {"id": one.id, "model": one.finding.model, "version": one.finding.version}
        for one in services.alerts.alerts(models, states=OPEN, limit=_MAX_TOGETHER)
        if one.id != alert.id
        and one.finding.from_ms <= found.to_ms + horizon_ms
        and found.from_ms <= one.finding.to_ms + horizon_ms
    ]


def _page(
    store: AlertStore, models: Collection[str] | None, query: AlertsQuery, since_ms: int | None
) -> tuple[Sequence[Alert], str | None]:
    before = read_id(query.cursor) if query.cursor else None
    states = _STATES.get(query.state, (query.state,))
    try:
        if before is not None and models is not None and store.alert(before).finding.model not in models:
            # A cursor must not tell whether there is an alert of this name.
            raise wrong_cursor(query.cursor)
        found = store.alerts(
            models,
            states=states,
            kind=query.kind or None,
            version=query.version or None,
            since_ms=since_ms,
            before=before,
            # One more than is shown: if it exists, there is a next page.
            limit=query.limit + 1,
        )
    except UnknownAlert:
        raise wrong_cursor(query.cursor) from None
    return first_page(found, query.limit, lambda alert: alert.id)


def _last_event_id(request: Request, newest: int) -> int:
    text = request.headers.get("last-event-id", "")
    if not text:
        return newest
    if not _NUMBER.fullmatch(text):
        raise wrong_parameter(f"Last-Event-ID must be the id of an event, got {text[:80]!r}")
    return int(text)


async def _events(services: Services, models: Collection[str] | None, after: int) -> AsyncIterator[str]:
    loop, store = asyncio.get_running_loop(), services.alerts
    began = beat = loop.time()
    read_to = after
    # Without data, an event says only after which one to go on.
    yield f"retry: 2000\nid: {after}\n\n"
    while True:
        changes: Sequence[tuple[AlertChange, Alert]] = []
        try:
            if (newest := await services.newest_change.read()) > read_to:
                changes = await services.lookups.run(partial(store.changes, after, models, _CHANGES_AT_ONCE))
                read_to = newest if len(changes) < _CHANGES_AT_ONCE else changes[-1][0].number
        except (StoreUnavailable, Problem) as error:
            # It goes on where it was; the comment is for people.
            yield f": {' '.join(str(error).split())}\n\n"
        for change, alert in changes:
            after = change.number
            yield _event(change, alert)
        now = loop.time()
        if changes or now >= beat + HEARTBEAT_SECONDS:
            beat = now
            yield ": \n\n"
        if services.is_stopping() or now >= began + services.stream_seconds:
            return
        if len(changes) < _CHANGES_AT_ONCE:
            await asyncio.sleep(POLL_SECONDS)


def _event(change: AlertChange, alert: Alert) -> str:
    (summary,) = summaries_of([alert])
    data = {"number": change.number, **change_of(change), "alert": summary}
    return f"id: {change.number}\nevent: {change.state.value}\ndata: {encode_json(data).decode()}\n\n"
