"""GET /v1/measures: what the numbers of a report mean."""

from collections.abc import Container, Iterable

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.access import Of, needs
from monitor.http.answers import answer, make_body
from monitor.http.schemas import MeasuresBody, ok, problems
from monitor.measures.base import Measure


def measures_router(measures: Iterable[Measure], of_windows: Container[str]) -> APIRouter:
    """The route.

    Parameters
    ----------
    of_windows
        Names of those that windows are measured by.
    """
    router = APIRouter(tags=["reports"])
    listed = make_body(
        {
            "measures": [
                {
                    "name": each.name,
                    "title": each.title,
                    "help": each.help,
                    "unit": each.unit,
                    "stands_in": each.appears_in,
                    "in_windows": each.name in of_windows,
                }
                for each in measures
            ]
        }
    )

    @router.get(
        "/v1/measures",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="All measures, and where they stand",
        response_class=Response,
        responses=ok(MeasuresBody, "In the order of a report") | problems(),
    )
    async def all_measures(request: Request) -> Response:
        return answer(request, listed)

    return router
