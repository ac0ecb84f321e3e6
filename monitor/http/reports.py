"""Reports of the stream: one, or those of the latest snapshot by the page."""

from collections.abc import Callable
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ALL, SeriesKey
from monitor.http.access import Of, may, needs, principal_of
from monitor.http.answers import Body, answer, make_body, tag
from monitor.http.html import HTML, SEE_PAGE, root_of, see_page, wants_page
from monitor.http.pages import page
from monitor.http.parts import Parts
from monitor.http.requests import Computations, parse_time
from monitor.http.schemas import ReportBody, ReportsBody, ok, problems
from monitor.http.snapshots import LatestView
from monitor.reports.evaluation.report import Report, ReportKey

_PAGE_HEADERS: Final = {
    # Figures are drawn with styles of their own.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    "cache-control": "private, no-cache",
    "vary": "Accept",
}


class ReportQuery(BaseModel):
    """Which report is wanted. An empty parameter is one that is left out."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[str, Field(description="the one with the newest predictions if left out", examples=["7"])] = ""
    segment: Annotated[str, Field(description="all if left out: the whole model", examples=["region=eu"])] = ""
    window: Annotated[str, Field(description="the first of those declared if left out", examples=["24h"])] = ""
    as_of: Annotated[
        str,
        Field(
            description="when the model's watermark stood there: RFC 3339, or milliseconds since the epoch. "
            "Recomputed from what is kept; now if left out.",
            examples=["2026-11-20T10:00:00Z"],
        ),
    ] = ""


class ReportsQuery(BaseModel):
    """Which reports are wanted. An empty parameter is one that is left out."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(description="only of this model", examples=["churn"])] = ""
    version: Annotated[str, Field(description="only of this version", examples=["7"])] = ""
    segment: Annotated[str, Field(description="only of this segment", examples=["all"])] = ""
    window: Annotated[str, Field(description="only of this window", examples=["24h"])] = ""
    limit: Annotated[int, Field(ge=1, le=1000, description="reports on a page")] = 100
    cursor: Annotated[str, Field(description="next_cursor of the page before")] = ""


def reports_router(parts: Parts, latest: LatestView, computations: Computations) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["reports"])

    @router.get(
        "/v1/models/{model:path}/report",
        dependencies=[needs(Role.READ, Of.MODEL)],
        summary="One report",
        description="The report of one series in one window: one report, never several. Without `version` it is of "
        "the version with the newest predictions, without `segment` of the whole model, without `window` of the first "
        "window that is declared. Of the latest snapshot it is served as it stands there; `as_of` recomputes it. "
        "The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed. Where `Accept` "
        "prefers HTML, as that of a browser does, it is a page with figures.",
        response_class=Response,
        responses=ok(ReportBody, "The report; `insufficient` says why where it has no measures")
        | {304: {"description": "Nothing has changed since the answer with that ETag"}}
        | problems(404, 410, 422, 503),
    )
    async def report(request: Request, model: str, query: Annotated[ReportQuery, Query()]) -> Response:
        view = latest()
        if wants_page(request):
            draw = _drawn(parts, _recomputed(parts, model, query), root_of(request))
            return Response(await computations.run(draw), headers=_PAGE_HEADERS, media_type=HTML)
        if not query.as_of:
            version = query.version or view.snapshot.current_versions.get(model, "")
            series = SeriesKey(model, version, query.segment or ALL)
            body = view.report(ReportKey(series, query.window or parts.evaluator.windows[0].name))
            if body is not None:
                return answer(request, body)
        found = await computations.run(_recomputed(parts, model, query))
        return answer(request, make_body(found.to_dict()))

    @router.get(
        "/v1/reports",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="The reports of the latest snapshot",
        description="By model, version, segment and window, with what the last evaluation could not report.",
        response_class=Response,
        responses=ok(ReportsBody, "A page of reports") | SEE_PAGE | problems(422),
    )
    async def reports(request: Request, query: Annotated[ReportsQuery, Query()]) -> Response:
        if wants_page(request):
            return see_page(request)
        view = latest()
        wanted = (query.model, query.version, query.segment, query.window)
        may_read = None if principal_of(request).may(Role.READ) else may(request, Role.READ)

        def make() -> Body:
            keys = view.keys
            if may_read is not None:
                keys = [key for key in keys if may_read(key[0])]
            if any(wanted):
                keys = [
                    key for key in keys if all(not want or want == have for want, have in zip(wanted, key, strict=True))
                ]
            shown = page(keys, query.cursor or None, query.limit)
            return tag(view.listing(shown.keys, shown.next_cursor))

        return answer(request, await anyio.to_thread.run_sync(make))

    return router


def _recomputed(parts: Parts, model: str, query: ReportQuery) -> Callable[[], Report]:
    as_of_ms = parse_time(query.as_of, "as_of") if query.as_of else None
    evaluator, segment = parts.evaluator, query.segment or ALL
    return lambda: evaluator.report(model, query.version or None, segment, query.window or None, as_of_ms)


def _drawn(parts: Parts, report: Callable[[], Report], root: str) -> Callable[[], bytes]:
    def draw() -> bytes:
        # The first browser loads matplotlib: that takes a second, and memory that a service without visitors can spare.
        from monitor.reports.page import window_page  # noqa: PLC0415

        found = report()
        return window_page(found, parts.evaluator.scores(found), root)

    return draw
