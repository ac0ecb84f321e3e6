"""What serves: recalibrated predictions, the map for those who apply it themselves, and how a model stands."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from fastapi import APIRouter, Depends, Query, Request
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.events.features import read_feature_column, read_features
from monitor.events.rejection import Rejected
from monitor.http.access import Of, needs
from monitor.http.answers import MEDIA_TYPE, answer, encode_json, has_tag, make_body
from monitor.http.artifacts import artifact_answer, artifact_responses, not_modified
from monitor.http.parts import Parts
from monitor.http.problems import Problem
from monitor.http.recalibration_documents import (
    Open,
    champion_document,
    job_summary,
    method_document,
    open_of,
    settings_document,
)
from monitor.http.recalibration_requests import read_struct, text_of_version
from monitor.http.recalibration_schemas import AppliedBody, ApplyRequestBody, MethodsBody, RecalibrationBody
from monitor.http.requests import Computations, check_json, no_parameters, read_body
from monitor.http.schemas import ok, problems, reference
from monitor.maps import METHODS
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import UNDER_WAY, Champion, Job

_NO_MAP: Final = '"none"'
"""The tag of the answer that no map serves."""

_LOOKED_AT: Final = 100
"""Refits among which the newest candidate is looked for: one that may still be promoted is new."""

_REMEMBERED: Final = 10_000

_SegmentValue = str | int | bool | None

_APPLY_DESCRIPTION: Final = """\
Recalibrates a batch by the map that serves. Where none serves, predictions come back as they were sent, `map` is null,
and `note` says so. Events go on carrying the model's raw p: what this answers is for whoever uses the prediction.
"""

_MAP_DESCRIPTION: Final = """\
For scorers that apply the map themselves: ask again with `If-None-Match`, and get 304 until another one serves. 204
says that none serves: predictions are to be used as they are. `Content-Location` names the map's refit.
"""

_HASH_HEADER: Final = {
    "parameters": [
        {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "`ETag` of the map that the scorer has",
            "schema": {"type": "string"},
        }
    ]
}


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Predictions in columns."""

    p: list[float | list[float]]
    features: list[msgspec.Raw] | None = None
    segments: dict[str, list[_SegmentValue]] | None = None
    version: str | int | None = None


