"""Pages for people: the files that they are made of, their headers, and when a request wants one."""

import base64
import hashlib
import re
from importlib.resources import files
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from monitor.http.accept import weight_of

HTML: Final = "text/html"
SEE_PAGE: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "Where `Accept` prefers HTML, as that of a browser does: the page that shows it"}
}
"""The ``responses`` entry of a route for :func:`see_page`."""

_JSON: Final = "application/json"

_INCLUDE: Final = re.compile(r"(?:/\*|<!--) @include ([a-z.]+) (?:\*/|-->)")
"""Stands in a page for a file that pages share."""


def wants_page(request: Request) -> bool:
    """Whether a browser asks for what a person is going to read: a GET that prefers HTML to JSON."""
    return request.method == "GET" and weight_of(request, HTML) > weight_of(request, _JSON)


def root_of(request: Request) -> str:
    """The relative way from the requested address to where the service begins, behind any prefix of a proxy."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    return "../" * (path.count(b"/") - 1) or "./"


def see_page(request: Request, path: str = "") -> Response:
    """Redirect a browser to the page at ``path`` (without the first ``/``), which shows what it requested."""
    return Response(status_code=303, headers={"location": root_of(request) + path, "vary": "Accept"})


def read_page(name: str) -> str:
    """A page of this package, with what it shares with others: their looks, and how people log in."""
    folder = files("monitor.http")
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
