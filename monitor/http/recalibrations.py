"""Refits: asking for one, what became of it, its map and pictures, promotion, and the way back."""

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import InputError, UnknownRecalibration
from monitor.http.access import Of, needs, readable, require
from monitor.http.actors import actor_of
from monitor.http.answers import MEDIA_TYPE, answer, encode_json, make_body, tag
from monitor.http.artifacts import artifact_answer, artifact_responses
from monitor.http.html import SEE_PAGE, see_page, wants_page
from monitor.http.pages import read_cursor, write_cursor
from monitor.http.parts import Parts
from monitor.http.problems import Problem
from monitor.http.recalibration_documents import (
    champion_document,
    job_document,
    job_path,
    job_summary,
    open_of,
)
from monitor.http.recalibration_requests import (
    Note,
    Refit,
    RollBack,
    checked_note,
    comes_from_page,
    idempotency_key,
    read_struct,
    read_window,
    text_of_version,
)
from monitor.http.recalibration_schemas import (
    ChampionBody,
    NoteBody,
    RefitBody,
    RefitRequestBody,
    RefitsBody,
    RollbackBody,
)
from monitor.http.requests import Computations, check_json, no_parameters, read_body
from monitor.http.schemas import ok, problems, reference, text
from monitor.recalibration.plan import check_suits
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import Job, Order

T = TypeVar("T")

_BODY_BYTES: Final = 64 * 1024
"""Of what only says what to do."""

_FIGURE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
"""A picture that somebody opens on its own runs nothing and loads nothing."""

_NOT_MODIFIED: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "Nothing has changed since the answer with that ETag"}
}

_NO_QUERY: Final = [Depends(no_parameters)]

_UNKNOWN: Final = {404: ("unknown-recalibration", "there is no refit 'rc_17'; GET /v1/models/{model}/recalibrations")}

_REQUEST_DESCRIPTION: Final = """\
Fits a map on a sample of the labelled events, compares it on later events with what serves now and with no map at all,
and ends as `candidate`, `rejected` (it is not better, and is never promoted) or `failed`. The answer comes at once;
follow `Location` to see how far it is. One that promotes by itself, be it that the settings say so, takes the role
`promote` too. Of one model one refit is under way at a time: another is 409.

Send an `Idempotency-Key`, and a request that is sent again to the same model gets the refit that the first one made.
"""

_PROMOTE_DESCRIPTION: Final = """\
Lets the map of a `candidate` serve. 409 where it is none, or where what it was compared with serves no more: then
nothing is known of whether it is better than what does.
"""


