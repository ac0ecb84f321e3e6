"""GET /v1/audit: the audit trail."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.authorization import Of, needs, require
from monitor.http.recalibration_schemas import AuditBody, AuditEntryBody
from monitor.http.request_parsing import PageParameters, first_page, parameter, read_id, wrong_cursor
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.services import ServicesOf

router: Final = APIRouter(tags=["recalibration"])


class AuditQuery(PageParameters):
    """The entries of a page."""

    model: str = parameter("only of this model", "churn")


@router.get(
    "/v1/audit",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The audit trail",
    description="Requests, ends of refits, promotions, rollbacks and refusals; API keys made and revoked, dead "
    "letters sent back, restored backups; the oldest first. Entries never change. Without `model` it needs a grant "
    "for all models.",
    response_model=AuditBody,
    response_description="A page of entries",
    responses=NOT_MODIFIED | problems(404, 422, 503),
)
async def audit(request: Request, services: ServicesOf, query: Annotated[AuditQuery, Query()]) -> Response:
    require(request, Role.READ, query.model or None)
    after = _number(query.cursor) if query.cursor else 0

    def page() -> AuditBody:
        # One more than is shown: if it exists, there is a next page.
        entries = services.recalibrations.store.audit(after=after, limit=query.limit + 1, model=query.model or None)
        shown, next_cursor = first_page(entries, query.limit, lambda entry: str(entry.number))
        return AuditBody(entries=[AuditEntryBody.of(entry) for entry in shown], next_cursor=next_cursor)

    return tagged_response(request, await services.lookups.run(page))


def _number(cursor: str) -> int:
    number = read_id(cursor)
    if number.isascii() and number.isdecimal() and len(number) < 19:
        return int(number)
    raise wrong_cursor(cursor)
