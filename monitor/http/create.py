"""The app: all routes, and what holds for each of them."""

from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from monitor.http.access import check_declared
from monitor.http.access_document import add_access
from monitor.http.audit import audit_router
from monitor.http.authorization import Gate
from monitor.http.data import data_router
from monitor.http.docs import ASSETS, docs_router
from monitor.http.events import events_router
from monitor.http.home import home_router
from monitor.http.loopback import LocalOnly
from monitor.http.measures import measures_router
from monitor.http.metrics import metrics_router
from monitor.http.models import models_router
from monitor.http.parts import Parts
from monitor.http.probes import probes_router
from monitor.http.problems import add_problem_handlers
from monitor.http.recalibrate import recalibrate_router
from monitor.http.recalibration_examples import EXAMPLES
from monitor.http.recalibration_schemas import ANSWERS, REQUESTS
from monitor.http.recalibrations import recalibrations_router
from monitor.http.refit_pages import refit_pages_router
from monitor.http.reports import reports_router
from monitor.http.request_ids import RequestIds
from monitor.http.requests import Computations
from monitor.http.schemas import definitions, described
from monitor.http.security_headers import Everywhere
from monitor.http.sessions import SESSION_EXAMPLES, LogInBody, SessionBody, session_router
from monitor.http.snapshots import LatestView
from monitor.http.traffic import Counted, TimeLimit
from monitor.measures import MEASURES
from monitor.version import VERSION

_DESCRIPTION: Final = """\
Watches the calibration of probabilistic classifiers in production.

Every error is `application/problem+json` (RFC 9457): `detail` names key and value and says what to do, `type` is what
programs tell it by. Lists have cursors: pass `next_cursor` as `cursor`, until it is null.

Whoever asks brings an API key or a token: `Authorization: Bearer ...`. Lists hold what concerns the models that one may
read; others look as if there were none.
"""


def create_api(parts: Parts) -> FastAPI:
    """The app.

    Parameters
    ----------
    parts
        The other rooms. Nothing of them is started or stopped here.

    Raises
    ------
    ValueError
        A route does not declare who may use it.
    """
    # The files of /docs come from the package: they work where there is no way out to the internet.
    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        static_url=ASSETS,
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
        session_router(limits),
        docs_router("Calibration monitor", "/openapi.json"),
    ):
        app.include_router(router)
    check_declared(app, static=("/openapi.json", ASSETS))
    app.state.gate = Gate(parts.authenticator, limits, known, lookups, parts.refusals)
    add_problem_handlers(app)
    app.add_middleware(TimeLimit, seconds=limits.request_seconds)
    if parts.local_only:
        app.add_middleware(LocalOnly)
    app.add_middleware(RequestIds, clock=parts.clock)
    app.add_middleware(Counted, traffic=parts.traffic, clock=parts.clock)
    app.add_middleware(Everywhere)
    _add_definitions(app)
    return app


def _add_definitions(app: FastAPI) -> None:
    """Put the bodies into the OpenAPI document, to which the routes only refer."""
    of_routes = app.openapi

    # Made once: it takes a tenth of a second, in which nothing else is answered, and is public.
    @cache
    def openapi() -> dict[str, Any]:
        document = of_routes()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(definitions() | described(ANSWERS, REQUESTS, EXAMPLES))
        schemas.update(described((SessionBody,), (LogInBody,), SESSION_EXAMPLES))
        add_access(document, app)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
