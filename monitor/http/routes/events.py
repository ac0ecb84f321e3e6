"""POST /v1/events: writes events to the log, for producers without a Kafka client."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import maxsize
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import numpy as np
from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import Conflict, Forbidden, SourceError, SourceUnavailable
from monitor.events.codec import Decoder
from monitor.events.encode import partition_key
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, ModelPolicy, Reason, RecordBatch
from monitor.events.partitions import partitions_of
from monitor.events.strata import Caps, Strata, beyond_cap, undeclared
from monitor.http.authorization import Of, caller_of, may, needs
from monitor.http.element_loops import count_elements
from monitor.http.problems import Problem
from monitor.http.request_parsing import NO_PARAMETERS, check_media_type, read_body
from monitor.http.responses import BODY_PROBLEMS, JSON, encode_json, problems
from monitor.http.schemas import TakenBody
from monitor.http.services import Services, ServicesOf
from monitor.stream.status import PipelineStatus

router: Final = APIRouter(tags=["events"])

_LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_CLOUDEVENT: Final = "application/cloudevents+json"
_CLOUDEVENTS: Final = "application/cloudevents-batch+json"
_ALLOWED: Final = (JSON, *_LINES, _CLOUDEVENT, _CLOUDEVENTS)

_SHOWN_ERRORS: Final = 100

_PIECE: Final = 2_000
"""Events that are checked together, so that the objects of the others do not exist at the same time."""

_UNCAPPED: Final = Caps(models=maxsize, versions=maxsize, segment_values=maxsize, strata=maxsize)
_ANY: Final = ModelPolicy(horizon_ms=0, lateness_ms=0)
"""Policies and caps are applied where the events are read."""

_FORBIDDEN: Final = "forbidden_model"
"""The reason of an event of a model that the caller may not write."""

_WHITESPACE: Final = b" \t\r\n"
_LINE: Final = re.compile(rb"[^ \t\r\n][^\n]*")

_DESCRIPTION: Final = """\
One event, a JSON array of events, or one event per line. CloudEvents 1.0 are accepted too, in both modes and in
batches.
Each event names its `type`.

Every event is checked on its own by the rules of the stream: valid events are written, with their id as key, and are
durable when the answer comes; the others are listed with index, key and value. If none is valid, nothing is written and
the answer is 422; if all are of models that the key may not write, 403. A body of more events than `api.max_events` is
refused whole: 413.

