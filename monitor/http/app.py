"""The app: the routes of every file in ``routes/``, and the middleware around them."""

import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from fastapi_offline import FastAPIOffline

from monitor.http import routes
from monitor.http.access import check_declared
from monitor.http.middleware import LoopbackOnly, SecurityHeaders, TimeLimit
from monitor.http.openapi import DESCRIPTION, complete_openapi
from monitor.http.problems import add_problem_handlers
from monitor.http.request_log import RequestLog
from monitor.http.services import Services
from monitor.version import VERSION

TITLE: Final = "Calibration monitor"

_ASSETS: Final = "/docs-assets"
"""The path of the files of /docs. They come from a package, so that no access to the internet is needed."""


def find_routers(folder: Path, package: str) -> Iterator[APIRouter]:
    """The ``router`` of each Python file of a folder, by file name; files that begin with ``_`` are skipped.

    Parameters
    ----------
    package
        The package of the files, such as ``monitor.http.routes``.

    Raises
    ------
    AttributeError
        A file has no ``router``.
    """
    for file in sorted(folder.glob("[!_]*.py")):
        name = f"{package}.{file.stem}"
        loader = SourceFileLoader(name, str(file))
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = module_from_spec(ModuleSpec(name, loader, origin=str(file)))
            loader.exec_module(module)
        router: APIRouter = module.router
        yield router


def create_api(services: Services, extra_routers: Iterable[APIRouter] = ()) -> FastAPI:
    """The app.

    Parameters
    ----------
    services
        The other rooms. Nothing of them is started or stopped here.
    extra_routers
        Further routes, such as those that :func:`find_routers` finds in another folder.

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
    for router in (*find_routers(Path(routes.__path__[0]), routes.__name__), *extra_routers):
        app.include_router(router)
    check_declared(app, static=("/openapi.json", _ASSETS))
    add_problem_handlers(app)
    app.add_middleware(TimeLimit, seconds=services.limits.request_seconds)
    if services.local_only:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(RequestLog, traffic=services.traffic, clock=services.clock)
    app.add_middleware(SecurityHeaders)
    complete_openapi(app)
    return app
