"""How the service itself is: probes of an orchestrator, the series for Prometheus, the pipeline and the replicas."""

import gzip
from typing import Final

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs, public
from monitor.http.html import accept_weights, accepts_gzip
from monitor.http.problems import Problem
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response, text_response
from monitor.http.schemas import HealthBody, PipelineBody, ReadyBody, ReplicaBody, ReplicasBody
from monitor.http.services import ServicesOf
from monitor.stream.status import Phase
from monitor.version import VERSION

router: Final = APIRouter(tags=["operation"])

_NOT_READY: Final = {
    Phase.STARTING: "partitions are being assigned and their state is being restored; wait",
    Phase.SOURCE_UNAVAILABLE: "the log of events cannot be read, and is retried",
    Phase.STORE_UNAVAILABLE: "events cannot be saved, which is retried; no more are read until then",
    Phase.SCHEMA_UNAVAILABLE: "a partition waits for the schema of its messages, which is retried; the others are read",
    Phase.STOPPED: "the service is shutting down",
    Phase.FAILED: "consumption has stopped for good; fix the cause and restart",
}


@router.get(
    "/healthz",
    dependencies=[public()],
    summary="Whether the process answers",
    description="The process alone: restarting it does not bring back a broker. See `/readyz` for the rest.",
    response_description="It does",
    responses=problems(),
)
async def healthz() -> HealthBody:
    return HealthBody(status="ok", version=VERSION)


@router.get(
    "/readyz",
    dependencies=[public()],
    summary="Whether partitions are assigned, restored and read",
    response_description="They are",
    responses=problems(503),
)
async def readyz(services: ServicesOf) -> ReadyBody:
    status = services.status()
    if not status.ready:
        cause = f": {status.detail}" if status.detail else ""
        raise Problem(503, "not-ready", f"{status.phase}: {_NOT_READY[status.phase]}{cause}", phase=status.phase.value)
    return ReadyBody(status="ready", partitions=sorted(status.partitions))


@router.get(
    "/metrics",
    dependencies=[needs(Role.READ, Of.ALL)],
    summary="The series for Prometheus",
    response_class=Response,
    responses=text_response(
        "text/plain",
        "In the text format, or in OpenMetrics where `Accept` prefers it",
        "# TYPE calibration_ready gauge\ncalibration_ready 1.0\n",
    )
    | problems(),
)
async def scrape(request: Request, services: ServicesOf) -> Response:
    compress = accepts_gzip(request)
    # prometheus_client's own choose_encoder ignores the weights, and fails for a version such as abc.
    weights = accept_weights(request.headers.get("accept", ""))
    openmetrics = 0.0 < weights.get("application/openmetrics-text", 0.0) >= weights.get("text/plain", 0.0)

    def render() -> tuple[bytes, str]:
        body, content_type = services.metrics(openmetrics)
        # Level 1 shrinks the text twentyfold already, and the scraper waits.
        return (gzip.compress(body, compresslevel=1) if compress else body), content_type

    body, content_type = await anyio.to_thread.run_sync(render)
    headers = {"content-type": content_type, "cache-control": "no-store", "vary": "Accept, Accept-Encoding"}
    return Response(body, headers=headers | ({"content-encoding": "gzip"} if compress else {}))


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
