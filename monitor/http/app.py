"""The app: the routes of every file in ``routes/``, and the middleware around them."""

from pathlib import Path
from typing import Final

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from monitor.http.access import check_declared
from monitor.http.middleware import LoopbackOnly, SecurityHeaders, TimeLimit
from monitor.http.openapi import DESCRIPTION, complete_openapi
from monitor.http.problems import add_problem_handlers
from monitor.http.request_log import RequestLog
from monitor.http.services import Services
from monitor.scanning import scan_modules
from monitor.version import VERSION

TITLE: Final = "Calibration monitor"

_ASSETS: Final = "/docs-assets"
"""The path of the files of /docs. They come from a package, so that no access to the internet is needed."""


def create_api(services: Services, *folders: Path) -> FastAPI:
    """The app.

    Parameters
    ----------
    services
        The other rooms. Nothing of them is started or stopped here.
    folders
        Further folders whose files declare a ``router``.

    Raises
    ------
    ValueError
        A route does not declare who may use it.
    """
    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        static_url=_ASSETS,
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        redirect_slashes=False,
    )
    app.state.services = services
    for module in scan_modules("monitor.http.routes", *folders):
        app.include_router(module.router)
    check_declared(app, static=("/openapi.json", _ASSETS))
    add_problem_handlers(app)
    app.add_middleware(TimeLimit, seconds=services.limits.request_seconds)
    if services.local_only:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(RequestLog, traffic=services.traffic, clock=services.clock)
    app.add_middleware(SecurityHeaders)
    complete_openapi(app)
    return app
