"""GET /v1/updates: says when there is something new, so that pages ask again then and not before."""

import asyncio
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Final, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from monitor.access.model import Role
from monitor.errors import StoreUnavailable
from monitor.events.times import format_time
from monitor.http.authorization import Of, caller_of, needs, readable
from monitor.http.event_stream import HEARTBEAT_SECONDS, POLL_SECONDS, EventStream, event_response
from monitor.http.problems import Problem
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import encode_json, problems
from monitor.http.services import Services, ServicesOf
from monitor.windows.snapshot import Snapshot

router: Final = APIRouter(tags=["operation"])

_CHANGES_AT_ONCE: Final = 100
_EVENT: Final = 'data: {"evaluated_at":"2026-11-21T08:05:13.000Z","evaluation":1795334713001,"alert":17}\n\n'


@router.get(
    "/v1/updates",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    summary="When to ask again, as it happens",
    description="Server-sent events, for pages. `evaluation` is another number once windows or evidence of any model "
    "have changed, `alert` once an alert has; `evaluated_at` is when models were last evaluated, also where nothing "
    "changed. An event comes at the start, with each change, and every 15 seconds. The numbers are those of this "
    "process: compare those of one stream alone. It ends after a while, and with the service: connect again.",
    response_class=StreamingResponse,
    responses=event_response(_EVENT) | problems(422, 503),
)
async def updates(request: Request, services: ServicesOf) -> Response:
    models, newest = readable(request), await services.lookups.run(services.alerts.newest_change)
    events = _updates(services, models, newest)
    return EventStream(services.streams, caller_of(request), events, "ask again every now and then")


class _Numbers(NamedTuple):
    evaluation: int
    alert: int


async def _updates(services: Services, models: Collection[str] | None, alert: int) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    began = sent_at = loop.time()
    sent, numbers = None, _Numbers(0, alert)
    snapshot: Snapshot | None = None
    read_to = alert

    def look(latest: Snapshot, newest: int) -> _Numbers:
        """Read what is new. Of changes of alerts, only those of models that may be read count."""
        shown = numbers.alert
        if newest != read_to:
            changes = services.alerts.changes(shown, models, _CHANGES_AT_ONCE)
            shown = changes[-1][0].number if changes else shown
        return _Numbers(services.evaluations.number(latest), shown)

    yield "retry: 2000\n\n"
    while True:
        try:
            newest, latest = await services.newest_change.read(), services.reports.latest
            if newest != read_to or latest is not snapshot:
                numbers = await services.lookups.run(partial(look, latest, newest))
                snapshot, read_to = latest, newest
        except (StoreUnavailable, Problem) as error:
            # It goes on where it was; the comment is for people.
            yield f": {' '.join(str(error).split())}\n\n"
        now = loop.time()
        if numbers != sent or now >= sent_at + HEARTBEAT_SECONDS:
            sent, sent_at = numbers, now
            evaluated_ms = services.reports.latest.evaluated_ms
            at = format_time(evaluated_ms) if services.reports.latest.number else None
            yield f"data: {encode_json({'evaluated_at': at, **numbers._asdict()}).decode()}\n\n"
        if services.is_stopping() or now >= began + services.stream_seconds:
            return
        await asyncio.sleep(POLL_SECONDS)
