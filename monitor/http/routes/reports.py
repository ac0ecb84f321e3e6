"""Reports of the stream, also as diagrams; those of the latest snapshot by the page; and one of data in the request."""

from typing import Annotated, Any, Final
from urllib.parse import quote

import anyio.to_thread
import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import Conflict
from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_time
from monitor.http.authorization import Of, caller_of, may, needs, principal_of
from monitor.http.diagram_schemas import WindowDiagramsBody
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.problems import wrong_parameter
from monitor.http.request_parsing import (
    NO_PARAMETERS,
    PageParameters,
    Parameters,
    check_media_type,
    paginate,
    parameter,
    parse_body,
    parse_time,
    read_body,
)
from monitor.http.responses import (
    BODY_PROBLEMS,
    JSON,
    NOT_MODIFIED,
    TaggedBody,
    encode_json,
    problems,
    tagged,
    tagged_response,
)
from monitor.http.schemas import (
    ClassReportBody,
    DataBody,
    ReportBody,
    ReportsBody,
    WindowReportBody,
    reader,
    reference,
    request_body,
)
from monitor.http.services import Services, ServicesOf
from monitor.http.snapshots import flat_key
from monitor.measures import REPORT_MEASURES, choose_measures
from monitor.reports.diagrams.document import diagrams_document
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.contents import Contents

router: Final = APIRouter(tags=["reports"])

_read_data: Final = reader(DataBody)
_NOTHING_SERVES: Final = {409: ("conflict", "no map serves churn 7: leave served out")}


class ReportQuery(Parameters):
    """The report that is requested."""

    version: str = parameter("the one with the newest predictions if left out", "7")
    segment: str = parameter("all if left out: the whole model", "region=eu")
    window: str = parameter("the first of those declared if left out", "24h")
    as_of: str = parameter(
        "when the model's watermark stood there: RFC 3339, or milliseconds since the epoch. "
        "Recomputed from what is kept; now if left out.",
        "2026-11-20T10:00:00Z",
    )

    served: bool = parameter(
        "as the map that serves now makes the predictions, which must be a map of predictions alone; "
        "as the model makes them if left out",
        default=False,
    )


class DiagramsQuery(ReportQuery):
    """The predictions whose diagrams are requested: a window, or a span of time."""

    from_: str = parameter(
        "predictions from then on instead of those of a window: RFC 3339, or milliseconds since the epoch",
        "2026-11-19T10:00:00Z",
        alias="from",
    )
    to: str = parameter("and before then; up to where the model is settled if left out", "2026-11-20T10:00:00Z")


class ReportsQuery(PageParameters):
    """The reports of a page."""

    model: str = parameter("only of this model", "churn")
    version: str = parameter("only of this version", "7")
    segment: str = parameter("only of this segment", "all")
    window: str = parameter("only of this window", "24h")


@router.get(
    "/v1/models/{model:path}/report",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="One report",
    description="The report of one series in one window: one report, never several. Without `version` it is of "
    "the version with the newest predictions, without `segment` of the whole model, without `window` of the first "
    "window that is declared. It is that of the latest snapshot, and the header `Age` says how many seconds ago the "
    "model was evaluated, by whichever replica does; `as_of` recomputes it. "
    "The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=WindowReportBody,
    response_description="The report; `insufficient` says why where it has no measures",
    responses=NOT_MODIFIED | SEE_PAGE | problems(404, 409, 410, 422, 503, other=_NOTHING_SERVES),
)
async def report(
    request: Request, services: ServicesOf, model: str, query: Annotated[ReportQuery, Query()]
) -> Response:
    if wants_page(request):
        return see_page(request, f"reports/{quote(model)}?{request.url.query}")
    source, view = services.reports, services.latest()
    as_of_ms = parse_time(query.as_of, "as_of") if query.as_of else None
    known = view.snapshot.models.get(model)
    evaluated_ms = known.evaluated_ms if known is not None and as_of_ms is None else None

    def recompute() -> Report:
        if query.served:
            key, contents = source.predictions(
                model, query.version or None, query.segment or ALL, query.window or None, as_of_ms
            )
            return source.report_of(key, _as_served(services, key.series, contents))
        return source.report(model, query.version or None, query.segment or ALL, query.window or None, as_of_ms)

    if as_of_ms is None and not query.served:
        version = query.version or view.snapshot.current_version(model) or ""
        series = SeriesKey(model, version, query.segment or ALL)
        body = view.report(ReportKey(series, query.window or source.windows[0].name))
        if body is not None:
            answer = tagged_response(request, body)
            answer.headers.update(_age(services, evaluated_ms))
            return answer
    recomputed = await services.computations.run(recompute)
    evidence = None if as_of_ms is not None else view.evidence(model, recomputed.version)
    return tagged_response(request, {**recomputed.to_dict(), "evidence": evidence})


