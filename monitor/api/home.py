"""GET /: the page for people. Self-contained; it fills itself from the API."""

import base64
import hashlib
import re
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from monitor.api.access import public
from monitor.api.schemas import problems, text

_INCLUDE: Final = re.compile(r"(?:/\*|<!--) @include ([a-z.]+) (?:\*/|-->)")
"""Stands in a page for a file that pages share."""


def home_router() -> APIRouter:
    """The route."""
    router = APIRouter(tags=["pages"])
    page = read_page("home.html")
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


def read_page(name: str) -> str:
    """A page of this package, with what it shares with others: their looks, and how people log in."""
    folder = files("monitor.api")
    page = (folder / name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: (folder / found[1]).read_text(encoding="utf-8").rstrip("\n"), page)


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
