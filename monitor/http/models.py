"""GET /v1/models: what is watched."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ModelPolicy
from monitor.events.times import format_time
from monitor.http.access import Of, may, needs
from monitor.http.answers import Body, answer, make_body
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.pages import page
from monitor.http.parts import Parts
from monitor.http.schemas import ModelsBody, ok, problems
from monitor.http.snapshots import LatestView, ModelView, SnapshotView


class ModelsQuery(BaseModel):
    """Which models are wanted."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=1000, description="models on a page")] = 100
    cursor: Annotated[str | None, Field(description="next_cursor of the page before")] = None


def models_router(parts: Parts, latest: LatestView) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["reports"])

    @router.get(
        "/v1/models",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="The models that are watched",
        description="Where several replicas share a log, each reports on the events of the partitions that it holds: "
        "`partitions` says which.",
        response_class=Response,
        responses=ok(ModelsBody, "Models by name, those declared that wait for events too") | SEE_PAGE | problems(422),
    )
    async def models(request: Request, query: Annotated[ModelsQuery, Query()]) -> Response:
        if wants_page(request):
            return see_page(request)
        view, may_read = latest(), may(request, Role.READ)

        def make() -> Body:
            names = sorted(filter(may_read, {*view.models, *parts.declared}))
            shown = page([(name,) for name in names], query.cursor or None, query.limit)
            listed = [_entry(name, view, parts.policy(name)) for (name,) in shown.keys]
            held = sorted(parts.pipeline.status.partitions)
            return make_body({"models": listed, "next_cursor": shown.next_cursor, "partitions": held})

        return answer(request, await anyio.to_thread.run_sync(make))

    return router


def _entry(name: str, view: SnapshotView, policy: ModelPolicy | None) -> dict[str, Any]:
    watermark_ms = view.snapshot.watermarks_ms.get(name)
    known = view.models.get(name)
    return {
        "model": name,
        "state": _state(known),
        "current_version": view.snapshot.current_versions.get(name),
        "versions": [
            {"version": version, "segments": list(of_version["segments"]), "windows": list(of_version["windows"])}
            for version, of_version in (known.versions if known is not None else {}).items()
        ],
        "watermark": None if watermark_ms is None else format_time(watermark_ms),
        "policy": None
        if policy is None
        else {
            "horizon_seconds": policy.horizon_ms / 1000,
            "lateness_seconds": policy.lateness_ms / 1000,
            "implied_negative": policy.implied_negative,
            "segments": list(policy.segments),
            "classes": list(policy.classes),
        },
        "report": f"/v1/models/{quote(name)}/report",
    }


def _state(known: ModelView | None) -> Literal["measured", "insufficient", "failed", "waiting"]:
    if known is None:
        return "waiting"
    if not known.reports:
        return "failed"
    return "measured" if any(report.measures for report in known.reports) else "insufficient"
