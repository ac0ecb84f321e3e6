"""Oversized, malformed, hostile and slow requests to a real service, with bounds on its memory and on time."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.attacks.service import MIB, Attacked

_BODY_BYTES: Final = 4 * MIB
_MAX_EVENTS: Final = 50_000
_MAX_RISE_MIB: Final = 64
_MAX_SECONDS: Final = 20.0
"""Far more than any of them takes (a second), and less than what a request of them took before."""

JSON, LINES = "application/json", "application/x-ndjson"


def filled(unit: bytes, first: bytes = b"", last: bytes = b"") -> bytes:
    """As many units as a body may have."""
    return first + unit * ((_BODY_BYTES - len(first) - len(last)) // len(unit)) + last


def valid_events() -> bytes:
    """As many valid events as a request may have."""
    now_ms = time.time_ns() // 1_000_000
    return b"\n".join(
        b'{"type":"prediction","model":"m","id":%d,"ts":%d,"p":0.5}' % (at, now_ms) for at in range(_MAX_EVENTS)
    )


def test_no_request_fills_the_memory(serve: Callable[..., Attacked]) -> None:
    service = serve()
    service.ready()
    bodies: list[tuple[str, bytes, str, int]] = [
        ("numbers", filled(b"1,", b"[", b"1]"), JSON, 413),
        ("objects", filled(b"{},", b"[", b"{}]"), JSON, 413),
        ("bad lines", filled(b"x\n"), LINES, 413),
        ("objects in lines", filled(b"{}\n"), LINES, 413),
        ("empty lines", filled(b"\n", b"x"), LINES, 422),
        ("one deep array", filled(b"["), JSON, 422),
        ("one wide event", filled(b"[],", b"[[", b"[]]]"), JSON, 422),
        ("one number", filled(b"1"), JSON, 422),
        ("long vectors", b"[" + b",".join([b'{"p":[' + b"0," * 500_000 + b"0]}"] * 4) + b"]", JSON, 422),
        ("as many bad events as may be", b"[" + b"1," * (_MAX_EVENTS - 1) + b"1]", JSON, 422),
        ("as many good ones", valid_events(), LINES, 202),
    ]
    service.ask("/v1/events", valid_events()[:10_000], LINES)
    for name, body, media, expected in bodies:
        assert len(body) <= _BODY_BYTES
        for at_once in (1, 4):
            before, began = service.memory_mib(), time.monotonic()
            with ThreadPoolExecutor(at_once) as callers:
                statuses = callers.map(lambda _: service.ask("/v1/events", body, media)[0], range(at_once))  # noqa: B023
            assert set(statuses) == {expected}, name
            assert time.monotonic() - began < _MAX_SECONDS, name
            assert service.peak_mib() - before < at_once * _MAX_RISE_MIB, (name, at_once)
    assert service.readiness()[0] == 200
