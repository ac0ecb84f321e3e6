"""The pages for people, which fill themselves from the API; their files; and /docs."""

import gzip
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

from monitor.http.authorization import check_path, public
from monitor.http.html import HTML, accepts_gzip, content_hashes, page_headers, root_of
from monitor.http.problems import Problem
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import problems, text_response
from monitor.page.assets import assets, media_type, service_page, version

router: Final = APIRouter(tags=["pages"])

_PAGE: Final[dict[int | str, dict[str, Any]]] = text_response(HTML, "HTML", "<!doctype html>...")
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Awaitable[Response]])
_FOR_GOOD: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "Accept-Encoding"}


@lru_cache(maxsize=256)
def _page(name: str, root: str) -> tuple[str, dict[str, str]]:
    page = service_page(name, root)
    return page, page_headers(page)


def _answer(request: Request, name: str) -> Response:
    page, headers = _page(name, root_of(request))
    return Response(page, headers=headers, media_type=HTML)


def _page_route(path: str, summary: str, *dependencies: Any) -> Callable[[_Endpoint], _Endpoint]:
    """A page at a path; what it is about the page reads from its own URL."""
    return router.get(
        path,
        summary=f"{summary}, for people",
        response_class=Response,
        responses=_PAGE | problems(*[404] * ("{model" in path), *[422] * (path != "/")),
        dependencies=[public(), *dependencies],
    )


@_page_route("/", "The fleet")
async def fleet(request: Request) -> Response:
    return _answer(request, "fleet")


@_page_route("/models/{model:path}", "A model")
async def model(request: Request, model: str) -> Response:
    check_path(model)
    return _answer(request, "model")


@_page_route("/reports/{model:path}", "The report of a model in a window")
async def report(request: Request, model: str) -> Response:
    check_path(model)
    return _answer(request, "window")


@_page_route("/alerts", "Alerts")
async def alerts(request: Request) -> Response:
    return _answer(request, "alerts")


@_page_route("/alerts/{id}", "An alert", NO_PARAMETERS)
async def alert(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
    del id
    return _answer(request, "alert")


@_page_route("/recalibrations", "Refits", NO_PARAMETERS)
async def refits(request: Request) -> Response:
    return _answer(request, "refits")


@_page_route("/recalibrations/{id}", "A refit", NO_PARAMETERS)
async def refit(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
    del id
    return _answer(request, "refit")


@router.get("/assets/{of}/{name:path}", include_in_schema=False, dependencies=[public(), NO_PARAMETERS])
async def asset(request: Request, of: str, name: str) -> Response:
    """A file of the pages. Its path holds the hash of all of them, so that it never changes."""
    media = media_type(name)
    if media is None or of != version() or name not in assets():
        raise Problem(404, "no-such-route", f"there is no file {name!r} of version {of!r}: load the page again")
    if accepts_gzip(request):
        return Response(_compressed(name), headers=_FOR_GOOD | {"content-encoding": "gzip"}, media_type=media)
    return Response(assets()[name], headers=_FOR_GOOD, media_type=media)


@lru_cache(maxsize=256)
def _compressed(name: str) -> bytes:
    return gzip.compress(assets()[name], mtime=0)


@router.get("/docs", include_in_schema=False, dependencies=[public()])
async def docs(request: Request) -> Response:
    html, headers = _docs(request.scope.get("root_path", ""), request.app.title, request.app.openapi_url)
    return Response(html, headers=headers, media_type=HTML)


@lru_cache(maxsize=8)
def _docs(root: str, title: str, openapi: str) -> tuple[str, dict[str, str]]:
    """Swagger UI, from the files of a package: it works without access to the internet."""
    assets_path = f"{root}/docs-assets"
    html = bytes(
        get_swagger_ui_html(
            openapi_url=f"{root}{openapi}",
            title=title,
            swagger_js_url=f"{assets_path}/swagger-ui-bundle.js",
            swagger_css_url=f"{assets_path}/swagger-ui.css",
            swagger_favicon_url=f"{assets_path}/favicon.png",
        ).body
    ).decode()
    return html, {"content-security-policy": docs_policy(html), "cache-control": "no-cache"}


def docs_policy(html: str) -> str:
    """The policy of /docs: scripts of the package and the one in the page, by its hash; Swagger UI sets styles."""
    return (
        f"default-src 'none'; script-src 'self' {content_hashes(html, 'script')}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
