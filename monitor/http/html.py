"""HTML pages: their headers, and which requests prefer them."""

import re
from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from monitor.page.assets import content_hash

HTML: Final = "text/html"
SEE_PAGE: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "Where `Accept` prefers HTML, as that of a browser does: the page that shows it"}
}
"""The ``responses`` entry of a route that uses :func:`see_page`."""

_JSON: Final = "application/json"


def accept_weights(header: str) -> dict[str, float]:
    """The media types, or encodings, that an ``Accept...`` header lists, with their weights of 0 to 1.

    The weight is 0 where it cannot be read, and the largest where a type is listed twice.
    """
    weights: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights[name] = max(weights.get(name, 0.0), _weight(parameters))
    return weights


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


def media_weight(request: Request, media: str) -> float:
    """The weight, 0 to 1, that ``Accept`` gives a media type (RFC 9110, section 12.5.1); 1 without ``Accept``."""
    weights = accept_weights(request.headers.get("accept") or "*/*")
    ranges = (media, f"{media.partition('/')[0]}/*", "*/*")
    return next((weights[media_range] for media_range in ranges if media_range in weights), 0.0)


def accepts_gzip(request: Request) -> bool:
    """Whether an answer may be compressed."""
    return accept_weights(request.headers.get("accept-encoding", "")).get("gzip", 0.0) > 0.0


def wants_page(request: Request) -> bool:
    """Whether a request is a browser's on behalf of a person: a GET that prefers HTML to JSON."""
    return request.method == "GET" and media_weight(request, HTML) > media_weight(request, _JSON)


def root_of(request: Request) -> str:
    """The relative path from the requested URL to the root of the service, behind any prefix of a proxy."""
    path = request.scope.get("raw_path") or request.url.path.encode()
    return "../" * (path.count(b"/") - 1) or "./"


def see_page(request: Request, path: str = "") -> Response:
    """Redirect a browser to the page at ``path`` (without the first ``/``), which shows what it requested."""
    return Response(status_code=303, headers={"location": root_of(request) + path, "vary": "Accept"})


def page_headers(page: str) -> dict[str, str]:
    """Headers of a page: it loads nothing from other sites, and is revalidated each time."""
    return {"content-security-policy": _policy(page), "cache-control": "no-cache"}


def _policy(page: str) -> str:
    """Nothing from other sites, and no script or style but those in the page."""
    return (
        f"default-src 'none'; script-src 'self' {content_hashes(page, 'script')}; "
        f"style-src 'self' {content_hashes(page, 'style')}; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def content_hashes(page: str, tag: str) -> str:
    """Hashes of the text between these tags, as sources of a content security policy."""
    return " ".join(
        content_hash(inner) for inner in re.findall(rf"<{tag}(?: [^>]*)?>(?!</)(.+?)</{tag}>", page, re.DOTALL)
    )
