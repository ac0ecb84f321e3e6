"""Reads requests: bodies within their limits, their media types, queries, and the cursors of lists."""

import asyncio
import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from monitor.durations import format_ms, parse_duration, to_ms
from monitor.errors import InputError
from monitor.events.fields import Rejected
from monitor.events.times import format_time, read_time
from monitor.http.problems import Problem, wrong_parameter

T = TypeVar("T")
Key = tuple[str, ...]


MAX_NOTE: Final = 2000
_JSON: Final = "application/json"
_SMALL_BYTES: Final = 64 * 1024
_MILLISECONDS: Final = re.compile(r"-?[0-9]{1,18}")
_SPACED_OFFSET: Final = re.compile(r" (?=\d\d:\d\d$)")


def parameter(description: str, example: str | None = None, *, default: Any = "", **options: Any) -> Any:
    """A parameter of a query: its meaning, and an example; `options` are arguments of pydantic's Field.

    Without `default` it is text, and empty where it is left out.
    """
    return Field(default, description=description, examples=None if example is None else [example], **options)


class Parameters(BaseModel):
    """The query parameters of a route; others are refused. An empty one counts as left out."""

    model_config = ConfigDict(extra="forbid")


class PageParameters(Parameters):
    """The query parameters of a list."""

    limit: int = parameter("items on a page", default=100, ge=1, le=1000)
    cursor: str = parameter("next_cursor of the page before")


async def read_body(
    request: Request, max_bytes: int, seconds: float, acquire: Callable[[int], bool] = lambda _: True
) -> bytes:
    """The body; never more of it is in memory than ``max_bytes``.

    FastAPI's own parameters for bodies would read them before the caller is authorized.

    Parameters
    ----------
    acquire
        Whether so many further bytes may be held.

    Raises
    ------
    Problem
        413 if it is longer than ``max_bytes``, 503 if its bytes may not be held, 408 if it takes longer than
        ``seconds``, 415 if it is compressed.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("identity", ""):
        raise Problem(
            415,
            "unsupported-encoding",
            f"Content-Encoding must be identity, got {encoding}; send the body uncompressed",
            headers={"accept-encoding": "identity"},
        )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes, f"{declared} bytes")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes, "more")
                if not acquire(len(chunk)):
                    raise Problem(
                        503,
                        "busy",
                        "the requests of all callers hold as many bytes as they may, or yours your share of them; send"
                        " fewer at one time, or try again later",
                    )
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            408, "slow-body", f"the body was not complete after {seconds:g} seconds; {size} bytes came"
        ) from None
    return b"".join(chunks)


async def read_optional_body(request: Request, seconds: float) -> bytes:
    """A small JSON body; ``{}`` where there is none."""
    # Pages of other sites may send a body without a type, but not JSON: browsers name the page.
    typed = any(name in request.headers for name in ("content-type", "origin", "sec-fetch-site"))
    if typed:
        check_media_type(request, _JSON)
    body = await read_body(request, _SMALL_BYTES, seconds)
    if body and not typed:
        check_media_type(request, _JSON)
    return body or b"{}"


def _too_large(max_bytes: int, got: str) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"the body must have at most {max_bytes} bytes, got {got}; send it in several requests",
        limit_bytes=max_bytes,
    )


def check_media_type(request: Request, *allowed: str) -> str:
    """The media type of the body, one of those allowed.

    The types of forms are refused because any web page may send them to any service without asking first (CORS).

    Raises
    ------
    Problem
        415.
    """
    declared = request.headers.get("content-type", "")
    media = declared.partition(";")[0].strip().lower()
    if media not in allowed:
        raise Problem(
            415,
            "unsupported-media-type",
            f"Content-Type must be {' or '.join(allowed)}, got {declared or 'none'}",
            headers={"accept": ", ".join(allowed)},
        )
    return media


def parse_body(body: bytes, read: Callable[[bytes], T], example: str) -> T:
    """A JSON body, read by the :func:`monitor.http.schemas.reader` of its model.

    Raises
    ------
    InputError
        It is not JSON, or not of this form.
    """
    try:
        return read(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body must be JSON like {example}: {error}") from None


def parse_step(text: str, least_ms: int) -> int:
    """The step between points of a history, in milliseconds. Raises Problem (422) if it is none, or too short."""
    try:
        step_ms = to_ms(parse_duration(text))
    except ValueError as error:
        raise wrong_parameter(f"step {error}, got {text[:80]!r}") from None
    if step_ms < least_ms:
        least = format_ms(least_ms)
        raise wrong_parameter(f"step must be at least {least}, got {text}: no more is kept")
    return step_ms


def parse_time(text: str, name: str) -> int:
    """Milliseconds since the epoch of a query parameter: RFC 3339, or integer milliseconds. Raises Problem (422)."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        # In a query a plus sign means a space, and few write %2B: 10:00:00+01:00 arrives as 10:00:00 01:00.
        return read_time(_SPACED_OFFSET.sub("+", text), text, name)
    except Rejected as error:
        raise wrong_parameter(error.detail) from None


def parse_end(text: str, name: str, now_ms: int) -> int:
    """A time to come, in milliseconds since the epoch: RFC 3339, or how long from now. Raises Problem (422)."""
    try:
        end_ms = now_ms + to_ms(parse_duration(text))
    except ValueError:
        end_ms = parse_time(text, name)
    if end_ms <= now_ms:
        raise wrong_parameter(f"{name} must be later than now, {format_time(now_ms)}, got {text}")
    return end_ms


async def _no_parameters(_: Annotated[Parameters, Query()]) -> None:
    """Validation refuses every parameter, as the model has none."""


NO_PARAMETERS = Depends(_no_parameters)
"""A dependency of routes without query parameters: 422 if there is one."""


def paginate(items: Sequence[T], cursor: str, limit: int, key: Callable[[T], Key]) -> tuple[Sequence[T], str | None]:
    """One page, and the cursor of the next one or None.

    The page is at most ``limit`` of the items, which ascend by their keys, after the cursor; from the first if the
    cursor is empty.

    A cursor names the last item of a page, so items that are added or removed shift nothing.

    Raises
    ------
    Problem
        422: the cursor was not issued by this service.
    """
    start = bisect_right(items, read_cursor(cursor), key=key) if cursor else 0
    page = items[start : start + limit]
    return page, write_cursor(*key(page[-1])) if page and start + limit < len(items) else None


def read_id(cursor: str) -> str:
    """The id that the cursor of a list by ids names. Raises Problem (422) if it names none."""
    key = read_cursor(cursor)
    if len(key) != 1:
        raise wrong_cursor(cursor)
    return key[0]


def first_page(found: Sequence[T], limit: int, id_of: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """The first ``limit`` of up to one more, and the cursor of the next page, or None where there are no more."""
    shown = found[:limit]
    return shown, write_cursor(id_of(shown[-1])) if len(found) > len(shown) else None


def checked_note(note: str) -> str:
    """A note for the audit trail. Raises Problem (422) if it is too long."""
    if len(note) > MAX_NOTE:
        raise InputError(f"note must have at most {MAX_NOTE} characters, got {len(note)}")
    return note


def write_cursor(*key: str) -> str:
    """The cursor of the page that begins after this item."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def read_cursor(cursor: str) -> Key:
    """The item that a cursor names. Raises Problem (422) if the cursor was not issued by this service."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=Key)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError):
        raise wrong_cursor(cursor) from None


def wrong_cursor(cursor: str) -> Problem:
    """The problem of a cursor that was not issued by this service."""
    return wrong_parameter(f"cursor must be the next_cursor of the page before, got {cursor[:80]!r}")
