"""GET /v1/models: the models that are monitored."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.model import ALL, ModelPolicy
from monitor.events.times import DAY_MS, format_time
from monitor.http.authorization import Of, may, needs
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.request_parsing import PageParameters, paginate, parameter
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import ModelsBody
from monitor.http.services import Services, ServicesOf
from monitor.http.snapshots import ModelView, SnapshotView
from monitor.reports.evaluation.report import Report
from monitor.store.caps import cap_warning
from monitor.store.settled import Hold
from monitor.urls import wrong_path

router: Final = APIRouter(tags=["reports"])


class ModelsQuery(PageParameters):
    """The query parameters of the list of models."""

    model: str = parameter("only this one", "churn")


@router.get(
    "/v1/models",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The monitored models",
    description="Of the events of all partitions, from every replica; `partitions` are those that it reads.",
    response_model=ModelsBody,
    response_description="Models by name, also declared ones without events",
    responses=SEE_PAGE | NOT_MODIFIED | problems(422, 503),
)
async def models(request: Request, services: ServicesOf, query: Annotated[ModelsQuery, Query()]) -> Response:
    if wants_page(request):
        return see_page(request)
    view, may_read = services.latest(), may(request, Role.READ)

    def read() -> Response:
        known = {*view.models, *services.declared}
        shown = known & {query.model} if query.model else known
        names = sorted(name for name in filter(may_read, shown) if not wrong_path(name))
        page, next_cursor = paginate(names, query.cursor, query.limit, lambda name: (name,))
        caps = _caps(services)
        body = {
            "models": [_model(name, view, services, caps.get(name, [])) for name in page],
            "caps": caps.get("", []),
            "next_cursor": next_cursor,
            "partitions": sorted(services.status().partitions),
        }
        return tagged_response(request, body, compress=True)

    return await anyio.to_thread.run_sync(read)


# As dicts: a page of 1,000 bodies would take several times as long.


def _model(name: str, view: SnapshotView, services: Services, caps: list[dict[str, Any]]) -> dict[str, Any]:
    """What ModelBody describes."""
    model, known, policy = view.models.get(name), view.snapshot.models.get(name), services.policy(name)
    return {
        "model": name,
        "state": _state(model),
        "labels": services.labels.get(name, {}),
        "current_version": None if known is None else known.current_version,
        "versions": [] if model is None else _versions(name, model, view, services),
        "watermark": None if known is None else format_time(known.watermark_ms),
        "evaluated_at": None if known is None else format_time(known.evaluated_ms),
        "settled_to": None if known is None or known.edge_ms < 0 else format_time(known.edge_ms),
        "held_back_by": None if known is None or known.hold is None else _hold(known.hold),
        "policy": None if policy is None else _policy(policy),
        "caps": caps,
        "report": f"/v1/models/{quote(name)}/report",
    }


def _versions(name: str, model: ModelView, view: SnapshotView, services: Services) -> list[dict[str, Any]]:
    """What VersionBody describes, of each."""
    daily = _daily(model.reports)
    # First: what was just promoted or rolled back here is read by it, and evidence is on what serves.
    serves = {version: _serves(services, name, version) for version in model.versions}
    return [
        {
            "version": version,
            "segments": list(parts["segments"]),
            "windows": list(parts["windows"]),
            "evidence": view.evidence(name, version),
            "predictions_per_day": _rate(daily.get(version)),
            "label_coverage": daily[version].label_coverage if version in daily else None,
            "serves": serves[version],
        }
        for version, parts in model.versions.items()
    ]


def _hold(hold: Hold) -> dict[str, Any]:
    return {"partition": hold.partition, "reason": hold.reason, "detail": hold.detail}


def _caps(services: Services) -> Mapping[str, list[dict[str, Any]]]:
    """Model -> its caps, each as CapBody describes; the cap on models under the empty name."""
    bodies: dict[str, list[dict[str, Any]]] = {}
    for cap, use in services.caps().items():
        body = {
            "setting": f"caps.{cap.setting}",
            "segment_key": cap.segment_key or None,
            "used": use.used,
            "limit": use.limit,
            "folded": use.folded,
            "warning": cap_warning(cap, use),
        }
        bodies.setdefault(cap.model, []).append(body)
    return bodies


def _policy(policy: ModelPolicy) -> dict[str, Any]:
    return {
        "horizon_seconds": policy.horizon_ms / 1000,
        "lateness_seconds": policy.lateness_ms / 1000,
        "implied_negative": policy.implied_negative,
        "segments": policy.segments,
        "classes": policy.classes,
    }


def _daily(reports: Iterable[Report]) -> Mapping[str, Report]:
    """Version -> the report of its longest window of at most a day, or of its shortest."""
    daily: dict[str, tuple[tuple[bool, int], Report]] = {}
    for report in reports:
        if report.segment == ALL and report.from_ms is not None and report.to_ms is not None:
            length_ms = report.to_ms - report.from_ms
            rank = (True, length_ms) if 0 < length_ms <= DAY_MS else (False, -length_ms)
            if report.version not in daily or rank > daily[report.version][0]:
                daily[report.version] = rank, report
    return {version: report for version, (_, report) in daily.items()}


def _rate(report: Report | None) -> float | None:
    """Predictions a day."""
    if report is None or report.from_ms is None or report.to_ms is None or report.from_ms >= report.to_ms:
        return None
    return report.predictions * DAY_MS / (report.to_ms - report.from_ms)


def _serves(services: Services, model: str, version: str) -> dict[str, str] | None:
    served = services.recalibrations.serving.map_of(model, version)
    return None if served is None else {"map": served[0], "method": served[1]}


def _state(model: ModelView | None) -> Literal["measured", "insufficient", "failed", "waiting"]:
    if model is None:
        return "waiting"
    if not model.reports:
        return "failed"
    return "measured" if any(report.measures for report in model.reports) else "insufficient"
