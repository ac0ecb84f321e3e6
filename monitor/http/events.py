"""POST /v1/events: events into the log, by whoever has no Kafka client."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import Forbidden, SourceUnavailable
from monitor.events.cloudevents import structured_event
from monitor.events.encode import partition_key
from monitor.events.fields import text_of
from monitor.events.model import Kind, Record, RecordBatch
from monitor.events.strata import REFUSED, Caps, Strata
from monitor.events.wire import decode_fields
from monitor.http.access import Of, gate_of, may, needs
from monitor.http.answers import MEDIA_TYPE, encode_json
from monitor.http.examples import OUTCOME, PREDICTION
from monitor.http.parts import Parts
from monitor.http.problems import Problem
from monitor.http.requests import Computations, check_json, read_body
from monitor.http.schemas import TakenBody, ok, problems
from monitor.sources.base import Message, Topics

_LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_CLOUDEVENT: Final = "application/cloudevents+json"
_CLOUDEVENTS: Final = "application/cloudevents-batch+json"
_ALLOWED: Final = (MEDIA_TYPE, *_LINES, _CLOUDEVENT, _CLOUDEVENTS)

_SHOWN_ERRORS: Final = 100

_UNCAPPED: Final = Caps(models=maxsize, versions=maxsize, segment_values=maxsize, strata=maxsize)
"""What is one too many is decided where the events are counted."""

FORBIDDEN: Final = "forbidden_model"
"""Why an event is not taken of a model that who sends it may not write."""

_WHITESPACE: Final = b" \t\r\n"

_DESCRIPTION: Final = """\
One event, a JSON array of events, or one event a line. CloudEvents 1.0 are taken too, in both modes and in batches.
Each event names its `type`.

Every event is checked by the rules of the stream and stands alone: the valid ones are written, under their id as key,
and are durable when the answer comes; each of the others is named with its index, key and value. If none is valid,
nothing is written and the answer is 422; if all are of models that the key may not write, 403.

