"""/help: the site of the documentation, where the installation has it, as the image does."""

import sys
from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.http.authorization import public
from monitor.http.html import HTML, content_hashes, see_page
from monitor.http.problems import Problem
from monitor.http.request_parsing import NO_PARAMETERS

router: Final = APIRouter(tags=["pages"])

FOLDER: Final = Path(sys.prefix) / "share" / "calibration-monitor" / "help"
"""Where the site is. It is outside the package, because it is built from the documentation of a checkout."""


@router.get("/help", include_in_schema=False, dependencies=[public(), NO_PARAMETERS])
@router.get("/help/", include_in_schema=False, dependencies=[public(), NO_PARAMETERS])
async def help_index(request: Request) -> Response:
    return see_page(request, "help/index.html")


@router.get("/help/{name:path}", include_in_schema=False, dependencies=[public(), NO_PARAMETERS])
async def help_file(name: str) -> Response:
    """A file of the site. What is served is a file that was there at the first request, whatever the path says."""
    file = _files(FOLDER).get(name)
    if file is None:
        raise Problem(404, "no-such-route", _absent(name))
    content = file.read_bytes()
    media = guess_type(name)[0] or "application/octet-stream"
    headers = {"cache-control": "no-cache"}
    if media == HTML:
        headers["content-security-policy"] = _policy(content.decode())
    return Response(content, headers=headers, media_type=media)


@cache
def _files(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}


def _absent(name: str) -> str:
    if _files(FOLDER):
        return f"the documentation has no page {name!r}; /help has its index"
    return (
        f"this installation has no documentation in {FOLDER}: the image has it, and `make docs` in a checkout builds "
        f".cache/pages/site, to be copied there"
    )


def _policy(page: str) -> str:
    """Scripts of the site and those in the page, by their hashes; its search is a worker, and its theme sets styles."""
    return (
        f"default-src 'none'; script-src 'self' {content_hashes(page, 'script')}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )
