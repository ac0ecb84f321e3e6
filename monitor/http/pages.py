"""Cursors: where a list goes on. They name the last item seen, so that items that come or go shift nothing."""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from monitor.http.problems import Problem

Key = tuple[str, ...]


class Page(NamedTuple):
    """Keys of one page, and the cursor of the next or None."""

    keys: Sequence[Key]
    next_cursor: str | None


def page(keys: Sequence[Key], cursor: str | None, limit: int) -> Page:
    """At most ``limit`` of the ascending keys, from behind the cursor on.

    Raises
    ------
    Problem
        422: the cursor is not one that this service gave.
    """
    start = 0 if cursor is None else bisect_right(keys, read_cursor(cursor))
    shown = keys[start : start + limit]
    return Page(shown, write_cursor(shown[-1]) if shown and start + limit < len(keys) else None)


def write_cursor(key: Key) -> str:
    """The cursor behind this item."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def read_cursor(cursor: str) -> Key:
    """The item that a cursor stands behind.

    Raises
    ------
    Problem
        422: the cursor is not one that this service gave.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=Key)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError):
        raise Problem(
            422, "invalid-parameter", f"cursor must be the next_cursor of the page before, got {cursor[:80]!r}"
        ) from None