After a 503, some may have been written. Send all of them again: an event that is known already changes nothing.
"""

_EXAMPLES: Final = {
    "one": {"summary": "One event", "value": PREDICTION},
    "several": {"summary": "Several", "value": [PREDICTION, OUTCOME]},
}


@dataclass(frozen=True, slots=True)
class _Posted:
    """An event as the log would hold it. Its offset is its place in the request."""

    offset: int
    timestamp: int
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = None


class _Checked(NamedTuple):
    messages: list[Message]
    errors: list[dict[str, Any]]


def events_router(parts: Parts, writes: Computations) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["events"])

    def take(
        body: bytes, media: str, headers: Headers, may_write: Callable[[str], bool]
    ) -> tuple[int, list[dict[str, Any]]]:
        records = _records(body, media, headers, parts.clock.now_ms())
        checked = _check(parts, records, may_write)
        if not checked.messages:
            if all(error["reason"] == FORBIDDEN for error in checked.errors):
                raise Forbidden(f"none of the {len(records)} events may be written; {_first(checked.errors)}")
            raise Problem(
                422,
                "invalid-events",
                f"none of the {len(records)} events is valid; {_first(checked.errors)}",
                accepted=0,
                rejected=len(checked.errors),
                errors=checked.errors[:_SHOWN_ERRORS],
            )
        try:
            parts.writer.write(checked.messages)
        except SourceUnavailable as error:
            raise SourceUnavailable(
                f"some of the {len(checked.messages)} valid events may not have been written: {error}. Send all of "
                "them again: an event that is known already changes nothing"
            ) from error
        return len(checked.messages), checked.errors

    @router.post(
        "/v1/events",
        dependencies=[needs(Role.WRITE, Of.ANY)],
        status_code=202,
        summary="Events into the log",
        description=_DESCRIPTION,
        response_class=Response,
        responses=ok(TakenBody, "At least one event was taken", 202) | problems(400, 408, 413, 415, 422, 503),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    MEDIA_TYPE: {
                        "schema": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
                        "examples": _EXAMPLES,
                    },
                    _LINES[0]: {
                        "schema": {"type": "string"},
                        "example": "\n".join(encode_json(event).decode() for event in (PREDICTION, OUTCOME)),
                    },
                },
            }
        },
    )
    async def events(request: Request) -> Response:
        media = check_json(request, _ALLOWED)
        body = await read_body(request, parts.limits.event_bytes, parts.limits.body_seconds)
        may_write = may(request, Role.WRITE)
        try:
            accepted, errors = await writes.run(lambda: take(body, media, request.headers, may_write))
        except Forbidden:
            gate_of(request).note_forbidden(request)
            raise
        answer = {"accepted": accepted, "rejected": len(errors), "errors": errors[:_SHOWN_ERRORS]}
        return Response(encode_json(answer), 202, media_type=MEDIA_TYPE)

    return router


def _records(body: bytes, media: str, headers: Headers, now_ms: int) -> list[_Posted]:
    """The events of a body, each with its bytes as they were sent.

    Raises
    ------
    Problem
        422: the body holds no events.
    """
    if "ce-specversion" in headers:
        return [_Posted(0, now_ms, body, _binary_headers(headers))]
    if media == _CLOUDEVENT:
        return [_Posted(0, now_ms, body, [("content-type", media.encode())])]
    stripped = body.strip(_WHITESPACE)
    if media not in _LINES and stripped.startswith(b"["):
        values = _elements(stripped)
    elif media in _LINES or (b"\n" in stripped and _is_lines(stripped)):
        values = [line for line in (line.strip(_WHITESPACE) for line in stripped.split(b"\n")) if line]
    else:
        values = [stripped] if stripped else []
    if not values:
        raise Problem(422, "invalid-events", "the body holds no event; send one, a JSON array of them, or one a line")
    return [_Posted(at, now_ms, value) for at, value in enumerate(values)]


def _elements(array: bytes) -> list[bytes]:
    try:
        return [bytes(each) for each in msgspec.json.decode(array, type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(422, "invalid-events", f"the body begins as a JSON array and is none: {error}") from None


def _is_lines(body: bytes) -> bool:
    """Whether a body of several lines is one event a line, and not one event that is spread over them."""
    first, _, _ = body.partition(b"\n")
    try:
        msgspec.json.decode(first, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _binary_headers(headers: Headers) -> list[tuple[str, bytes]]:
    """The attributes of a binary CloudEvent: ``ce-`` headers in HTTP are ``ce_`` headers in the log."""
    return [
        (f"ce_{name.removeprefix('ce-')}", unquote(value).encode())
        for name, value in headers.items()
        if name.startswith("ce-")
    ]


def _check(parts: Parts, records: Sequence[_Posted], may_write: Callable[[str], bool]) -> _Checked:
    """The valid events as messages, and what is wrong with the others, by index."""
    # The names go into an object of their own, so that nothing a caller invents stays behind.
    # Models that may not be written are told apart by the names that the decoder itself finds.
    strata = Strata(lambda name: parts.policy(name) if may_write(name) else None, _UNCAPPED)
    as_records: Sequence[Record] = records
    decoded = parts.decoder().decode(RecordBatch("", 0, as_records, len(records)), strata, None)
    errors = [
        {"index": letter.offset, "reason": letter.reason.value, "detail": letter.detail}
        for letter in decoded.dead_letters
    ]
    invalid = {letter.offset for letter in decoded.dead_letters}
    valid = [record for record in records if record.offset not in invalid]
    messages = []
    columns = decoded.columns
    for record, kind, model in zip(valid, columns.kind.tolist(), columns.model.tolist(), strict=True):
        if model == REFUSED:
            errors.append({"index": record.offset} | _refused(_model_of(record), may_write))
            continue
        topic = _topic_of(Kind(kind), parts.topics)
        messages.append(Message(topic, record.value, partition_key(record.value), record.headers))
    errors.sort(key=lambda error: error["index"])
    return _Checked(messages, errors)


def _refused(model: str, may_write: Callable[[str], bool]) -> dict[str, str]:
    if not may_write(model):
        # The same whether there is such a model or not.
        return {"reason": FORBIDDEN, "detail": f"events of model {model} take the role write for it"}
    return {
        "reason": "refused_model",
        "detail": f"model {model} is not declared; declare it in the settings, or see GET /v1/models for those that "
        "are",
    }


def _model_of(record: _Posted) -> str:
    """The model of a valid event, as it was written."""
    fields = decode_fields(record.value)
    around = structured_event(fields, record.headers)
    return text_of(fields.model if around is None else decode_fields(around[1]).model)


def _topic_of(kind: Kind, topics: Topics) -> str:
    """The topic of that kind alone, else one of all kinds; else any, as each event names its own."""
    return min(topics.kinds, key=lambda topic: (topics.kinds[topic] != kind, topics.kinds[topic] is not None, topic))


def _first(errors: Sequence[dict[str, Any]]) -> str:
    return f"the first: {errors[0]['detail']} (index {errors[0]['index']})"
