"""GET /v1/replicas: the replicas that share the store."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import ReplicaBody, ReplicasBody
from monitor.http.services import ServicesOf

router: Final = APIRouter(tags=["operation"])


@router.get(
    "/v1/replicas",
    dependencies=[needs(Role.READ, Of.ALL), NO_PARAMETERS],
    summary="The live replicas",
    description="Those that share the store and were seen in it within the last 9 seconds, with their roles and the "
    "models that each of them evaluates. A model that none evaluates is taken over within 15 seconds.",
    response_model=ReplicasBody,
    response_description="Replicas by id",
    responses=NOT_MODIFIED | problems(422, 503),
)
async def replicas(request: Request, services: ServicesOf) -> Response:
    def read() -> ReplicasBody:
        return ReplicasBody(
            replicas=[
                ReplicaBody(
                    id=replica.id,
                    roles=list(replica.roles),
                    started=format_time(replica.started_ms),
                    seen=format_time(replica.seen_ms),
                    models=list(models),
                )
                for replica, models in services.replicas().items()
            ]
        )

    return tagged_response(request, await services.lookups.run(read))