After a 503, some may have been written. Send all of them again: an event that was written before changes nothing.
"""

_PREDICTION: Final = {
    "type": "prediction",
    "model": "churn",
    "version": "7",
    "id": "7f3a",
    "ts": "2026-11-20T10:00:00Z",
    "p": 0.83,
    "segments": {"region": "eu"},
}
_OUTCOME: Final = {"type": "outcome", "model": "churn", "id": "7f3a", "ts": "2026-11-20T18:00:00Z", "y": 1}
_EXAMPLES: Final = {
    "one": {"summary": "One event", "value": _PREDICTION},
    "several": {"summary": "Several", "value": [_PREDICTION, _OUTCOME]},
}


@dataclass(frozen=True, slots=True)
class _Posted:
    """An event as the log would hold it. Its offset is its place in the request."""

    offset: int
    timestamp: int
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = None


_JSON_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@router.post(
    "/v1/events",
    dependencies=[needs(Role.WRITE, Of.ANY), NO_PARAMETERS],
    status_code=202,
    summary="Write events to the log",
    description=_DESCRIPTION,
    response_model=TakenBody,
    response_description="At least one event was accepted",
    responses=problems(409, *BODY_PROBLEMS),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
                    "examples": _EXAMPLES,
                },
                _LINES[0]: {
                    "schema": {"type": "string"},
                    "example": "\n".join(encode_json(event).decode() for event in (_PREDICTION, _OUTCOME)),
                },
            },
        }
    },
)
async def events(request: Request, services: ServicesOf) -> Response:
    media = check_media_type(request, *_ALLOWED)
    may_write = may(request, Role.WRITE)
    with services.body_bytes.held_by(caller_of(request)) as acquire:
        body = await read_body(request, services.api.max_event_bytes, services.body_seconds, acquire)
        try:
            answer = await services.writes.run(lambda: _write(services, body, media, request.headers, may_write))
        except Forbidden:
            services.authorization.count_forbidden(request)
            raise
    return Response(answer, 202, media_type=JSON)


def _write(services: Services, body: bytes, media: str, headers: Headers, may_write: Callable[[str], bool]) -> bytes:
    """Check and write the events of a body; the JSON of the answer."""
    if services.topics is None:
        raise Conflict(
            "events are written as JSON, and the service reads no topic of JSON; send them to its topics with the "
            "producer's own serialiser"
        )
    values, attributes = _read_events(body, media, headers, services.api.max_events)
    messages: list[Message] = []
    shown: list[dict[str, Any]] = []
    forbidden, now_ms, decoder = 0, services.clock.now_ms(), services.decoder()
    for first in range(0, len(values), _PIECE):
        piece = [
            _Posted(at, now_ms, bytes(value), attributes)
            for at, value in enumerate(values[first : first + _PIECE], start=first)
        ]
        valid, errors = _check(services, services.topics, decoder, piece, may_write)
        messages += valid
        shown += errors[: _SHOWN_ERRORS - len(shown)]
        forbidden += sum(error["reason"] == _FORBIDDEN for error in errors)
    rejected = len(values) - len(messages)
    if not messages:
        first_error = f"the first: {shown[0]['detail']} (index {shown[0]['index']})"
        if forbidden == rejected:
            raise Forbidden(f"none of the {rejected} events may be written; {first_error}")
        raise Problem(
            422,
            "invalid-events",
            f"none of the {rejected} events is valid; {first_error}",
            accepted=0,
            rejected=rejected,
            errors=shown,
        )
    try:
        services.writer.write(messages)
    except SourceError as error:
        raise SourceUnavailable(
            f"some of the {len(messages)} valid events may not have been written: {error}. Send all of "
            "them again: an event that was written before changes nothing"
        ) from error
    return encode_json({"accepted": len(messages), "rejected": rejected, "errors": shown})


def _read_events(
    body: bytes, media: str, headers: Headers, max_events: int
) -> tuple[Sequence[bytes | msgspec.Raw], Sequence[tuple[str, bytes]]]:
    """The bytes of each event of a body, as they were sent, and the headers that each has in the log.

    Raises
    ------
    Problem
        422: the body holds no events; 413: it holds more than ``max_events``.
    """
    if "ce-specversion" in headers:
        return [body], _binary_headers(headers)
    if media == _CLOUDEVENT:
        return [body], [("content-type", media.encode())]
    stripped = body.strip(_WHITESPACE)
    values: Sequence[bytes | msgspec.Raw]
    if media not in _LINES and stripped.startswith(b"["):
        if count_elements(np.frombuffer(stripped, np.uint8), max_events + 1) > max_events:
            raise _too_many(max_events)
        values = _elements(stripped)
    elif media in _LINES or (b"\n" in stripped and _is_lines(stripped)):
        values = [line[0].rstrip(_WHITESPACE) for line in islice(_LINE.finditer(stripped), max_events + 1)]
        if len(values) > max_events:
            raise _too_many(max_events)
    else:
        values = [stripped] if stripped else []
    if not values:
        raise Problem(422, "invalid-events", "the body holds no event; send one, a JSON array of them, or one a line")
    return values, ()


def _too_many(max_events: int) -> Problem:
    return Problem(
        413,
        "too-many-events",
        f"the body must hold at most {max_events} events (api.max_events), got more; send them in several requests",
        limit_events=max_events,
    )


def _elements(array: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(array, type=list[msgspec.Raw])
    except _JSON_ERRORS as error:
        raise Problem(422, "invalid-events", f"the body is not a valid JSON array: {error}") from None


def _is_lines(body: bytes) -> bool:
    """Whether a body of several lines is one event a line, and not one event that is spread over them."""
    first, _, _ = body.partition(b"\n")
    try:
        msgspec.json.decode(first, type=msgspec.Raw)
    except _JSON_ERRORS:
        return False
    return True


def _binary_headers(headers: Headers) -> list[tuple[str, bytes]]:
    """The attributes of a binary CloudEvent: ``ce-`` headers in HTTP are ``ce_`` headers in the log."""
    return [
        (f"ce_{name.removeprefix('ce-')}", unquote(value).encode())
        for name, value in headers.items()
        if name.startswith("ce-")
    ]


def _check(
    services: Services, topics: Topics, decoder: Decoder, records: Sequence[_Posted], may_write: Callable[[str], bool]
) -> tuple[list[Message], list[dict[str, Any]]]:
    """The valid events as messages, and what is wrong with the others, by index."""
    # New names go into a temporary object, so that names that a caller invents do not stay in memory.
    strata = Strata(lambda _: _ANY, _UNCAPPED)
    decoded = decoder.decode(RecordBatch("", 0, records, len(records)), strata, None)
    errors = {letter.offset: (letter.reason.value, letter.detail) for letter in decoded.dead_letters}
    valid = [record for record in records if record.offset not in errors]
    # The model that the decoder reads decides whether an event may be written.
    names, columns = strata.models, decoded.columns
    refusals = [_refusal(name, services.policy(name), may_write) for name in names]
    messages: dict[int, Message] = {}
    model_of: dict[int, str] = {}
    for record, kind, model in zip(valid, columns.kind.tolist(), columns.model.tolist(), strict=True):
        refusal = refusals[model]
        if refusal is not None:
            errors[record.offset] = refusal
            continue
        topic = _topic_of(Kind(kind), topics)
        messages[record.offset] = Message(topic, record.value, partition_key(record.value), record.headers)
        model_of[record.offset] = names[model]
    undeclared_messages = {at: message for at, message in messages.items() if model_of[at] not in services.declared}
    for at in _beyond_cap(services.status(), undeclared_messages, model_of):
        del messages[at]
        errors[at] = (Reason.REFUSED_MODEL.value, beyond_cap(model_of[at]))
    return list(messages.values()), [
        {"index": at, "reason": reason, "detail": detail} for at, (reason, detail) in sorted(errors.items())
    ]


def _refusal(model: str, policy: ModelPolicy | None, may_write: Callable[[str], bool]) -> tuple[str, str] | None:
    if not may_write(model):
        # The same words whether there is such a model or not.
        return _FORBIDDEN, f"events of model {model!r} need the role write for it"
    return (Reason.REFUSED_MODEL.value, undeclared(model)) if policy is None else None


def _beyond_cap(status: PipelineStatus, messages: Mapping[int, Message], model_of: Mapping[int, str]) -> list[int]:
    """The events that go to a partition that takes no more models, among the partitions that this replica reads."""
    if not status.full:
        return []
    partitions = partitions_of([message.key or b"" for message in messages.values()], status.partition_count)
    return [
        at
        for at, partition in zip(messages, partitions.tolist(), strict=True)
        if partition in status.full and model_of[at] not in status.full[partition]
    ]


def _topic_of(kind: Kind, topics: Topics) -> str:
    """The topic of that kind alone, else one of all kinds; else any, as each event names its kind."""
    return min(topics.kinds, key=lambda topic: (topics.kinds[topic] != kind, topics.kinds[topic] is not None, topic))
