"""GET /v1/models/{model}/coverage: how many predictions have an outcome, by age."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import UnknownModel
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs
from monitor.http.diagram_schemas import CoverageBody
from monitor.http.request_parsing import NO_PARAMETERS
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.services import ServicesOf
from monitor.windows.lookup import listed
from monitor.windows.maturity import COHORTS, AgeCohort

router: Final = APIRouter(tags=["reports"])


@router.get(
    "/v1/models/{model:path}/coverage",
    dependencies=[needs(Role.READ, Of.MODEL), NO_PARAMETERS],
    summary="Label coverage by age",
    description="How many predictions of each version have an outcome, by their age in quarters of the horizon: where "
    "outcomes stop, the youngest lose coverage first. "
    "The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=CoverageBody,
    response_description="The versions; none before the first evaluation of a declared model",
    responses=NOT_MODIFIED | problems(404, 422),
)
async def coverage(request: Request, services: ServicesOf, model: str) -> Response:
    models, policy = services.latest().snapshot.models, services.policy(model)
    evaluated = models.get(model)
    if policy is None or (evaluated is None and model not in services.declared):
        raise UnknownModel(f"no model {model!r}; models are {listed({*models, *services.declared})}")
    versions = {} if evaluated is None else evaluated.coverage
    body = {
        "model": model,
        "evaluated_at": None if evaluated is None else format_time(evaluated.evaluated_ms),
        "versions": [
            {"version": version, "cohorts": _cohorts(cohorts, policy.horizon_ms / 1000)}
            for (_, version), cohorts in sorted(versions.items())
        ],
    }
    return tagged_response(request, body)


def _cohorts(cohorts: Sequence[AgeCohort], horizon_seconds: float) -> list[dict[str, Any]]:
    """The cohorts with their ages: all but the last are equal parts of the horizon."""
    part = horizon_seconds / (len(COHORTS) - 1)
    return [
        {
            "cohort": cohort.cohort,
            "from_seconds": part * at,
            "to_seconds": part * (at + 1) if at < len(COHORTS) - 1 else None,
            "predictions": cohort.predictions,
            "labelled": cohort.labelled,
        }
        for at, cohort in enumerate(cohorts)
    ]
