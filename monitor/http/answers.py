"""Bodies that are made once and sent often, with the tag that spares a reader the same body twice."""

from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from fastapi import Request
from starlette.responses import Response

MEDIA_TYPE: Final = "application/json"

encode_json: Final = msgspec.json.Encoder().encode


class Body(NamedTuple):
    """A JSON body and its entity tag. The tag follows from the bytes, so it outlives snapshots and restarts."""

    data: bytes
    etag: str


def make_body(value: Any) -> Body:
    """The body that a value becomes."""
    return tag(encode_json(value))


def tag(data: bytes) -> Body:
    """The body that consists of these bytes."""
    return Body(data, f'"{xxhash.xxh3_128_hexdigest(data)}"')


def answer(request: Request, body: Body, media_type: str = MEDIA_TYPE) -> Response:
    """200 with the body, or 304 without it if the request names its tag."""
    headers = {"etag": body.etag, "cache-control": "private, no-cache", "vary": "Accept"}
    if has_tag(request, body.etag):
        return Response(status_code=304, headers=headers)
    return Response(body.data, headers=headers, media_type=media_type)


def has_tag(request: Request, etag: str) -> bool:
    """Whether the request names this tag: whoever sends it has the body already."""
    return _matches(request.headers.get("if-none-match", ""), etag)


def _matches(if_none_match: str, etag: str) -> bool:
    tags = (each.strip().removeprefix("W/") for each in if_none_match.split(","))
    return any(each in (etag, "*") for each in tags)
