"""GET /metrics: the series that Prometheus scrapes."""

import gzip
from typing import Final

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.access import Of, needs
from monitor.http.responses import problems, text_response
from monitor.http.services import ServicesOf

router: Final = APIRouter(tags=["operation"])


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
    compress = _accepts_gzip(request.headers.get("accept-encoding", ""))

    def render() -> tuple[bytes, str]:
        body, content_type = services.metrics(request.headers.get("accept"))
        # Level 1 shrinks the text twentyfold already, and the scraper waits.
        return (gzip.compress(body, compresslevel=1) if compress else body), content_type

    body, content_type = await anyio.to_thread.run_sync(render)
    headers = {"content-type": content_type, "cache-control": "no-store", "vary": "Accept, Accept-Encoding"}
    return Response(body, headers=headers | ({"content-encoding": "gzip"} if compress else {}))


def _accepts_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.lower().split(","):
        name, *parameters = (part.strip() for part in choice.split(";"))
        if name == "gzip":
            return not any(
                parameter.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for parameter in parameters
            )
    return False
