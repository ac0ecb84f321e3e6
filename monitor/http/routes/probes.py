"""GET /healthz and /readyz: the probes of an orchestrator."""

from typing import Final

from fastapi import APIRouter

from monitor.http.access import public
from monitor.http.problems import Problem
from monitor.http.responses import problems
from monitor.http.schemas import HealthBody, ReadyBody
from monitor.http.services import ServicesOf
from monitor.stream.status import Phase
from monitor.version import VERSION

router: Final = APIRouter(tags=["operation"])

_NOT_READY: Final = {
    Phase.STARTING: "partitions are being assigned and their state is being restored; wait",
    Phase.SOURCE_UNAVAILABLE: "the log of events cannot be read and is tried again and again",
    Phase.STORE_UNAVAILABLE: "what was read cannot be saved; nothing more is read, and it is tried again and again",
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
    status = services.pipeline.status
    if not status.ready:
        cause = f": {status.detail}" if status.detail else ""
        raise Problem(503, "not-ready", f"{status.phase}: {_NOT_READY[status.phase]}{cause}", phase=status.phase.value)
    return ReadyBody(status="ready", partitions=sorted(status.partitions))
