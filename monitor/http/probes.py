"""/healthz and /readyz: what an orchestrator asks."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from monitor.http.access import public
from monitor.http.answers import MEDIA_TYPE, encode_json
from monitor.http.parts import Pipeline
from monitor.http.problems import Problem
from monitor.http.schemas import HealthBody, ReadyBody, ok, problems
from monitor.stream.status import Phase
from monitor.version import VERSION

_NOT_READY: Final = {
    Phase.STARTING: "partitions are being assigned and their state is being restored; wait",
    Phase.SOURCE_UNAVAILABLE: "the log of events cannot be read and is tried again and again",
    Phase.STORE_UNAVAILABLE: "what was read cannot be saved; nothing more is read, and it is tried again and again",
    Phase.STOPPED: "the service is shutting down",
    Phase.FAILED: "consumption has stopped for good; mend the cause and restart",
}

_NO_STORE: Final = {"cache-control": "no-store"}


def probes_router(pipeline: Pipeline) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["operation"])

    @router.get(
        "/healthz",
        dependencies=[public()],
        summary="Whether the process answers",
        description="The process alone: restarting it does not bring back a broker. See `/readyz` for the rest.",
        response_class=Response,
        responses=ok(HealthBody, "It does") | problems(),
    )
    async def healthz() -> Response:
        return Response(encode_json({"status": "ok", "version": VERSION}), headers=_NO_STORE, media_type=MEDIA_TYPE)

    @router.get(
        "/readyz",
        dependencies=[public()],
        summary="Whether partitions are assigned, restored and read",
        response_class=Response,
        responses=ok(ReadyBody, "They are") | problems(503),
    )
    async def readyz() -> Response:
        status = pipeline.status
        if not status.ready:
            because = f": {status.detail}" if status.detail else ""
            raise Problem(
                503, "not-ready", f"{status.phase}: {_NOT_READY[status.phase]}{because}", phase=status.phase.value
            )
        return Response(
            encode_json({"status": "ready", "partitions": sorted(status.partitions)}),
            headers=_NO_STORE,
            media_type=MEDIA_TYPE,
        )

    return router
