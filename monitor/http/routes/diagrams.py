"""GET /v1/models/{model}/diagrams: what the diagrams of a window show, as numbers."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs
from monitor.http.diagram_schemas import WindowDiagramsBody
from monitor.http.problems import Problem
from monitor.http.request_parsing import parse_time
from monitor.http.responses import NOT_MODIFIED, TaggedBody, problems, tagged, tagged_response
from monitor.http.routes.reports import ReportQuery
from monitor.http.services import ServicesOf
from monitor.reports.diagrams.document import diagrams_document
from monitor.windows.contents import Contents

router: Final = APIRouter(tags=["reports"])


class DiagramsQuery(ReportQuery):
    """The predictions whose diagrams are requested: a window, or a span of time."""

    from_: Annotated[
        str,
        Field(
            alias="from",
            description="predictions from then on instead of those of a window: RFC 3339, or milliseconds since the "
            "epoch",
            examples=["2026-11-19T10:00:00Z"],
        ),
    ] = ""
    to: Annotated[
        str,
        Field(
            description="and before then; up to where the model is settled if left out",
            examples=["2026-11-20T10:00:00Z"],
        ),
    ] = ""


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
    responses=NOT_MODIFIED | problems(404, 410, 422, 503),
)
async def diagrams(
    request: Request, services: ServicesOf, model: str, query: Annotated[DiagramsQuery, Query()]
) -> Response:
    as_of_ms, from_ms, to_ms = (
        parse_time(text, name) if text else None
        for text, name in ((query.as_of, "as_of"), (query.from_, "from"), (query.to, "to"))
    )
    if to_ms is not None and from_ms is None:
        raise Problem(422, "invalid-parameter", f"to={query.to} needs from: name both ends of the span")
    if from_ms is not None:
        for name, value in (("window", query.window), ("as_of", query.as_of)):
            if value:
                raise Problem(
                    422, "invalid-parameter", f"{name}={value} and from exclude each other: ask for a window or a span"
                )
        if from_ms < 0:
            raise Problem(422, "invalid-parameter", f"from must not lie before 1970, got {query.from_}")
        if to_ms is not None and from_ms >= to_ms:
            raise Problem(422, "invalid-parameter", f"from must be earlier than to, got {query.from_} and {query.to}")

    reports, version, segment = services.reports, query.version or None, query.segment or ALL

    def compute() -> TaggedBody:
        if from_ms is not None:
            series, contents = reports.predictions_between(model, version, segment, from_ms, to_ms)
            return tagged(_document(series, None, contents))
        key, contents = reports.predictions(model, version, segment, query.window or None, as_of_ms)
        return tagged(_document(key.series, key.window, contents))

    return tagged_response(request, await services.computations.run(compute))


def _document(series: SeriesKey, window: str | None, contents: Contents) -> dict[str, Any]:
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
