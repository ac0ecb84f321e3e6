"""GET /healthz and /readyz, the probes of an orchestrator, and GET /metrics, the series that Prometheus scrapes."""

import gzip
from typing import Final

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.authorization import Of, needs, public
from monitor.http.html import accept_weights, accepts_gzip
from monitor.http.problems import Problem
from monitor.http.responses import problems, text_response
from monitor.http.schemas import HealthBody, ReadyBody
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
