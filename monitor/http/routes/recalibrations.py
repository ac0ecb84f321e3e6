"""Refits: request one, follow it, read its map and figures, promote it, and roll back."""

import re
from collections.abc import Collection
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.durations import parse_duration, to_ms
from monitor.errors import InputError, UnknownAlert, UnknownRecalibration
from monitor.http.artifacts import ARTIFACT, artifact_response
from monitor.http.authorization import Of, needs, principal_of, readable, require
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.problems import wrong_parameter
from monitor.http.recalibration_schemas import (
    FigureBody,
    NoteBody,
    PromotionBody,
    RefitBody,
    RefitRequestBody,
    RefitsBody,
    RefitSummaryBody,
    RollbackBody,
    job_path,
)
from monitor.http.request_parsing import (
    NO_PARAMETERS,
    PageParameters,
    checked_note,
    first_page,
    parameter,
    parse_body,
    parse_time,
    read_id,
    read_optional_body,
    wrong_cursor,
)
from monitor.http.responses import BODY_PROBLEMS, NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import reader, request_body
from monitor.http.services import Services, ServicesOf
from monitor.recalibration.plan import check_suits
from monitor.store.alert import AlertState
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, RefitRequest

router: Final = APIRouter(tags=["recalibration"])


_MAX_SHOWN: Final = 80

_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")

_UNKNOWN: Final = {404: ("unknown-recalibration", "there is no refit 'rc_17'; GET /v1/models/{model}/recalibrations")}
_NO_CANDIDATE: Final = {
    409: ("conflict", "refit rc_5e2c8f0b7d1a4936 is rejected, and only a candidate can be promoted")
}
_NONE_SERVES: Final = {409: ("conflict", "no map serves churn 7, so that there is nothing to take back")}

_REQUEST_DESCRIPTION: Final = """\
Fits a map on a sample of the labelled events, compares it on later events with what serves now and with no map at all,
and ends as `candidate`, `rejected` (it is not better, and is never promoted) or `failed`. The answer comes at once;
follow `Location` to see its progress. A refit that promotes itself, by the request or the settings, needs the role
`promote` too. A model has one refit under way at a time: another is 409.

Send an `Idempotency-Key`: a request that is sent again to the same model gets the refit of the first one.
"""

_PROMOTE_DESCRIPTION: Final = """\
Lets the map of a `candidate` serve. 409 if it is not a candidate, or if the map that it was compared with does not
serve any more: then it is unknown whether it is better than the one that does.
"""

_read_refit_request: Final = reader(RefitRequestBody)
_read_note: Final = reader(NoteBody)
_read_rollback: Final = reader(RollbackBody)


class RefitsQuery(PageParameters):
    """The refits of a page."""

    limit: int = parameter("refits on a page", default=100, ge=1, le=1000)


@router.post(
    "/v1/models/{model:path}/recalibrations",
    status_code=202,
    summary="Fit a map",
    dependencies=[needs(Role.WRITE, Of.MODEL), NO_PARAMETERS],
    description=_REQUEST_DESCRIPTION,
    response_model=RefitBody,
    response_description="The refit, queued; `Location` is its path",
    responses=problems(*BODY_PROBLEMS, 404, 409),
    openapi_extra={
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "1 to 255 printable ASCII characters, no spaces, such as a UUID; for one model",
                "schema": {"type": "string", "maxLength": 255},
            }
        ],
        **request_body(RefitRequestBody, required=False),
    },
)
async def request_refit(request: Request, response: Response, services: ServicesOf, model: str) -> RefitBody:
    key = _idempotency_key(request)
    body = await read_optional_body(request, services.body_seconds)
    wanted = parse_body(body, _read_refit_request, '{"method": "beta", "window": "7d"}')
    version = _version_text(wanted.version)
    window_ms = None if wanted.window is None else _window_ms(wanted.window)
    given_ms = None if wanted.since is None else parse_time(wanted.since, "since")
    recalibrations = services.recalibrations
    actor = principal_of(request).name

    def queue() -> tuple[RefitBody, bool]:
        of_version, since_ms = version, given_ms
        if wanted.alert is not None:
            of_version, since_ms = _of_alert(services, wanted.alert, model, version, given_ms)
        refit_request = recalibrations.make_request(
            model,
            of_version,
            method=wanted.method,
            options=wanted.options,
            window_ms=window_ms,
            since_ms=since_ms,
            promote=wanted.promote,
        )
        _check_method(services, refit_request, is_default=wanted.method is None)
        if refit_request.promote:
            # The refit promotes itself later, in the name of this caller.
            require(request, Role.PROMOTE, model)
        # The request as it was sent: the version and method that it stands for may have changed when it is sent again.
        sent = {**wanted.model_dump(), "version": version, "window": window_ms}
        job, is_new = recalibrations.request(refit_request, actor=actor, idempotency_key=key, body=sent)
        return RefitBody.of(job), is_new

    refit, is_new = await services.lookups.run(queue)
    response.headers["location"] = job_path(refit.id)
    if not is_new:
        response.headers["idempotent-replayed"] = "true"
    return refit


