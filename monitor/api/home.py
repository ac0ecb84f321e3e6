"""GET /: the page for people. Self-contained; it fills itself from the API."""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from monitor.api.access import public
from monitor.api.schemas import problems, text


def home_router() -> APIRouter:
    """The route."""
    router = APIRouter(tags=["pages"])
    page = (files("monitor.api") / "home.html").read_text(encoding="utf-8")
    headers = page_headers(page)

    @router.get(
        "/",
        dependencies=[public()],
        summary="The page for people",
        response_class=Response,
        responses=text("text/html", "HTML", "<!doctype html>...") | problems(),
    )
    async def home() -> Response:
        return Response(page, headers=headers, media_type="text/html")

    return router


def page_headers(page: str) -> dict[str, str]:
    """Headers of a page: it loads nothing from elsewhere, and is asked for anew each time."""
    return {"content-security-policy": _policy(page), "cache-control": "no-cache"}


def _policy(page: str) -> str:
    """Nothing from elsewhere, and no script or style but the page's own."""
    return (
        f"default-src 'none'; script-src {hashes(page, 'script')}; style-src {hashes(page, 'style')}; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def hashes(page: str, tag: str) -> str:
    """What stands in a page between these tags, as sources of a policy."""
    return " ".join(_hash(inner) for inner in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
