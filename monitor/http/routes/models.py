"""GET /v1/models: the models that are monitored."""

from typing import Annotated, Final, Literal
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ModelPolicy
from monitor.events.times import format_time
from monitor.http.authorization import Of, may, needs
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.request_parsing import PageParameters, paginate
from monitor.http.responses import TaggedBody, problems, tagged, tagged_response
from monitor.http.schemas import EvidenceStateBody, HoldBody, ModelBody, ModelsBody, PolicyBody, VersionBody
from monitor.http.services import ServicesOf
from monitor.http.snapshots import ModelView, SnapshotView, document_of
from monitor.windows.evidence_state import state_of

router: Final = APIRouter(tags=["reports"])


@router.get(
    "/v1/models",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The monitored models",
    description="Of the events of all partitions, from every replica; `partitions` are those that it reads.",
    response_model=ModelsBody,
    response_description="Models by name, also declared ones without events",
    responses=SEE_PAGE | problems(422),
)
async def models(request: Request, services: ServicesOf, query: Annotated[PageParameters, Query()]) -> Response:
    if wants_page(request):
        return see_page(request)
    view, may_read = services.latest(), may(request, Role.READ)

    def encode() -> TaggedBody:
        names = sorted(filter(may_read, {*view.models, *services.declared}))
        page, next_cursor = paginate(names, query.cursor, query.limit, lambda name: (name,))
        return tagged(
            ModelsBody(
                models=[_model(name, view, services.policy(name)) for name in page],
                next_cursor=next_cursor,
                partitions=sorted(services.status().partitions),
            )
        )

    return tagged_response(request, await anyio.to_thread.run_sync(encode))


def _model(name: str, view: SnapshotView, policy: ModelPolicy | None) -> ModelBody:
    model, known = view.models.get(name), view.snapshot.models.get(name)
    hold = None if known is None else known.hold
    return ModelBody(
        model=name,
        state=_state(model),
        current_version=None if known is None else known.current_version,
        versions=[
            VersionBody(
                version=version,
                segments=list(parts["segments"]),
                windows=list(parts["windows"]),
                evidence=EvidenceStateBody(**document_of(state_of(view.snapshot, name, version))),
            )
            for version, parts in (model.versions if model is not None else {}).items()
        ],
        watermark=None if known is None else format_time(known.watermark_ms),
        evaluated_at=None if known is None else format_time(known.evaluated_ms),
        settled_to=None if known is None or known.edge_ms < 0 else format_time(known.edge_ms),
        held_back_by=None
        if hold is None
        else HoldBody(partition=hold.partition, reason=hold.reason.value, detail=hold.detail),
        policy=None
        if policy is None
        else PolicyBody.of_attributes(
            policy, horizon_seconds=policy.horizon_ms / 1000, lateness_seconds=policy.lateness_ms / 1000
        ),
        report=f"/v1/models/{quote(name)}/report",
    )


def _state(model: ModelView | None) -> Literal["measured", "insufficient", "failed", "waiting"]:
    if model is None:
        return "waiting"
    if not model.reports:
        return "failed"
    return "measured" if any(report.measures for report in model.reports) else "insufficient"
