"""GET /, /recalibrations, /recalibrations/{id} and /docs: HTML pages, which fill themselves from the API."""

from functools import lru_cache
from typing import Final

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

from monitor.http.authorization import public
from monitor.http.html import HTML, content_hashes, page_headers, read_page
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import problems, text_response

router: Final = APIRouter(tags=["pages"])

_HOME: Final = read_page("home.html")
_REFITS: Final = read_page("refits.html")

_ROOT: Final = "ROOT/"
"""In a page, the place of the relative path to the root of the service, which may be behind a prefix."""

_PAGE: Final = text_response(HTML, "HTML", "<!doctype html>...")


@router.get(
    "/", dependencies=[public()], summary="The page for people", response_class=Response, responses=_PAGE | problems()
)
async def home() -> Response:
    return Response(_HOME, headers=page_headers(_HOME), media_type=HTML)


@router.get(
    "/recalibrations",
    summary="Refits, for people",
    response_class=Response,
    responses=_PAGE | problems(422),
    dependencies=[public(), NO_PARAMETERS],
)
async def refits() -> Response:
    return Response(_REFITS.replace(_ROOT, "./"), headers=page_headers(_REFITS), media_type=HTML)


@router.get(
    "/recalibrations/{id}",
    summary="A refit, for people",
    response_class=Response,
    responses=_PAGE | problems(422),
    dependencies=[public(), NO_PARAMETERS],
)
async def refit(id: str) -> Response:  # noqa: A002 - the name in the path
    del id  # the page reads it from its own URL
    return Response(_REFITS.replace(_ROOT, "../"), headers=page_headers(_REFITS), media_type=HTML)


@router.get("/docs", include_in_schema=False, dependencies=[public()])
async def docs(request: Request) -> Response:
    html, headers = _docs(request.scope.get("root_path", ""), request.app.title, request.app.openapi_url)
    return Response(html, headers=headers, media_type=HTML)


@lru_cache(maxsize=8)
def _docs(root: str, title: str, openapi: str) -> tuple[str, dict[str, str]]:
    """Swagger UI, from the files of a package: it works without access to the internet."""
    assets = f"{root}/docs-assets"
    html = bytes(
        get_swagger_ui_html(
            openapi_url=f"{root}{openapi}",
            title=title,
            swagger_js_url=f"{assets}/swagger-ui-bundle.js",
            swagger_css_url=f"{assets}/swagger-ui.css",
            swagger_favicon_url=f"{assets}/favicon.png",
        ).body
    ).decode()
    return html, {"content-security-policy": docs_policy(html), "cache-control": "no-cache"}


def docs_policy(html: str) -> str:
    """The policy of /docs: scripts of the package and the one in the page, by its hash; Swagger UI sets styles."""
    return (
        f"default-src 'none'; script-src 'self' {content_hashes(html, 'script')}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
