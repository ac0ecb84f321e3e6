"""GET /: the page for people. Self-contained; it fills itself from the API."""

from fastapi import APIRouter
from starlette.responses import Response

from monitor.http.access import public
from monitor.http.html import page_headers, read_page
from monitor.http.schemas import problems, text


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
