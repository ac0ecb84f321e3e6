"""What requests about refits say: their bodies, and what is checked of them."""

import re
from typing import Final, TypeVar

import msgspec
from fastapi import Request

from monitor.durations import parse_duration, to_ms
from monitor.http.problems import Problem
from monitor.maps import OptionValue

T = TypeVar("T")

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")

_MOST_SHOWN: Final = 80


class Refit(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be fitted."""

    method: str | None = None
    options: dict[str, OptionValue] | None = None
    version: str | int | None = None
    window: str | float | None = None
    promote: bool | None = None


class Note(msgspec.Struct, forbid_unknown_fields=True):
    """Why."""

    note: str = ""


class RollBack(msgspec.Struct, forbid_unknown_fields=True):
    """Which version's map is taken back, and why."""

    version: str | int | None = None
    note: str = ""


def idempotency_key(request: Request) -> str | None:
    """The key under which a request is made once; None where it has none.

    Raises
    ------
    Problem
        422: it cannot be one.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        got = repr(key) if len(key) <= _MOST_SHOWN else f"{len(key)} characters"
        raise Problem(
            422,
            "invalid-parameter",
            f"Idempotency-Key must have 1 to 255 printable ASCII characters without spaces, got {got}",
        )
    return key


def comes_from_page(request: Request) -> bool:
    """Whether a browser says that a page asks: any site's may send a body without a type, but not JSON."""
    return "origin" in request.headers or "sec-fetch-site" in request.headers


def read_struct(body: bytes, kind: type[T], example: str) -> T:
    """A request's body.

    Raises
    ------
    Problem
        422: it is no JSON, or not of this form.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(422, "invalid-input", f"the body must be JSON like {example}: {error}") from None


def read_window(value: str | float) -> int:
    """Milliseconds of a duration in a request.

    Raises
    ------
    Problem
        422: it is none, or of no length.
    """
    try:
        window_ms = to_ms(parse_duration(value))
    except ValueError as error:
        raise Problem(422, "invalid-input", f"window {error}, got {value!r}") from None
    if window_ms == 0:
        raise Problem(422, "invalid-input", f"window must be longer than 0, got {value!r}; leave it out for all events")
    return window_ms


def text_of_version(version: str | int | None) -> str | None:
    """A version as events have it: integers count as they are written, and an empty one is left out."""
    return None if version in (None, "") else str(version)


def checked_note(note: str) -> str:
    """A note for the audit trail.

    Raises
    ------
    Problem
        422: it is longer than 2000 characters.
    """
    if len(note) > 2000:
        raise Problem(422, "invalid-input", f"note must have at most 2000 characters, got {len(note)}")
    return note
