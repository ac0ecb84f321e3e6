"""The app: all routes, and what holds for each of them."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.api.audit import audit_router
from monitor.api.data import data_router
from monitor.api.events import events_router
from monitor.api.home import home_router
from monitor.api.measures import measures_router
from monitor.api.metrics import metrics_router
from monitor.api.models import models_router
from monitor.api.parts import Parts
from monitor.api.probes import probes_router
from monitor.api.problems import add_problem_handlers
from monitor.api.recalibrate import recalibrate_router
from monitor.api.recalibration_examples import EXAMPLES
from monitor.api.recalibration_schemas import ANSWERS, REQUESTS
from monitor.api.recalibrations import recalibrations_router
from monitor.api.refit_pages import refit_pages_router
from monitor.api.reports import reports_router
from monitor.api.request_ids import RequestIds
from monitor.api.requests import Computations
from monitor.api.schemas import definitions, described
from monitor.api.snapshots import LatestView
from monitor.measures import MEASURES
from monitor.version import VERSION

_DESCRIPTION: Final = """\
Watches the calibration of probabilistic classifiers in production.

Every error is `application/problem+json` (RFC 9457): `detail` names key and value and says what to do, `type` is what
programs tell it by. Lists have cursors: pass `next_cursor` as `cursor`, until it is null.
"""


def create_api(parts: Parts) -> FastAPI:
    """The app.

    Parameters
    ----------
    parts
        The other rooms. Nothing of them is started or stopped here.
    """
    # The pages of /docs come from the package: they work where there is no way out to the internet.
    app = FastAPIOffline(
        docs_url="/docs",
        redoc_url=None,
        static_url="/docs-assets",
        title="Calibration monitor",
        version=VERSION,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        redirect_slashes=False,
    )
    latest = LatestView(parts.evaluator)
    limits = parts.limits
    computations = Computations(limits.computations, limits.wait_seconds)
    writes = Computations(limits.writes, limits.wait_seconds)
    known = parts.recalibrations
    lookups = Computations(limits.writes, limits.wait_seconds)
    # A long report must not keep those waiting who only want their predictions recalibrated.
    applications = Computations(limits.computations, limits.wait_seconds)
    for router in (
        home_router(),
        models_router(parts, latest),
        reports_router(parts, latest, computations),
        data_router(parts, computations),
        events_router(parts, writes),
        probes_router(parts.pipeline),
        measures_router(MEASURES.values(), parts.evaluator.measures),
        metrics_router(parts.metrics),
        recalibrations_router(parts, known, lookups),
        recalibrate_router(parts, known, lookups, applications),
        audit_router(known, lookups),
        refit_pages_router(),
    ):
        app.include_router(router)
    add_problem_handlers(app)
    app.add_middleware(RequestIds, clock=parts.clock)
    app.add_middleware(Everywhere)
    _add_definitions(app)
    return app


def _add_definitions(app: FastAPI) -> None:
    """Put the bodies into the OpenAPI document, to which the routes only refer."""
    of_routes = app.openapi

    def openapi() -> dict[str, Any]:
        document = of_routes()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(definitions() | described(ANSWERS, REQUESTS, EXAMPLES))
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


class Everywhere:
    """What holds for every answer: HEAD is GET without the body, and no browser guesses a type."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"

        async def outgoing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"x-content-type-options", b"nosniff")]}
            elif head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"} if head else scope, receive, outgoing)
