"""Responses: JSON with entity tags, the media type that a request prefers, and what OpenAPI says of problems."""

import gzip
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from monitor.http.html import accepts_gzip, media_weight
from monitor.http.problems import MEDIA_TYPE as PROBLEM
from monitor.http.problems import Problem
from monitor.http.schemas import ProblemBody, reference

JSON: Final = "application/json"
_COMPRESSED_FROM: Final = 16 * 1024
"""Bytes."""

Responses = dict[int | str, dict[str, Any]]
"""The ``responses`` argument of a route."""

NOT_MODIFIED: Final[Responses] = {304: {"description": "Nothing has changed since the answer with that ETag"}}

encode_json: Final = msgspec.json.Encoder().encode


class TaggedBody(NamedTuple):
    """A body and its entity tag. The tag is a hash of the bytes, so it outlives snapshots and restarts."""

    data: bytes
    etag: str


def tagged(value: BaseModel | Mapping[str, Any] | bytes) -> TaggedBody:
    """The JSON body of a value, or the body of these bytes, with its tag."""
    if isinstance(value, BaseModel):
        data = value.model_dump_json(by_alias=True).encode()
    else:
        data = value if isinstance(value, bytes) else encode_json(value)
    return TaggedBody(data, f'"{xxhash.xxh3_128_hexdigest(data)}"')


def tagged_response(
    request: Request,
    value: TaggedBody | BaseModel | Mapping[str, Any] | bytes,
    *,
    compress: bool = False,
) -> Response:
    """200 with the body, or 304 without it if the request names its tag.

    Parameters
    ----------
    compress
        Whether to shrink a long body where the request accepts gzip: 5 ms a megabyte, so call it in a worker thread.
    """
    body = value if isinstance(value, TaggedBody) else tagged(value)
    headers = {"etag": body.etag, "cache-control": "private, no-cache", "vary": "Accept"}
    if compress:
        headers["vary"] = "Accept, Accept-Encoding"
    if has_tag(request, body.etag):
        return Response(status_code=304, headers=headers)
    if compress and len(body.data) >= _COMPRESSED_FROM and accepts_gzip(request):
        # The tag is of the text, whatever its encoding: a weak one.
        headers |= {"etag": f"W/{body.etag}", "content-encoding": "gzip"}
        return Response(gzip.compress(body.data, compresslevel=1), headers=headers, media_type=JSON)
    return Response(body.data, headers=headers, media_type=JSON)


def has_tag(request: Request, etag: str) -> bool:
    """Whether the request names this tag in ``If-None-Match``: the client has the body already."""
    tags = request.headers.get("if-none-match", "").split(",")
    return any(tag.strip().removeprefix("W/") in (etag, "*") for tag in tags)


def preferred_media(request: Request, offered: Sequence[str]) -> str:
    """The offered media type with the largest weight in ``Accept``; the first of equal ones.

    Raises
    ------
    Problem
        406: none of them is accepted.
    """
    best = max(offered, key=lambda media: media_weight(request, media))
    if media_weight(request, best) <= 0.0:
        accept = request.headers["accept"].strip()
        raise Problem(406, "not-acceptable", f"Accept must allow {' or '.join(offered)}, got {accept[:200]}")
    return best


_PROBLEMS: Final = {
    400: ("incomplete-body", "the connection was closed before the body was complete"),
    401: ("unauthenticated", "this needs an API key or a token: send it as Authorization: Bearer ..."),
    403: ("forbidden", "this needs the role promote for model 'churn', and key:nightly-refits holds write"),
    404: ("unknown-series", "no window '25h'; windows are '1h', '24h', '7d'"),
    406: ("not-acceptable", "Accept must allow application/vnd.apache.arrow.file or application/json, got image/png"),
    408: ("slow-body", "the body was not complete after 30 seconds; 1024 bytes came"),
    409: ("conflict", "refit rc_5e2c8f0b7d1a4936 of model 'churn' is under way; wait until it has ended"),
    410: ("no-longer-kept", "predictions are kept since 2026-11-13T10:00:00Z: ask as of 2026-11-14T10:00:00Z or later"),
    413: ("body-too-large", "the body must have at most 4194304 bytes, got 5000000 bytes; send it in several requests"),
    415: ("unsupported-media-type", "Content-Type must be application/json, got text/plain"),
    422: ("invalid-input", "y must be 0 or 1, got 2 at index 3"),
    429: (
        "too-many-requests",
        "key:nightly-refits sends more requests than access.requests_per_second allows; send fewer",
    ),
    500: ("internal", "the service failed to answer; its log says why, under incident 0f9c2b6a41de"),
    503: ("source-unavailable", "the broker does not answer; try again"),
}
"""Status -> kind and detail of the usual example."""


def problems(*statuses: int, other: Mapping[int, tuple[str, str]] = MappingProxyType({})) -> Responses:
    """The ``responses`` of the problems of a route, each with an example; 500 always.

    Parameters
    ----------
    other
        Status -> kind and detail, where the route has another example than the usual one.
    """
    return {status: _problem(status, *other.get(status, _PROBLEMS[status])) for status in (*statuses, 500)}


def _problem(status: int, kind: str, detail: str) -> dict[str, Any]:
    title = kind.replace("-", " ").capitalize()
    example = {
        "type": f"urn:calibration-monitor:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": "/v1/...",
        "request_id": "6f1f2a0c9d0b4f7e8a35c1d2e4b60987",
    }
    return {"description": title, "content": {PROBLEM: {"schema": reference(ProblemBody), "example": example}}}


BODY_PROBLEMS: Final = (400, 408, 413, 415, 422, 503)
"""Statuses of a route that reads a body."""


def text_response(media_type: str, description: str, example: str) -> Responses:
    """The ``responses`` entry of a good answer that is not JSON."""
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": description, "content": content}}
