"""GET /recalibrations and /recalibrations/{id}: refits for people. The page fills itself from the API."""

from typing import Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from monitor.http.access import public
from monitor.http.html import page_headers, read_page
from monitor.http.requests import no_parameters
from monitor.http.schemas import problems, text

_ROOT: Final = "ROOT/"
"""Stands in the page for the way up to where the service begins, which may lie behind a prefix."""


def refit_pages_router() -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["pages"])
    page = read_page("refits.html")
    listing, single = page.replace(_ROOT, "./"), page.replace(_ROOT, "../")
    headers = page_headers(page)
    html = text("text/html", "HTML", "<!doctype html>...") | problems(422)

    @router.get(
        "/recalibrations",
        summary="Refits, for people",
        response_class=Response,
        responses=html,
        dependencies=[public(), Depends(no_parameters)],
    )
    async def refits() -> Response:
        return Response(listing, headers=headers, media_type="text/html")

    @router.get(
        "/recalibrations/{id}",
        summary="A refit, for people",
        response_class=Response,
        responses=html,
        dependencies=[public(), Depends(no_parameters)],
    )
    async def refit(id: str) -> Response:  # noqa: A002 - the name in the path
        del id  # the page reads it from its own address
        return Response(single, headers=headers, media_type="text/html")

    return router