class VersionQuery(BaseModel):
    """Which version is meant."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[str, Field(description="the one with the newest predictions if left out", examples=["7"])] = ""


def recalibrate_router(
    parts: Parts, known: Recalibrations, lookups: Computations, computations: Computations
) -> APIRouter:
    """The routes.

    Parameters
    ----------
    lookups
        Where the store is asked.
    computations
        Where maps are applied.
    """
    router = APIRouter(tags=["recalibration"])

    @router.post(
        "/v1/models/{model:path}/recalibrate",
        summary="Recalibrate predictions",
        dependencies=[needs(Role.READ, Of.MODEL), Depends(no_parameters)],
        description=_APPLY_DESCRIPTION,
        response_class=Response,
        responses=ok(AppliedBody, "The predictions, in the order of the request")
        | problems(400, 404, 408, 413, 415, 422, 503),
        openapi_extra={
            "requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": reference(ApplyRequestBody)}}}
        },
    )
    async def recalibrate(request: Request, model: str) -> Response:
        check_json(request, (MEDIA_TYPE,))
        body = await read_body(request, parts.limits.report_bytes, parts.limits.body_seconds)
        return Response(await computations.run(lambda: _apply(known, model, body)), media_type=MEDIA_TYPE)

    @router.get(
        "/v1/models/{model:path}/recalibration",
        dependencies=[needs(Role.READ, Of.MODEL)],
        summary="What serves a model, and what is under way",
        response_class=Response,
        responses=ok(RecalibrationBody, "What serves, refits, settings, and what live events say")
        | {304: {"description": "Nothing has changed since the answer with that ETag"}}
        | problems(404, 422, 503),
    )
    async def recalibration(request: Request, model: str, query: Annotated[VersionQuery, Query()]) -> Response:
        return answer(request, make_body(await lookups.run(lambda: _standing(known, model, query.version or None))))

    served = _Served(known)

    @router.get(
        "/v1/models/{model:path}/map",
        dependencies=[needs(Role.READ, Of.MODEL)],
        summary="The map that serves",
        description=_MAP_DESCRIPTION,
        response_class=Response,
        responses=artifact_responses()
        | {204: {"description": "No map serves: predictions are to be used as they are"}}
        | problems(404, 406, 422, 503),
        openapi_extra=_HASH_HEADER,
    )
    async def serving_map(request: Request, model: str, query: Annotated[VersionQuery, Query()]) -> Response:
        return await lookups.run(lambda: served.answer(request, model, query.version or None))

    methods = make_body({"methods": [method_document(each) for each in METHODS.values()]})

    @router.get(
        "/v1/recalibration-methods",
        summary="The methods of recalibration, with their options",
        dependencies=[needs(Role.READ, Of.ANY), Depends(no_parameters)],
        response_class=Response,
        responses=ok(MethodsBody, "In the order of lists") | problems(422),
    )
    async def all_methods(request: Request) -> Response:
        return answer(request, methods)

    return router


class _Served:
    """Answers with the map that serves, without reading the map for those who have it."""

    def __init__(self, known: Recalibrations) -> None:
        self._known = known
        self._sha256: dict[str, str] = {}
        """Of maps that were sent before: a map never changes."""

    def answer(self, request: Request, model: str, version: str | None) -> Response:
        """The map, 304, or 204."""
        champion = self._known.champion(model, self._known.version_of(model, version))
        if champion.map_id is None:
            headers = {"etag": _NO_MAP, "cache-control": "private, no-cache", "vary": "Accept"}
            return Response(status_code=304 if has_tag(request, _NO_MAP) else 204, headers=headers)
        known_sha256 = self._sha256.get(champion.map_id)
        if known_sha256 is not None and (unchanged := not_modified(request, champion.map_id, known_sha256)) is not None:
            return unchanged
        stored = self._known.artifact(champion.map_id)
        if len(self._sha256) >= _REMEMBERED:
            self._sha256.clear()
        self._sha256[stored.id] = stored.sha256
        return artifact_answer(request, stored, serving=True)


def _apply(known: Recalibrations, model: str, body: bytes) -> bytes:
    batch = read_struct(body, Batch, '{"p": [0.9, 0.2], "features": [[0.1, 2.3], [0.4, 1.7]]}')
    version = known.version_of(model, text_of_version(batch.version))
    applied = known.apply(
        model,
        version,
        batch.p,
        features=None if batch.features is None else _features(batch.features),
        segments=None if batch.segments is None else _segments(batch.segments),
    )
    note = None if applied.map_id else f"no map serves {model} {version}: predictions are as they were sent"
    return encode_json(
        {"model": model, "version": version, "map": applied.map_id, "p": applied.prediction, "note": note}
    )


def _features(raws: Sequence[msgspec.Raw]) -> NDArray[np.float32]:
    """Features of all events, float32, shape (n, D).

    Raises
    ------
    Problem
        422: those of an event cannot be read, are missing, or are more or fewer than those of the first.
    """
    column = read_feature_column([bytes(raw) for raw in raws]) if raws else []
    rows: list[NDArray[np.float32]] = []
    for at, raw in enumerate(raws):
        try:
            row = column[at] if column is not None else read_features(bytes(raw))
        except Rejected as why:
            raise Problem(422, "invalid-input", f"{why.detail}, at index {at}") from None
        if row is None:
            raise Problem(
                422,
                "invalid-input",
                f"features must be those of every event, got none at index {at}; send null for all",
            )
        if rows and len(row) != len(rows[0]):
            raise Problem(
                422,
                "invalid-input",
                f"features must be equally many of every event, got {len(rows[0])} at index 0 and {len(row)} at {at}",
            )
        rows.append(row)
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _segments(columns: Mapping[str, Sequence[_SegmentValue]]) -> dict[str, list[str]]:
    """Values as events have them: numbers and truth values count as they are written, null is no value."""
    return {key: [_segment(value) for value in values] for key, values in columns.items()}


def _segment(value: _SegmentValue) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _standing(known: Recalibrations, model: str, version: str | None) -> dict[str, Any]:
    chosen = known.version_of(model, version)
    champion: Champion = known.champion(model, chosen)
    jobs = known.jobs(model, before=None, limit=_LOOKED_AT)
    may = open_of(known, jobs)
    return {
        "model": model,
        "version": chosen,
        "serves": champion_document(champion),
        "under_way": _first((job for job in jobs if job.state in UNDER_WAY), may),
        "candidate": _first((job for job in jobs if job.id in may.promotable and job.order.version == chosen), may),
        "settings": settings_document(known.order(model, chosen), known.schedules().get(model, {})),
        "live": known.live(model, chosen),
    }


def _first(jobs: Iterable[Job], may: Open) -> dict[str, Any] | None:
    job = next(iter(jobs), None)
    return None if job is None else job_summary(job, may)
