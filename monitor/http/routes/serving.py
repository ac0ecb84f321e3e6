"""The map that serves a model: recalibrated predictions, the map itself, and the state of recalibration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, cast

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import InputError
from monitor.events.features import read_feature_column, read_features
from monitor.events.fields import Rejected
from monitor.events.times import format_time
from monitor.http.artifacts import ARTIFACT, artifact_response, not_modified
from monitor.http.authorization import Of, caller_of, needs
from monitor.http.recalibration_schemas import (
    AppliedBody,
    ApplyRequestBody,
    ChampionBody,
    RecalibrationBody,
    RefitSettingsBody,
    RefitSummaryBody,
    SegmentValue,
    ServingBody,
)
from monitor.http.request_parsing import NO_PARAMETERS, Parameters, check_media_type, parameter, parse_body, read_body
from monitor.http.responses import BODY_PROBLEMS, JSON, NOT_MODIFIED, encode_json, has_tag, problems, tagged_response
from monitor.http.schemas import reader, request_body
from monitor.http.services import ServicesOf
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import UNDER_WAY, Job

router: Final = APIRouter(tags=["recalibration"])

_NO_MAP: Final = '"none"'
"""The tag of the answer that no map serves."""

_SEARCHED_REFITS: Final = 100
"""Newest refits that are searched for a candidate: one that can still be promoted is new."""

_MAX_HASHES: Final = 10_000

_APPLY_DESCRIPTION: Final = """\
Recalibrates a batch by the map that serves. Where none serves, predictions come back as they were sent, `map` is null,
and `note` says so. Events must still carry the model's raw p: this answer is for those who use the prediction.
"""

_MAP_DESCRIPTION: Final = """\
For scorers that apply the map themselves: poll with `If-None-Match`, and get 304 until another map serves. 204 says
that none serves: predictions are to be used as they are. `Content-Location` names the map's refit.
"""

_read_batch: Final = reader(ApplyRequestBody)


class VersionQuery(Parameters):
    """The version of the model."""

    version: str = parameter("the one with the newest predictions if left out", "7")


@router.post(
    "/v1/models/{model:path}/recalibrate",
    summary="Recalibrate predictions",
    dependencies=[needs(Role.READ, Of.MODEL), NO_PARAMETERS],
    description=_APPLY_DESCRIPTION,
    response_model=AppliedBody,
    response_description="The predictions, in the order of the request",
    responses=problems(*BODY_PROBLEMS, 404),
    openapi_extra=request_body(ApplyRequestBody),
)
async def recalibrate(request: Request, services: ServicesOf, model: str) -> Response:
    check_media_type(request, JSON)
    recalibrations = services.recalibrations
    with services.body_bytes.held_by(caller_of(request)) as acquire:
        body = await read_body(request, services.api.max_report_bytes, services.body_seconds, acquire)
        return Response(await services.applications.run(lambda: _apply(recalibrations, model, body)), media_type=JSON)


@router.get(
    "/v1/models/{model:path}/recalibration",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="The state of recalibration of a model",
    response_model=RecalibrationBody,
    response_description="The map that serves, refits, settings, and live measures",
    responses=NOT_MODIFIED | problems(404, 422, 503),
)
async def recalibration(
    request: Request, services: ServicesOf, model: str, query: Annotated[VersionQuery, Query()]
) -> Response:
    state = await services.lookups.run(lambda: _state(services.recalibrations, model, query.version or None))
    return tagged_response(request, state)


@router.get(
    "/v1/models/{model:path}/map",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="The map that serves",
    description=_MAP_DESCRIPTION,
    response_class=Response,
    responses={
        **ARTIFACT,
        204: {"description": "No map serves: predictions are to be used as they are"},
        **problems(404, 406, 422, 503),
    },
    openapi_extra={
        "parameters": [
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "`ETag` of the map that the scorer has",
                "schema": {"type": "string"},
            }
        ]
    },
)
async def serving_map(
    request: Request, services: ServicesOf, model: str, query: Annotated[VersionQuery, Query()]
) -> Response:
    return await services.lookups.run(
        lambda: _serving_map(request, services.recalibrations, services.map_hashes, model, query.version or None)
    )


def _serving_map(
    request: Request, recalibrations: Recalibrations, hashes: dict[str, str], model: str, version: str | None
) -> Response:
    """The map, 304, or 204. For clients that have the map, it is not read from the store."""
    map_id = recalibrations.serving.champion(model, recalibrations.version_of(model, version)).map_id
    if map_id is None:
        headers = {"etag": _NO_MAP, "cache-control": "private, no-cache", "vary": "Accept"}
        return Response(status_code=304 if has_tag(request, _NO_MAP) else 204, headers=headers)
    sha256 = hashes.get(map_id)
    if sha256 is not None and (unchanged := not_modified(request, map_id, sha256)) is not None:
        return unchanged
    stored = recalibrations.store.artifact(map_id)
    if len(hashes) >= _MAX_HASHES:
        hashes.clear()
    hashes[stored.id] = stored.sha256
    return artifact_response(request, stored, serving=True)


def _apply(recalibrations: Recalibrations, model: str, body: bytes) -> bytes:
    batch = parse_body(body, _read_batch, '{"p": [0.9, 0.2], "features": [[0.1, 2.3], [0.4, 1.7]]}')
    version = recalibrations.version_of(model, None if batch.version in (None, "") else str(batch.version))
    applied = recalibrations.serving.apply(
        model,
        version,
        batch.p,
        # As the schema's DecodedAs says.
        features=None if batch.features is None else _features(cast("list[msgspec.Raw]", batch.features)),
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
    for index, raw in enumerate(raws):
        try:
            row = column[index] if column is not None else read_features(bytes(raw))
        except Rejected as error:
            raise InputError(f"{error.detail}, at index {index}") from None
        if row is None:
            raise InputError(f"features must be those of every event, got none at index {index}; send null for all")
        if rows and len(row) != len(rows[0]):
            raise InputError(
                f"features must be equally many of every event, got {len(rows[0])} at index 0 and {len(row)} at {index}"
            )
        rows.append(row)
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _segments(columns: Mapping[str, Sequence[SegmentValue]]) -> dict[str, list[str]]:
    """Values as events have them: numbers and truth values as text; null is no value."""
    return {key: [_segment(value) for value in values] for key, values in columns.items()}


def _segment(value: SegmentValue) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _state(recalibrations: Recalibrations, model: str, version: str | None) -> RecalibrationBody:
    version = recalibrations.version_of(model, version)
    jobs = recalibrations.store.jobs(model, limit=_SEARCHED_REFITS, comparisons=False)

    def first(candidates: Iterable[Job]) -> RefitSummaryBody | None:
        job = next(iter(candidates), None)
        return None if job is None else RefitSummaryBody.of(job)

    live = recalibrations.live(model, version)
    return RecalibrationBody(
        model=model,
        version=version,
        serves=ChampionBody.of(recalibrations.serving.champion(model, version)),
        servings=[
            ServingBody(map=serving.map_id, revision=serving.revision, **{"from": format_time(serving.from_ms)})
            for serving in recalibrations.store.servings(model, version)
        ],
        under_way=first(job for job in jobs if job.state in UNDER_WAY),
        candidate=first(job for job in jobs if job.promotable and job.version == version),
        settings=RefitSettingsBody.of(recalibrations, model, version),
        live=None if live is None else live.to_dict(),
    )
