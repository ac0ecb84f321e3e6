"""GET /metrics: what Prometheus scrapes."""

import gzip
from collections.abc import Callable

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.access import Of, needs
from monitor.http.schemas import problems, text

Metrics = Callable[[str | None], tuple[bytes, str]]
"""(Accept header) -> body and content type."""


def metrics_router(metrics: Metrics) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["operation"])

    def render(accept: str | None, compress: bool) -> tuple[bytes, str]:
        body, content_type = metrics(accept)
        # Level 1: the text shrinks twentyfold already, and the scraper waits.
        return (gzip.compress(body, compresslevel=1) if compress else body), content_type

    @router.get(
        "/metrics",
        dependencies=[needs(Role.READ, Of.ALL)],
        summary="The series for Prometheus",
        response_class=Response,
        responses=text(
            "text/plain",
            "In the text format, or in OpenMetrics where `Accept` prefers it",
            "# TYPE calibration_ready gauge\ncalibration_ready 1.0\n",
        )
        | problems(),
    )
    async def scrape(request: Request) -> Response:
        compress = _takes_gzip(request.headers.get("accept-encoding", ""))
        body, content_type = await anyio.to_thread.run_sync(render, request.headers.get("accept"), compress)
        headers = {"content-type": content_type, "cache-control": "no-store", "vary": "Accept, Accept-Encoding"}
        return Response(body, headers=headers | ({"content-encoding": "gzip"} if compress else {}))

    return router


def _takes_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.lower().split(","):
        name, *parameters = (part.strip() for part in choice.split(";"))
        if name == "gzip":
            return not any(
                parameter.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for parameter in parameters
            )
    return False
