"""GET /docs: the routes to try. The page and what it loads come from the package: it needs no way to the internet."""

from functools import lru_cache
from typing import Final

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

from monitor.http.access import public
from monitor.http.html import hashes

ASSETS: Final = "/docs-assets"
"""Where the files of the page are."""


def docs_router(title: str, openapi: str) -> APIRouter:
    """The route.

    Parameters
    ----------
    openapi
        Path of the OpenAPI document.
    """
    router = APIRouter()

    @lru_cache(maxsize=8)
    def page(root: str) -> tuple[str, dict[str, str]]:
        html = bytes(
            get_swagger_ui_html(
                openapi_url=f"{root}{openapi}",
                title=title,
                swagger_js_url=f"{root}{ASSETS}/swagger-ui-bundle.js",
                swagger_css_url=f"{root}{ASSETS}/swagger-ui.css",
                swagger_favicon_url=f"{root}{ASSETS}/favicon.png",
            ).body
        ).decode()
        return html, {"content-security-policy": _policy(html), "cache-control": "no-cache"}

    @router.get("/docs", include_in_schema=False, dependencies=[public()])
    async def docs(request: Request) -> Response:
        html, headers = page(request.scope.get("root_path", ""))
        return Response(html, headers=headers, media_type="text/html")

    return router


def _policy(html: str) -> str:
    """Scripts are the package's own and the one in the page, by its hash; Swagger UI sets styles as it draws."""
    return (
        f"default-src 'none'; script-src 'self' {hashes(html, 'script')}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
