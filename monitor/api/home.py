"""GET /: the page for people. Self-contained; it fills itself from the API."""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from monitor.api.schemas import problems, text


def home_router() -> APIRouter:
    """The route."""
    router = APIRouter(tags=["pages"])
    page = (files("monitor.api") / "home.html").read_text(encoding="utf-8")
    headers = page_headers(page)

    @router.get(
        "/",
        summary="The page for people",
        response_class=Response,
        responses=text("text/html", "HTML", "<!doctype html>...") | problems(),
    )
    async def home() -> Response:
        return Response(page, headers=headers, media_type="text/html")

    return router


def page_headers(page: str) -> dict[str, str]:
    """Headers of a page: it loads nothing from elsewhere, and is asked for anew each time."""
    return {"content-security-policy": _policy(page), "cache-control": "no-cache", "referrer-policy": "no-referrer"}


def _policy(page: str) -> str:
    """Nothing from elsewhere, and no script or style but the page's own."""
    scripts, styles = (
        " ".join(_hash(inner) for inner in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))
        for tag in ("script", "style")
    )
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
