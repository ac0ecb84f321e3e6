"""GET /v1/pipeline: whether events are read, and how far behind."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import PipelineBody
from monitor.http.services import ServicesOf

router: Final = APIRouter(tags=["operation"])


@router.get(
    "/v1/pipeline",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    summary="Whether events are read, and how far behind",
    description="Of the replica that answers: each reads some of the partitions.",
    response_model=PipelineBody,
    response_description="The state of reading",
    responses=NOT_MODIFIED | problems(422),
)
async def pipeline(request: Request, services: ServicesOf) -> Response:
    status = services.status()
    body = PipelineBody(
        phase=status.phase.value,
        detail=status.detail,
        partitions=sorted(status.partitions),
        records_behind=sum(status.lag.values()) if status.lag else None,
        saved_at=format_time(status.checkpoint_ms) if status.checkpoint_ms else None,
    )
    return tagged_response(request, body)
