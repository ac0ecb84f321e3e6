"""GET /v1/measures and /v1/recalibration-methods: what there is to choose from."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.authorization import Of, needs
from monitor.http.recalibration_schemas import MethodBody, MethodsBody
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import MeasureHelpBody, MeasuresBody
from monitor.http.services import ServicesOf
from monitor.maps import METHODS
from monitor.measures import MEASURES

router: Final = APIRouter()


@router.get(
    "/v1/measures",
    tags=["reports"],
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    summary="All measures, and where they appear",
    response_model=MeasuresBody,
    response_description="In the order of a report",
    responses=NOT_MODIFIED | problems(422),
)
async def all_measures(request: Request, services: ServicesOf) -> Response:
    in_windows = services.reports.measures
    listed = [
        MeasureHelpBody.of_attributes(measure, stands_in=measure.appears_in, in_windows=measure.name in in_windows)
        for measure in MEASURES.values()
    ]
    return tagged_response(request, MeasuresBody(measures=listed))


@router.get(
    "/v1/recalibration-methods",
    tags=["recalibration"],
    summary="The methods of recalibration, with their options",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    response_model=MethodsBody,
    response_description="In the order of lists",
    responses=NOT_MODIFIED | problems(422),
)
async def all_methods(request: Request) -> Response:
    return tagged_response(request, MethodsBody(methods=[MethodBody.of(method) for method in METHODS.values()]))