@router.post(
    "/v1/recalibrations/{id}/promotion",
    summary="Promote a map",
    dependencies=[needs(Role.PROMOTE, Of.REFIT), NO_PARAMETERS],
    description=_PROMOTE_DESCRIPTION,
    response_description="What serves from now on",
    responses=problems(*BODY_PROBLEMS, 404, 409, other=_UNKNOWN | _NO_CANDIDATE),
    openapi_extra=request_body(NoteBody, required=False),
)
async def promote(request: Request, services: ServicesOf, id: str) -> PromotionBody:  # noqa: A002 - the name in the path
    body = await read_optional_body(request, services.body_seconds)
    note = checked_note(parse_body(body, _read_note, '{"note": "agreed with the pricing team"}').note)
    actor = principal_of(request).name
    return await services.lookups.run(
        lambda: _promotion(services, services.recalibrations.promote(id, actor=actor, note=note))
    )


@router.post(
    "/v1/models/{model:path}/rollback",
    summary="Roll back to the previous map",
    dependencies=[needs(Role.PROMOTE, Of.MODEL), NO_PARAMETERS],
    description="The previous map serves again, or none. 409 if no map serves.",
    response_description="What serves from now on",
    responses=problems(*BODY_PROBLEMS, 404, 409, other=_NONE_SERVES),
    openapi_extra=request_body(RollbackBody, required=False),
)
async def roll_back(request: Request, services: ServicesOf, model: str) -> PromotionBody:
    body = await read_optional_body(request, services.body_seconds)
    wanted = parse_body(body, _read_rollback, '{"version": "7", "note": "complaints since noon"}')
    note, actor = checked_note(wanted.note), principal_of(request).name
    recalibrations = services.recalibrations

    def take_back() -> PromotionBody:
        version = recalibrations.version_of(model, _version_text(wanted.version))
        return _promotion(services, recalibrations.roll_back(model, version, actor=actor, note=note))

    return await services.lookups.run(take_back)


def _promotion(services: Services, champion: Champion) -> PromotionBody:
    """The body of what serves since a promotion or rollback, with the alerts that it resolved in its transaction."""
    ended = services.alerts.alerts(
        [champion.model], version=champion.version, states=[AlertState.RESOLVED], since_ms=champion.since_ms
    )
    return PromotionBody.of(
        champion, resolved_alerts=[alert.id for alert in ended if alert.resolved_ms == champion.since_ms]
    )


_LIST_RESPONSES: Final = NOT_MODIFIED | SEE_PAGE | problems(422, 503)


@router.get(
    "/v1/models/{model:path}/recalibrations",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="The refits of a model",
    description="The newest first, without their comparisons. The list of a model without refits is empty.",
    response_model=RefitsBody,
    response_description="A page of refits",
    responses=_LIST_RESPONSES,
)
async def refits_of_model(
    request: Request, services: ServicesOf, model: str, query: Annotated[RefitsQuery, Query()]
) -> Response:
    return await _list_refits(request, services, (model,), query)


@router.get(
    "/v1/recalibrations",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The refits of all models",
    description="The newest first, without their comparisons.",
    response_model=RefitsBody,
    response_description="A page of refits",
    responses=_LIST_RESPONSES,
)
async def all_refits(request: Request, services: ServicesOf, query: Annotated[RefitsQuery, Query()]) -> Response:
    return await _list_refits(request, services, readable(request), query)


@router.get(
    "/v1/recalibrations/{id}",
    summary="A refit",
    dependencies=[needs(Role.READ, Of.REFIT), NO_PARAMETERS],
    response_model=RefitBody,
    response_description="Its progress and its results",
    responses=NOT_MODIFIED | SEE_PAGE | problems(404, 422, 503, other=_UNKNOWN),
)
async def refit(request: Request, services: ServicesOf, id: str) -> Response:  # noqa: A002 - the name in the path
    if wants_page(request):
        return see_page(request, f"recalibrations/{quote(id, safe='')}")
    recalibrations = services.recalibrations
    return tagged_response(request, await services.lookups.run(lambda: RefitBody.of(recalibrations.store.job(id))))