@router.get(
    "/v1/models/{model:path}/diagrams",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="What the diagrams of one window show",
    description="Reliability in bins and as a curve with the band of calibrated models, the predictions by outcome, "
    "where they are too high or too low, the verdicts of TCE's test, and the Cox fit: some 10 kB of the same "
    "predictions as the report's. With `from` (and `to`) of a span of time instead, such as before and after a "
    "change: whole panes of settled predictions, the narrowest that are kept since then; `from` and `to` of the "
    "answer say which. The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=WindowDiagramsBody,
    response_description="The diagrams; null where no prediction has an outcome",
    responses=NOT_MODIFIED | problems(404, 409, 410, 422, 503, other=_NOTHING_SERVES),
)
async def diagrams(
    request: Request, services: ServicesOf, model: str, query: Annotated[DiagramsQuery, Query()]
) -> Response:
    as_of_ms, from_ms, to_ms = (
        parse_time(text, name) if text else None
        for text, name in ((query.as_of, "as_of"), (query.from_, "from"), (query.to, "to"))
    )
    if to_ms is not None and from_ms is None:
        raise wrong_parameter(f"to={query.to} needs from: name both ends of the span")
    if from_ms is not None:
        for name, value in (("window", query.window), ("as_of", query.as_of)):
            if value:
                raise wrong_parameter(f"{name}={value} and from exclude each other: ask for a window or a span")
        if from_ms < 0:
            raise wrong_parameter(f"from must not lie before 1970, got {query.from_}")
        if to_ms is not None and from_ms >= to_ms:
            raise wrong_parameter(f"from must be earlier than to, got {query.from_} and {query.to}")

    reports, version, segment = services.reports, query.version or None, query.segment or ALL

    def shown(series: SeriesKey, contents: Contents) -> Contents:
        return _as_served(services, series, contents) if query.served else contents

    def compute() -> TaggedBody:
        if from_ms is not None:
            series, contents = reports.predictions_between(model, version, segment, from_ms, to_ms)
            return tagged(_diagrams_document(series, None, shown(series, contents)))
        key, contents = reports.predictions(model, version, segment, query.window or None, as_of_ms)
        return tagged(_diagrams_document(key.series, key.window, shown(key.series, contents)))

    return tagged_response(request, await services.computations.run(compute))


@router.get(
    "/v1/reports",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The reports of the latest snapshot",
    description="By model, version, segment and window, with the failures of the last evaluations. `evaluated_at` is "
    "the time of the oldest evaluation of the models on the page.",
    response_model=ReportsBody,
    response_description="A page of reports",
    responses=SEE_PAGE | problems(422),
)
async def reports(request: Request, services: ServicesOf, query: Annotated[ReportsQuery, Query()]) -> Response:
    if wants_page(request):
        return see_page(request)
    view = services.latest()
    wanted = (query.model, query.version, query.segment, query.window)
    may_read = None if principal_of(request).may(Role.READ) else may(request, Role.READ)

    def encode() -> TaggedBody:
        keys = view.keys
        if may_read is not None:
            keys = [key for key in keys if may_read(key.series.model)]
        if any(wanted):
            keys = [
                key
                for key in keys
                if all(not want or want == have for want, have in zip(wanted, flat_key(key), strict=True))
            ]
        page, next_cursor = paginate(keys, query.cursor, query.limit, flat_key)
        return tagged(view.listing(page, next_cursor))

    return tagged_response(request, await anyio.to_thread.run_sync(encode))


@router.post(
    "/v1/reports",
    name="report",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    summary="The report of data in the request",
    description="One report of all the data, in the form of a window's; for class probabilities (p a list of lists) a "
    "report of many classes. Too little data is not an error: the report says so in `insufficient`. The data are not "
    "stored.",
    responses={
        200: {
            "description": "The report",
            "content": {JSON: {"schema": {"oneOf": [reference(ReportBody), reference(ClassReportBody)]}}},
        },
        **problems(*BODY_PROBLEMS),
    },
    response_class=Response,
    openapi_extra=request_body(DataBody),
)
async def report_of_data(request: Request, services: ServicesOf) -> Response:
    check_media_type(request, JSON)

    def compute(body: bytes) -> bytes:
        data = parse_body(body, _read_data, '{"p": [0.9, 0.2], "y": [1, 0]}')
        result = services.evaluate(
            data.p,
            [float("nan") if outcome is None else outcome for outcome in data.y],
            weight=data.weight,
            measures=REPORT_MEASURES if data.measures is None else choose_measures(data.measures),
            model=data.model,
            version=data.version,
            segment=data.segment,
        )
        return encode_json(result.to_dict())

    with services.body_bytes.held_by(caller_of(request)) as acquire:
        body = await read_body(request, services.api.max_report_bytes, services.body_seconds, acquire)
        return Response(await services.computations.run(lambda: compute(body)), media_type=JSON)


def _age(services: Services, evaluated_ms: int | None) -> dict[str, str]:
    """The header that says how old a report of the latest snapshot is."""
    return {} if evaluated_ms is None else {"age": str(max(0, services.clock.now_ms() - evaluated_ms) // 1000)}


def _as_served(services: Services, series: SeriesKey, contents: Contents) -> Contents:
    """The contents as the map that serves makes them. Raises InputError where it needs more than predictions."""
    serving = services.recalibrations.serving
    if serving.map_of(series.model, series.version) is None:
        raise Conflict(f"no map serves {series.model} {series.version}: leave served out")
    return contents.recalibrated(lambda p: np.array(serving.apply(series.model, series.version, p).prediction))


def _diagrams_document(series: SeriesKey, window: str | None, contents: Contents) -> dict[str, Any]:
    table = contents.table.to_scores()
    return {
        **series._asdict(),
        "window": window,
        "from": format_time(contents.from_ms),
        "to": format_time(contents.to_ms),
        "n": contents.table.labelled,
        "positives": int(table.positives.sum()),
        "predictions": contents.table.predictions,
        "diagrams": diagrams_document(table) if table.rows else None,
    }
