"""POST /v1/reports: a report of data that is sent along."""

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ALL, UNVERSIONED
from monitor.http.access import Of, needs
from monitor.http.answers import MEDIA_TYPE, encode_json
from monitor.http.parts import Parts
from monitor.http.problems import Problem
from monitor.http.requests import Computations, check_json, read_body
from monitor.http.schemas import ClassReportBody, DataBody, ReportBody, ok, problems, reference
from monitor.measures import REPORT_MEASURES, choose_measures


class Data(msgspec.Struct, forbid_unknown_fields=True):
    """Predictions with their outcomes."""

    p: list[float | list[float]]
    y: list[bool | float | None]
    weight: list[float] | None = None
    measures: list[str] | None = None
    model: str = "unnamed"
    version: str = UNVERSIONED
    segment: str = ALL


_decode = msgspec.json.Decoder(Data).decode


def data_router(parts: Parts, computations: Computations) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["reports"])

    def compute(body: bytes) -> bytes:
        data = _read(body)
        outcomes = [float("nan") if outcome is None else outcome for outcome in data.y]
        report = parts.evaluate(
            data.p,
            outcomes,
            weight=data.weight,
            measures=REPORT_MEASURES if data.measures is None else choose_measures(data.measures),
            model=data.model,
            version=data.version,
            segment=data.segment,
        )
        return encode_json(report.to_dict())

    @router.post(
        "/v1/reports",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="The report of data that is sent along",
        description="One report of all the data, the same as of a window; of class probabilities, p a list of lists, "
        "a report of many classes. Too little data is no error: the report says so in `insufficient`. Nothing of the "
        "data is kept.",
        response_class=Response,
        responses=ok(ReportBody, "The report", other=ClassReportBody) | problems(400, 408, 413, 415, 422, 503),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {MEDIA_TYPE: {"schema": reference(DataBody)}},
            }
        },
    )
    async def report(request: Request) -> Response:
        check_json(request, (MEDIA_TYPE,))
        body = await read_body(request, parts.limits.report_bytes, parts.limits.body_seconds)
        return Response(await computations.run(lambda: compute(body)), media_type=MEDIA_TYPE)

    return router


def _read(body: bytes) -> Data:
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(
            422,
            "invalid-input",
            f'the body must be JSON like {{"p": [0.9, 0.2], "y": [1, 0]}}: {error}',
        ) from None
