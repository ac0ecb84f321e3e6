"""GET /v1/audit: who did what."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.access import Of, needs, require
from monitor.http.answers import answer, make_body
from monitor.http.pages import read_cursor, write_cursor
from monitor.http.problems import Problem
from monitor.http.recalibration_documents import audit_document
from monitor.http.recalibration_schemas import AuditBody
from monitor.http.requests import Computations
from monitor.http.schemas import ok, problems
from monitor.recalibration.service import Recalibrations


class AuditQuery(BaseModel):
    """Which entries are wanted. An empty parameter is one that is left out."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(description="only of this model", examples=["churn"])] = ""
    limit: Annotated[int, Field(ge=1, le=1000, description="entries on a page")] = 100
    cursor: Annotated[str, Field(description="next_cursor of the page before")] = ""


def audit_router(known: Recalibrations, lookups: Computations) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["recalibration"])

    @router.get(
        "/v1/audit",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="Who did what",
        description="Requests, ends of refits, promotions, rollbacks and refusals; API keys made and revoked, dead "
        "letters sent back, restored backups; the oldest first. Entries never change. Without `model` it takes a grant "
        "for all models.",
        response_class=Response,
        responses=ok(AuditBody, "A page of entries")
        | {304: {"description": "Nothing has changed since the answer with that ETag"}}
        | problems(404, 422, 503),
    )
    async def audit(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        require(request, Role.READ, query.model or None)
        after = _number(query.cursor) if query.cursor else 0

        def page() -> dict[str, object]:
            # One more than is shown tells whether there is a next page.
            entries = known.audit(after=after, limit=query.limit + 1, model=query.model or None)
            shown = entries[: query.limit]
            return {
                "entries": [audit_document(entry) for entry in shown],
                "next_cursor": write_cursor((str(shown[-1].number),)) if len(entries) > len(shown) else None,
            }

        return answer(request, make_body(await lookups.run(page)))

    return router


def _number(cursor: str) -> int:
    match read_cursor(cursor):
        case (number,) if number.isascii() and number.isdecimal() and len(number) < 19:
            return int(number)
    raise Problem(422, "invalid-parameter", f"cursor must be the next_cursor of the page before, got {cursor[:80]!r}")