@router.get(
    "/v1/recalibrations/{id}/artifact",
    summary="The map of a refit",
    dependencies=[needs(Role.READ, Of.REFIT), NO_PARAMETERS],
    description="As an Arrow IPC file, or as JSON where `Accept` prefers it. It never changes.",
    response_class=Response,
    responses=ARTIFACT | problems(404, 406, 422, 503, other=_UNKNOWN),
)
async def artifact(request: Request, services: ServicesOf, id: str) -> Response:  # noqa: A002 - the name in the path
    return await services.lookups.run(lambda: artifact_response(request, services.recalibrations.store.artifact(id)))


@router.get(
    "/v1/recalibrations/{id}/figures/{name}",
    summary="A figure of a refit",
    dependencies=[needs(Role.READ, Of.REFIT), NO_PARAMETERS],
    description="The refit's `links.figures` name them.",
    response_model=FigureBody,
    response_description="What the page of the refit draws",
    responses=NOT_MODIFIED | problems(404, 422, 503, other=_UNKNOWN),
)
async def figure(request: Request, services: ServicesOf, id: str, name: str) -> Response:  # noqa: A002 - as above
    store = services.recalibrations.store
    return await services.lookups.run(lambda: tagged_response(request, store.figure(id, name), compress=True))


async def _list_refits(
    request: Request, services: Services, models: Collection[str] | None, query: RefitsQuery
) -> Response:
    if wants_page(request):
        return see_page(request, "recalibrations")
    store = services.recalibrations.store
    return tagged_response(request, await services.lookups.run(lambda: _page(store, models, query)))


def _page(store: RecalibrationStore, models: Collection[str] | None, query: RefitsQuery) -> RefitsBody:
    before = read_id(query.cursor) if query.cursor else None
    try:
        if before is not None and models is not None and store.job(before).model not in models:
            # A cursor must not tell whether there is a refit of this name.
            raise wrong_cursor(query.cursor)
        # One more than is shown: if it exists, there is a next page.
        jobs = store.jobs(models, before=before, limit=query.limit + 1, comparisons=False)
    except UnknownRecalibration:
        raise wrong_cursor(query.cursor) from None
    shown, next_cursor = first_page(jobs, query.limit, lambda job: job.id)
    return RefitsBody(recalibrations=[RefitSummaryBody.of(job) for job in shown], next_cursor=next_cursor)


def _check_method(services: Services, request: RefitRequest, *, is_default: bool) -> None:
    """Refuse a refit that is certain to fail. Raises InputError."""
    policy = services.policy(request.model)
    if policy is None:
        return
    try:
        check_suits(request.method, request.options, classes=len(policy.classes), segments=policy.segments)
    except InputError as error:
        raise InputError(f"as the settings of the model say: {error}" if is_default else str(error)) from None


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        got = repr(key) if len(key) <= _MAX_SHOWN else f"{len(key)} characters"
        raise wrong_parameter(
            f"Idempotency-Key must have 1 to 255 printable ASCII characters without spaces, got {got}"
        )
    return key


def _of_alert(
    services: Services, alert_id: str, model: str, version: str | None, since_ms: int | None
) -> tuple[str, int]:
    """The version that an alert is about, and its change point."""
    found = services.alerts.alert(alert_id).finding
    if found.model != model:
        raise UnknownAlert(f"no alert about {model} is called {alert_id!r}")
    if version not in (None, found.version):
        raise InputError(f"the alert {alert_id} is about version {found.version}, got {version}")
    if since_ms is not None:
        raise InputError("alert says since when: leave out since, or alert")
    return found.version, found.since_ms


def _window_ms(value: str | float) -> int:
    try:
        window_ms = to_ms(parse_duration(value))
    except ValueError as error:
        raise InputError(f"window {error}, got {value!r}") from None
    if window_ms == 0:
        raise InputError(f"window must be longer than 0, got {value!r}; leave it out for all events")
    return window_ms


def _version_text(version: str | int | None) -> str | None:
    """A version as events have it: integers as text; an empty one counts as left out."""
    return None if version in (None, "") else str(version)