class RefitsQuery(BaseModel):
    """Which refits are wanted."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=1000, description="refits on a page")] = 100
    cursor: Annotated[str, Field(description="next_cursor of the page before")] = ""


def recalibrations_router(parts: Parts, known: Recalibrations, lookups: Computations) -> APIRouter:
    """The routes.

    Parameters
    ----------
    lookups
        Where the store is asked: it may keep a request waiting, and never the others.
    """
    router = APIRouter(tags=["recalibration"])
    add_reading(router, known, lookups)

    async def read(request: Request, kind: type[T], example: str) -> T:
        """What is asked; without a body nothing is, and all is as the settings say."""
        is_told = "content-type" in request.headers or comes_from_page(request)
        if is_told:
            check_json(request, (MEDIA_TYPE,))
        body = await read_body(request, _BODY_BYTES, parts.limits.body_seconds)
        if body and not is_told:
            check_json(request, (MEDIA_TYPE,))
        return read_struct(body or b"{}", kind, example)

    def check_method(order: Order, *, is_usual: bool) -> None:
        """Refuse what would fail for certain, so that nobody has to wait for it."""
        policy = parts.policy(order.model)
        if policy is None:
            return
        try:
            check_suits(order.method, order.options, classes=len(policy.classes), segments=policy.segments)
        except InputError as error:
            raise InputError(f"as the settings of the model say: {error}" if is_usual else str(error)) from None

    @router.post(
        "/v1/models/{model:path}/recalibrations",
        status_code=202,
        summary="Fit a map",
        dependencies=[needs(Role.WRITE, Of.MODEL), *_NO_QUERY],
        description=_REQUEST_DESCRIPTION,
        response_class=Response,
        responses=ok(RefitBody, "The refit, queued; `Location` says where it stands", 202)
        | problems(400, 404, 408, 409, 413, 415, 422, 503),
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
            "requestBody": _optional(RefitRequestBody),
        },
    )
    async def request_refit(request: Request, model: str) -> Response:
        key = idempotency_key(request)
        asked = await read(request, Refit, '{"method": "beta", "window": "7d"}')
        window_ms = None if asked.window is None else read_window(asked.window)
        actor = actor_of(request)

        def queue() -> tuple[bytes, str, bool]:
            order = known.order(
                model,
                text_of_version(asked.version),
                method=asked.method,
                options=asked.options,
                window_ms=window_ms,
                promote=asked.promote,
            )
            check_method(order, is_usual=asked.method is None)
            if order.promote:
                # By itself, later, and in the name of who asks now.
                require(request, Role.PROMOTE, model)
            # The version and the method that it comes to meanwhile make it no other request.
            told = {**msgspec.structs.asdict(asked), "version": text_of_version(asked.version), "window": window_ms}
            job, is_new = known.request(order, actor=actor, idempotency_key=key, body=told)
            return encode_json(refit_document(known, job)), job_path(job.id), is_new

        data, path, is_new = await lookups.run(queue)
        headers = {"location": path} | ({} if is_new else {"idempotent-replayed": "true"})
        return Response(data, 202, headers, MEDIA_TYPE)

    @router.post(
        "/v1/recalibrations/{id}/promotion",
        summary="Let a map serve",
        dependencies=[needs(Role.PROMOTE, Of.REFIT), *_NO_QUERY],
        description=_PROMOTE_DESCRIPTION,
        response_class=Response,
        responses=ok(ChampionBody, "What serves from now on")
        | problems(400, 404, 408, 409, 413, 415, 422, 503, other=_UNKNOWN | _NO_CANDIDATE),
        openapi_extra={"requestBody": _optional(NoteBody)},
    )
    async def promote(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
        asked = await read(request, Note, '{"note": "agreed with the pricing team"}')
        note, actor = checked_note(asked.note), actor_of(request)
        return await _json(lookups, lambda: champion_document(known.promote(id, actor=actor, note=note)))

    @router.post(
        "/v1/models/{model:path}/rollback",
        summary="Let the map before serve again",
        dependencies=[needs(Role.PROMOTE, Of.MODEL), *_NO_QUERY],
        description="Takes back the map that serves: the one before it serves again, or none. 409 where none serves.",
        response_class=Response,
        responses=ok(ChampionBody, "What serves from now on")
        | problems(400, 404, 408, 409, 413, 415, 422, 503, other=_NONE_SERVES),
        openapi_extra={"requestBody": _optional(RollbackBody)},
    )
    async def roll_back(request: Request, model: str) -> Response:
        asked = await read(request, RollBack, '{"version": "7", "note": "complaints since noon"}')
        note, actor = checked_note(asked.note), actor_of(request)

        def take_back() -> dict[str, object]:
            version = known.version_of(model, text_of_version(asked.version))
            return champion_document(known.roll_back(model, version, actor=actor, note=note))

        return await _json(lookups, take_back)

    return router


def add_reading(router: APIRouter, known: Recalibrations, lookups: Computations) -> None:
    """Add the routes that only read."""

    def page(models: Collection[str] | None, query: RefitsQuery) -> dict[str, object]:
        before = _job_of(query.cursor) if query.cursor else None
        try:
            if before is not None and models is not None and known.job(before).order.model not in models:
                # Whether there is a refit of this name is nothing that a cursor may find out.
                raise _wrong_cursor(query.cursor)
            # One more than is shown tells whether there is a next page.
            jobs = known.jobs(models, before=before, limit=query.limit + 1)
        except UnknownRecalibration:
            raise _wrong_cursor(query.cursor) from None
        shown = jobs[: query.limit]
        may = open_of(known, shown)
        return {
            "recalibrations": [job_summary(job, may) for job in shown],
            "next_cursor": write_cursor((shown[-1].id,)) if len(jobs) > len(shown) else None,
        }

    @router.get(
        "/v1/models/{model:path}/recalibrations",
        dependencies=[needs(Role.READ, Of.MODEL)],
        summary="The refits of a model",
        description="The newest first, without their comparisons. A model that nobody refitted has an empty list.",
        response_class=Response,
        responses=ok(RefitsBody, "A page of refits") | _NOT_MODIFIED | SEE_PAGE | problems(422, 503),
    )
    async def refits_of_model(request: Request, model: str, query: Annotated[RefitsQuery, Query()]) -> Response:
        if wants_page(request):
            return see_page(request, "recalibrations")
        return answer(request, make_body(await lookups.run(lambda: page((model,), query))))

    @router.get(
        "/v1/recalibrations",
        dependencies=[needs(Role.READ, Of.ANY)],
        summary="The refits of all models",
        description="The newest first, without their comparisons.",
        response_class=Response,
        responses=ok(RefitsBody, "A page of refits") | _NOT_MODIFIED | SEE_PAGE | problems(422, 503),
    )
    async def all_refits(request: Request, query: Annotated[RefitsQuery, Query()]) -> Response:
        if wants_page(request):
            return see_page(request, "recalibrations")
        models = readable(request)
        return answer(request, make_body(await lookups.run(lambda: page(models, query))))

    @router.get(
        "/v1/recalibrations/{id}",
        summary="What became of a refit",
        dependencies=[needs(Role.READ, Of.REFIT), *_NO_QUERY],
        response_class=Response,
        responses=ok(RefitBody, "How far it is, and what it found")
        | _NOT_MODIFIED
        | SEE_PAGE
        | problems(404, 422, 503, other=_UNKNOWN),
    )
    async def refit(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
        if wants_page(request):
            return see_page(request, f"recalibrations/{quote(id, safe='')}")
        return answer(request, make_body(await lookups.run(lambda: refit_document(known, known.job(id)))))

    @router.get(
        "/v1/recalibrations/{id}/artifact",
        summary="The map of a refit",
        dependencies=[needs(Role.READ, Of.REFIT), *_NO_QUERY],
        description="As an Arrow IPC file, or as JSON where `Accept` prefers it. It never changes.",
        response_class=Response,
        responses=artifact_responses() | problems(404, 406, 422, 503, other=_UNKNOWN),
    )
    async def artifact(request: Request, id: str) -> Response:  # noqa: A002
        return await lookups.run(lambda: artifact_answer(request, known.artifact(id)))

    @router.get(
        "/v1/recalibrations/{id}/figures/{name}",
        summary="A picture of a refit",
        dependencies=[needs(Role.READ, Of.REFIT), *_NO_QUERY],
        description="The refit's `links.figures` name them.",
        response_class=Response,
        responses=text("image/svg+xml", "SVG", '<svg xmlns="http://www.w3.org/2000/svg">...</svg>')
        | _NOT_MODIFIED
        | problems(404, 422, 503, other=_UNKNOWN),
    )
    async def figure(request: Request, id: str, name: str) -> Response:  # noqa: A002
        sent = answer(request, tag(await lookups.run(lambda: known.figure(id, name))), "image/svg+xml")
        sent.headers["content-security-policy"] = _FIGURE_POLICY
        return sent


def refit_document(known: Recalibrations, job: Job) -> dict[str, Any]:
    """A refit with all that is known of it."""
    return job_document(job, open_of(known, (job,)))


async def _json(lookups: Computations, document: Callable[[], object]) -> Response:
    return Response(encode_json(await lookups.run(document)), media_type=MEDIA_TYPE)


def _job_of(cursor: str) -> str:
    match read_cursor(cursor):
        case (job_id,):
            return job_id
    raise _wrong_cursor(cursor)


def _wrong_cursor(cursor: str) -> Problem:
    return Problem(422, "invalid-parameter", f"cursor must be the next_cursor of the page before, got {cursor[:80]!r}")


def _optional(body: type[BaseModel]) -> dict[str, object]:
    return {"required": False, "content": {MEDIA_TYPE: {"schema": reference(body)}}}


_NO_CANDIDATE: Final = {
    409: ("conflict", "refit rc_5e2c8f0b7d1a4936 is rejected, and only a candidate can be promoted")
}

_NONE_SERVES: Final = {409: ("conflict", "no map serves churn 7, so that there is nothing to take back")}
