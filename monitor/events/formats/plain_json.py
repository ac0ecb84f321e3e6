"""The project's own JSON: one object a message."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, TypeVar

import msgspec

from monitor.events.examine import examine
from monitor.events.formats.base import Format, Messages
from monitor.events.model import Kind
from monitor.events.wire import Event, decode_event

VERSION: Final = 1


@cache
def event_schema(kind: Kind) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one type of event.

    The decoder also refuses days that no calendar has, times out of range, base64 that is
    not of finite float32, and numbers with a fraction of zero as ids or versions.
    """
    name = f"{kind.name.lower()}.v{VERSION}.json"
    text = resources.files("monitor.events").joinpath("schema", name).read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


_T = TypeVar("_T")

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def decode(messages: Messages) -> list[Event | None]:
    """Decode each message in C.

    One call for a whole batch, joined to a JSON array, is no faster, and a message like ``{},{}`` would shift the rest.
    """
    return decode_each(decode_event, utf8_values(messages.values))


def decode_each(
    decode_one: Callable[[Any], _T], values: Iterable[Any], errors: tuple[type[Exception], ...] = UNREADABLE
) -> list[_T | None]:
    """Call a decoder for each value; None where it raises one of these errors."""
    decoded: list[_T | None] = []
    rest = iter(values)
    while True:
        try:
            # Keeps what was decoded before the message that raises.
            decoded.extend(map(decode_one, rest))
        except errors:
            decoded.append(None)
        else:
            return decoded


def utf8_values(values: Sequence[bytes]) -> Sequence[bytes]:
    """Replace values that are not UTF-8 by b"": msgspec does not check the bytes of unknown keys."""
    if all(map(bytes.isascii, values)):
        return values
    return [value if value.isascii() or _is_utf8(value) else b"" for value in values]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


FORMAT = Format(decode, examine)
